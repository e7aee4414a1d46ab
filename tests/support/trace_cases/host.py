"""What keeps the host from feeding the device: compiling, garbage, checkpoints, other threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from tests.support.tracing import TraceBuilder

FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t>, true>"
CONVERT = "torch/_dynamo/convert_frame.py"
PIN = "torch/utils/data/_utils/pin_memory.py(28): _pin_memory_loop"


def work(t: TraceBuilder, us: float = 20_000) -> None:
    """A kernel whose end the program waits for."""
    with t.op("aten::_flash_attention_forward"):
        t.launch(FLASH, us=us)
    t.wait("cudaDeviceSynchronize")


def looped(body: Callable[[TraceBuilder, int], None], steps: int = 4, **options: object) -> TraceBuilder:
    """A training loop whose steps do something before their work."""
    t = TraceBuilder(**options)  # type: ignore[arg-type]
    with t.frame("summarize.py(140): <module>", "summarize.py(96): train"):
        for n in range(steps):
            with t.step(n + 5):
                body(t, n)
                with t.annotation("Optimizer.step#AdamW.step"):
                    t.host(50)
            t.host(20)
    return t


# -- compiling ------------------------------------------------------------------


def compile_frame(t: TraceBuilder, number: str, us: float, *, refused: bool = False) -> None:
    """Dynamo's callback: ranges as torch 2.6 to 2.13 write them."""
    with t.frame(f"{CONVERT}(2041): __call__", f"{CONVERT}(1489): compile_inner"), t.op("entire_frame_compile"):
        with t.annotation(f"entire_frame_compile_data: fn_name=_compile.compile_inner, compile_id={number}"):
            t.host(2)
        if refused:
            t.host(us)
            return
        with t.op("bytecode_tracing (dynamo_timed)"):
            t.host(us * 0.4)
        with t.op("backend_compile"), t.op("OutputGraph.call_user_compiler (dynamo_timed)"):
            t.host(us * 0.6)
    t.host(20)


def compiled(plan: dict[int, tuple[str, float, bool]], *, resumed: bool = False) -> TraceBuilder:
    """Steps of a compiled model; `plan` is step -> (compile id, us, refused)."""
    function = "torch_dynamo_resume_in_forward_at_57" if resumed else "forward"

    def step(t: TraceBuilder, n: int) -> None:
        with t.frame("torch/_dynamo/eval_frame.py(956): compile_wrapper"):
            if n in plan:
                number, us, refused = plan[n]
                compile_frame(t, number, us, refused=refused)
            with ExitStack() as stack:
                if not any(refused and step <= n for step, (_, _, refused) in plan.items()):
                    stack.enter_context(t.op("Torch-Compiled Region: 0/0"))
                stack.enter_context(t.frame(f"summarize.py({57 if resumed else 44}): {function}"))
                work(t)

    return looped(step, 5)


def first_use_of_triton_kernel() -> TraceBuilder:
    """A hand-written kernel, compiled when the first profiled step launches it."""

    def step(t: TraceBuilder, n: int) -> None:
        with t.frame("summarize.py(21): gated_norm"), ExitStack() as stack:
            if n == 0:
                stack.enter_context(t.frame("triton/runtime/jit.py(870): _do_compile"))
                t.host(40_000)
        work(t)

    return looped(step, 5)


def recorded(sizes: Sequence[int], known: set[int]) -> TraceBuilder:
    """Steps whose CUDA graph is recorded for each size that was not met before, else replayed."""
    t = TraceBuilder()
    with t.frame("summarize.py(140): <module>", "summarize.py(96): train"):
        for n, size in enumerate(sizes):
            with t.step(n), t.frame("summarize.py(44): forward"):
                with t.op("CompiledFunction", dims=[[8, size], [1024, 1024]]):
                    if size not in known:
                        record(t)
                        known.add(size)
                    correlation = t.call("cudaGraphLaunch", 20)
                    t.work("kernel", FLASH, 9_000, correlation, 7, {})
                t.wait("cudaDeviceSynchronize")
                with t.annotation("Optimizer.step#AdamW.step"):
                    t.host(50)
            t.host(20)
    return t


def record(t: TraceBuilder) -> None:
    """Inductor's recording of a graph."""
    with t.frame("torch/_inductor/cudagraph_trees.py(2326): record_function"):
        t.host(8_000)
        t.call("cudaStreamBeginCapture", 10)
        t.host(15_000)
        t.call("cudaStreamEndCapture", 30)
        t.host(4_000)


def broken(gap: float) -> TraceBuilder:
    """A compiled function in two pieces, with so much Python between them."""

    def step(t: TraceBuilder, _: int) -> None:
        with t.frame("summarize.py(44): forward"):
            with t.annotation("## Call CompiledFxGraph fgx2 ##"):
                work(t, 8_000)
            t.host(gap)
            rest = "summarize.py(57): torch_dynamo_resume_in_forward_at_57"
            with t.frame(rest), t.annotation("## Call CompiledFxGraph fk31 ##"):
                work(t, 8_000)

    return looped(step)


def wrapped(*, whole: bool, reads: bool = True, package: str = "") -> TraceBuilder:
    """A model under torch.compile's wrapper whose forward is one compiled region, or calls several."""

    def block(t: TraceBuilder, n: int) -> None:
        with t.op(f"Torch-Compiled Region: 1/{n}"), t.frame("summarize.py(12): forward"):
            work(t, 8_000)

    def step(t: TraceBuilder, _: int) -> None:
        with ExitStack() as stack:
            stack.enter_context(t.frame("torch/_dynamo/eval_frame.py(956): compile_wrapper"))
            if package:
                stack.enter_context(t.frame(package))
            if whole:
                stack.enter_context(t.op("Torch-Compiled Region: 0/0"))
            with t.frame("summarize.py(44): forward"):
                for n in range(2):
                    block(t, n) if not whole else work(t, 8_000)
                    if reads:
                        with t.op("aten::item"):
                            t.host(20)

    return looped(step)


# -- pauses -----------------------------------------------------------------------


def collecting(
    steps: Sequence[int], us: float, of: int = 4, caller: str = "summarize.py(70): free_memory"
) -> TraceBuilder:
    """`gc.collect()` in some steps."""

    def step(t: TraceBuilder, n: int) -> None:
        work(t)
        if n in steps:
            with t.frame(caller, "<built-in function collect>"):
                t.host(us)

    return looped(step, of)


def collecting_while_busy() -> TraceBuilder:
    """A collection while the device still works."""

    def step(t: TraceBuilder, _: int) -> None:
        with t.op("aten::_flash_attention_forward"):
            t.launch(FLASH, us=30_000)
        with t.frame("summarize.py(70): free_memory", "<built-in function collect>"):
            t.host(9_000)
        t.wait("cudaDeviceSynchronize")

    return looped(step)


def saving(steps: Sequence[int], us: float, of: int = 6) -> TraceBuilder:
    """Checkpoints in some steps."""

    def step(t: TraceBuilder, n: int) -> None:
        work(t)
        if n in steps:
            with t.frame("summarize.py(81): keep", "torch/serialization.py(944): save"):
                t.host(us)

    return looped(step, of)


def evaluating(steps: Sequence[int], us: float, of: int = 7) -> TraceBuilder:
    """A function of the program's that works in Python in some steps."""

    def step(t: TraceBuilder, n: int) -> None:
        work(t)
        if n in steps:
            with t.frame("summarize.py(118): score_samples"):
                t.host(us)

    return looped(step, of)


def ahead() -> TraceBuilder:
    """The host runs ahead; the last step waits for the device and seems to compute more than the others."""

    def step(t: TraceBuilder, n: int) -> None:
        with t.frame("summarize.py(44): forward"), t.op("aten::_flash_attention_forward"):
            t.launch(FLASH, us=30_000)
        t.host(28_000 if n else 8_000)
        if n == 4:
            t.wait("cudaDeviceSynchronize")

    return looped(step, 5)


def sized(sizes: Sequence[int], us: Sequence[float], **options: object) -> TraceBuilder:
    """Requests of several lengths, whose attention keeps the host busy for so long before it is launched."""

    def step(t: TraceBuilder, n: int) -> None:
        tokens = [16, sizes[n], 1024]
        with t.frame("summarize.py(52): attend"):
            for _ in range(6):
                with t.op("aten::linear", dims=[tokens, [1024, 1024]] if not options else None):
                    t.launch("nvjet_tst_128x128_64x6", us=700, grid=(sizes[n] // 4, 1, 1))
            with t.op("aten::_scaled_dot_product_cudnn_attention", dims=[tokens] * 3 if not options else None):
                t.host(us[n])
                t.launch(FLASH, us=2_000, grid=(sizes[n], 1, 1))
        t.wait("cudaDeviceSynchronize")

    return looped(step, len(sizes), **options)


_PLANS = [60, 60, 48_000, 60, 47_000, 60, 60, 60]

# -- other threads -------------------------------------------------------------------


def beside(gap: float, busy: Sequence[str], *, during_kernel: bool = False, waits: bool = False) -> TraceBuilder:
    """A second thread that works while the main one stands still (or while a kernel runs)."""

    def step(t: TraceBuilder, _: int) -> None:
        with t.op("aten::_flash_attention_forward"):
            t.launch(FLASH, us=60_000)
        if during_kernel:
            other(t, busy, gap, waits=waits)
        t.wait("cudaDeviceSynchronize")
        if not during_kernel:
            other(t, busy, gap, waits=waits)
        else:
            t.host(gap)

    return looped(step)


def other(t: TraceBuilder, frames: Sequence[str], us: float, *, waits: bool) -> None:
    """What the second thread does."""
    with t.on(t.main + 7), t.frame(*frames):
        if waits:
            with t.frame("threading.py(327): wait"):
                t.host(us)
        elif "pin_memory" in frames[0]:
            t.call("cudaHostAlloc", us)
        else:
            t.host(us)


LIMIT = {0: ("3/7", 90_000.0, False), 1: ("3/8", 6_000.0, True)}

CASES = {
    "CMP021/fires-limit-hit": lambda: compiled(LIMIT, resumed=True),
    "CMP021/fires-again-each-step": lambda: compiled({n: (f"0/{n + 1}", 60_000.0, False) for n in range(1, 5)}),
    "CMP021/fires-recording-each-size": lambda: recorded([512, 640, 576, 512, 704], {512}),
    "CMP021/silent-first-step": lambda: compiled({0: ("0/0", 90_000.0, False)}),
    "CMP021/silent-second-version-makes-sizes-dynamic": lambda: compiled(
        {0: ("0/0", 90_000.0, False), 1: ("0/1", 95_000.0, False)}
    ),
    "CMP021/silent-first-use-of-a-kernel": first_use_of_triton_kernel,
    "CMP021/silent-known-sizes": lambda: recorded([512, 640, 576, 512, 640], {512, 576, 640}),
    "CMP022/fires-idle-between-pieces": lambda: broken(6_000),
    "CMP022/silent-cheap-break": lambda: broken(150),
    "CMP024/fires-break-in-a-loop": lambda: wrapped(whole=False),
    "CMP024/silent-one-region": lambda: wrapped(whole=True, reads=False),
    "CMP024/silent-under-ddp": lambda: wrapped(whole=True, package="torch/nn/parallel/distributed.py(1640): forward"),
    "DAT006/fires-each-step": lambda: collecting([0, 1, 2, 3], 9_000),
    "DAT006/fires-every-second-step": lambda: collecting(
        [1, 3], 40_000, caller="accelerate/utils/memory.py(40): clear"
    ),
    "DAT006/silent-once": lambda: collecting([2], 5_000, 6),
    "DAT006/silent-while-the-gpu-works": collecting_while_busy,
    "LCH008/fires-checkpoints": lambda: saving([1, 3, 5], 50_000),
    "LCH008/fires-own-function": lambda: evaluating([2, 5], 60_000),
    "LCH008/fires-slow-operator-of-known-sizes": lambda: sized([512] * 8, _PLANS),
    "LCH008/silent-first-of-their-sizes": lambda: sized([512, 512, 480, 512, 304, 512, 480, 512], _PLANS),
    "LCH008/silent-other-grids": lambda: sized(
        [512, 512, 480, 512, 304, 512, 512, 512], _PLANS, options=("with_stack",)
    ),
    "LCH008/silent-even-steps": lambda: evaluating(range(7), 12_000),
    "LCH008/silent-host-ahead": ahead,
    "LCH008/silent-one-checkpoint": lambda: saving([3], 50_000),
    "LCH014/fires-pin-memory-thread": lambda: beside(18_000, [PIN]),
    "LCH014/fires-logging-thread": lambda: beside(
        18_000, ["summarize/board.py(33): run", "summarize/board.py(51): encode"]
    ),
    "LCH014/silent-while-kernels-run": lambda: beside(18_000, [PIN], during_kernel=True),
    "LCH014/silent-waiting-thread": lambda: beside(18_000, ["summarize/board.py(33): run"], waits=True),
}
