"""Launching: hosts that cannot feed the device, pauses, tiny kernels, gaps."""

from __future__ import annotations

from tests.support.tracing import TraceBuilder

SCRIPT = "train_gaze.py"
MAIN = (f"{SCRIPT}(140): <module>", f"{SCRIPT}(92): main")
GEMM = "nvjet_hsh_128x128_64x4_1x2_h_bz_coopA_TNT"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
COMPILER = ("torch/_dynamo/eval_frame.py(956): compile_wrapper", "torch/_dynamo/convert_frame.py(1460): _compile")


def _layers(t: TraceBuilder, number: int, us: float, between: float, call_us: float = 5.0) -> None:
    with t.frame(f"{SCRIPT}(33): forward"):
        for _ in range(number):
            with t.op("aten::addmm"):
                t.launch(GEMM, us=us, call_us=call_us)
            t.host(between)
    t.host(1)


def steps(
    us: float, between: float, *, layers: int = 14, number: int = 4, compiling: bool = False, call_us: float = 5.0
) -> TraceBuilder:
    """Steps of layers whose kernels take `us`; the host needs `between` from one launch to the next."""
    t = TraceBuilder()
    with t.frame(*MAIN):
        for n in range(number):
            with t.step(n):
                if compiling:
                    with t.frame(*COMPILER):
                        t.host(layers * between)
                _layers(t, layers, us, 0 if compiling else between, call_us)
    return t


def slow_way(delay: float, us: float = 60) -> TraceBuilder:
    """Kernels that begin so long after their launch; the host waits for each."""
    t = TraceBuilder()
    with t.frame(*MAIN):
        for n in range(4):
            with t.step(n):
                for _ in range(14):
                    with t.frame(f"{SCRIPT}(33): forward"), t.op("aten::addmm"):
                        t.pause(delay)
                        t.launch(GEMM, us=us)
                    t.host(delay + us)
    return t


def gaps(gap: float) -> TraceBuilder:
    """Kernels launched far ahead, with a gap of the device's own before each."""
    t = TraceBuilder()
    with t.frame(*MAIN):
        for n in range(4):
            with t.step(n):
                for _ in range(16):
                    with t.frame(f"{SCRIPT}(33): forward"), t.op("aten::addmm"):
                        t.launch(GEMM, us=20, call_us=1.5)
                        t.pause(gap)
                t.host(300)
    return t


def metric(host: float, every: int = 1) -> TraceBuilder:
    """Steps of 6 ms on the GPU, with a metric computed on the host in every so many."""
    t = TraceBuilder()
    with t.frame(*MAIN):
        for n in range(6):
            with t.step(n):
                _layers(t, 9, 700, 20)
                if n % every == 0:
                    with t.frame(f"{SCRIPT}(71): auc", "numpy/_core/fromnumeric.py(1115): argsort"):
                        t.host(host)
                else:
                    t.host(6_100)
    return t


def averaging(kind: str) -> TraceBuilder:
    """An average of weights: a loop over 60 tensors, the same by torch's modules, or one call for all tensors."""
    t = TraceBuilder()
    with t.frame(*MAIN):
        for n in range(2):
            with t.step(n):
                _layers(t, 14, 150, 10)
                with t.frame(f"{SCRIPT}(61): update_average"):
                    _average(t, kind)
                t.wait()
    return t


def _average(t: TraceBuilder, kind: str) -> None:
    if kind == "foreach":
        with t.op("aten::_foreach_lerp_"):
            t.launch("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>>", us=30)
        return
    for n in range(60):
        between = ("torch/nn/modules/module.py(1773): _call_impl", f"nn.Module: Scale_{n}") if kind == "modules" else ()
        with t.frame(*between), t.op("aten::mul_"):
            t.launch(POINTWISE, us=2)


def smoothing(parts: int) -> TraceBuilder:
    """A loop over the rows of a tensor, or three of its parts."""
    t = TraceBuilder()
    with t.frame(*MAIN):
        for n in range(3):
            with t.step(n):
                _layers(t, 20, 20, 8)
                with t.frame(f"{SCRIPT}(52): smooth"):
                    for _ in range(parts):
                        with t.op("aten::select", dims=[[240, 64], [], []]):
                            t.host(2)
                        with t.op("aten::mul", dims=[[64], [64]]):
                            t.launch(POINTWISE, us=1.5)
                t.wait()
    return t


def replayed() -> TraceBuilder:
    """CUDA graphs replayed once a step: one launch and its kernels, with the host's Python between."""
    t = TraceBuilder()
    with t.frame(*MAIN):
        for n in range(4):
            with t.step(n), t.frame(f"{SCRIPT}(40): replay", "torch/cuda/graphs.py(88): replay"):
                correlation = t.call("cudaGraphLaunch", 12)
                for _ in range(14):
                    t.work("kernel", GEMM, 20, correlation, 7, {"graph node id": 1})
                t.host(3_000)
    return t


def on_the_cpu() -> TraceBuilder:
    """No device at all."""
    t = TraceBuilder(device=None)
    with t.frame(*MAIN):
        for n in range(4):
            with t.step(n):
                for _ in range(14):
                    with t.op("aten::addmm"):
                        t.host(200)
                    t.host(100)
    return t


def loading() -> TraceBuilder:
    """A loader that takes most of each step."""
    t = TraceBuilder()
    with t.frame(*MAIN):
        for n in range(4):
            with t.step(n):
                with t.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
                    t.host(20_000)
                _layers(t, 14, 500, 10)
                t.wait()
    return t


CASES = {
    "LCH001/fires-explained-by-the-loader": loading,
    "LCH001/silent-gpu-is-busy": lambda: steps(400, 20),
    "LCH001/silent-graph-replay": replayed,
    "LCH001/silent-no-device": on_the_cpu,
    "LCH002/fires-small-layers": lambda: steps(20, 120),
    "LCH002/silent-gpu-is-busy": lambda: steps(400, 20),
    "LCH002/silent-compiling": lambda: steps(20, 120, compiling=True),
    "LCH002/silent-the-recording-may-be-it": lambda: steps(90, 120),
    "LCH002/silent-graph-replay": replayed,
    "LCH002/silent-no-device": on_the_cpu,
    "LCH002/silent-a-single-window-is-a-note": lambda: steps(20, 120, layers=56, number=1),
    "LCH003/fires-many-kernels": lambda: gaps(4),
    "LCH003/silent-kernels-follow-at-once": lambda: gaps(0.8),
    "LCH004/fires-metric-on-the-host": lambda: metric(14_000),
    "LCH004/silent-one-step-only": lambda: metric(14_000, every=6),
    "LCH004/silent-behind-the-launches": lambda: metric(6_000),
    "LCH005/fires-average-of-weights": lambda: {"input.json.gz": averaging("loop")},
    "LCH005/silent-modules": lambda: {"input.json.gz": averaging("modules")},
    "LCH005/silent-foreach": lambda: {"input.json.gz": averaging("foreach")},
    "LCH006/fires-slow-calls": lambda: steps(30, 2, call_us=140),
    "LCH006/fires-late-begin": lambda: slow_way(300),
    "LCH006/silent-queue-is-full": lambda: steps(150, 0, call_us=140),
    "LCH006/silent-usual-way": lambda: slow_way(10, us=100),
    "LCH009/fires-waits-for-the-unknown": lambda: slow_way(3_000, us=2_000),
    "LCH009/silent-usual-way": lambda: slow_way(10, us=2_000),
    "LCH011/fires-replayed-each-step": replayed,
    "LCH011/silent-no-graphs": lambda: steps(400, 20),
    "LCH013/fires-smoothing": lambda: {"input.json.gz": smoothing(24)},
    "LCH013/silent-three-parts": lambda: {"input.json.gz": smoothing(3)},
}
