"""Copies between host and device, and layouts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.tracing import TraceBuilder

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
PINNED = "HtoD (Pinned -> Device)"
PAGEABLE = "HtoD (Pageable -> Device)"
BACK = "DtoH (Device -> Pageable)"
GEMM = "nvjet_tst_128x256_64x4_2x1_v_bz_TNN"


@contextmanager
def program(t: TraceBuilder, script: str, steps: int = 4) -> Iterator[Iterator[int]]:
    """A script's frames and its numbered steps."""

    def numbered() -> Iterator[int]:
        for n in range(steps):
            with t.step(n):
                yield n

    with t.frame(f"{script}(88): <module>", f"{script}(52): main"):
        yield numbered()


def move(
    t: TraceBuilder, way: str, dims: list[int], us: float, *, item: int = 4, waits: bool = True, vain: bool = False
) -> None:
    """`x.to(device)`: the operators, the copy and, for a blocking one, the wait."""
    size = item
    for d in dims:
        size *= d
    kinds = ["float", "float", "Scalar"]
    told: dict[str, Any] = {"Concrete Inputs": ["", "", str(vain)]}
    with (
        t.op("aten::to", dims=[dims]),
        t.op("aten::_to_copy", dims=[dims]),
        t.op("aten::copy_", dims=[dims, dims, []], types=kinds, **told),
    ):
        t.copy(way, size, us)
        if waits:
            t.wait(tail=2.0)


def compute(t: TraceBuilder, us: float, function: str = "seg_train.py(20): forward") -> None:
    """One large product, at some 600 TFLOP/s."""
    rows = max(128, round(us * 6e8 / (2 * 4096 * 4096) / 128) * 128)
    with t.frame(function), t.op("aten::mm", dims=[[rows, 4096], [4096, 4096]]):
        t.launch(GEMM, us=us)


def loading(way: str, us: float, *, vain: bool = False) -> TraceBuilder:
    """Batches of 38.5 MB that a loader gives, moved to the GPU."""
    t = TraceBuilder()
    with program(t, "seg_train.py") as steps:
        for _ in steps:
            with t.annotation(LOADER), t.frame("torch/utils/data/dataloader.py(708): __next__"):
                t.host(200)
            with t.frame("seg_train.py(31): to_device"):
                move(t, way, [64, 3, 224, 224], us, waits=not vain, vain=vain)
            compute(t, 30_000)
            with t.op("aten::item"):
                t.wait()
    return t


def hidden() -> TraceBuilder:
    """Pageable copies on a side stream, while the step's kernels run."""
    t = TraceBuilder()
    with program(t, "seg_train.py") as steps:
        for _ in steps:
            compute(t, 30_000)
            with t.frame("seg_train.py(31): prefetch"), t.op("aten::copy_", dims=[[64, 3, 224, 224]]):
                t.copy(PAGEABLE, 38_535_168, 6_000, stream=13)
            with t.op("aten::item"):
                t.wait()
    return t


def records(count: int, *, stacked: bool = False) -> TraceBuilder:
    """Small records that are moved one by one, or stacked first."""
    t = TraceBuilder()
    with program(t, "rank_docs.py", 3) as steps:
        for _ in steps:
            with t.frame("rank_docs.py(17): gather"):
                for _ in range(1 if stacked else count):
                    move(t, PAGEABLE, [count if stacked else 1, 256], 2.5)
            compute(t, 6_000, "rank_docs.py(28): forward")
            with t.op("aten::item"):
                t.wait()
    return t


def features(way: str, dims: list[int], us: float) -> TraceBuilder:
    """Features that are brought back to the host in each step."""
    t = TraceBuilder()
    with program(t, "embed_corpus.py") as steps:
        for _ in steps:
            compute(t, 20_000, "embed_corpus.py(14): encode")
            with t.frame("embed_corpus.py(33): keep"):
                move(t, way, dims, us)
    return t


def bias(*, on_device: bool = False, once: bool = False, shapes: bool = True) -> TraceBuilder:
    """A bias that a forward builds with `torch.full`, on the CPU or on the device."""
    t = TraceBuilder()
    dims = [512, 1024]

    def build() -> None:
        sizes: dict[str, Any] = {"Concrete Inputs": [str(dims), "0.001", "", "", ""]} if shapes else {}
        fill = t.op("aten::fill_", dims=[dims, []] if shapes else None)
        factory = t.op("aten::full", dims=[[], []] if shapes else None, types=["ScalarList", "Scalar"], **sizes)
        with t.frame("mixer.py(41): make_bias"):
            with factory, fill:
                if on_device:
                    t.launch("void at::native::vectorized_elementwise_kernel<4, FillFunctor<float>>", us=3)
                else:
                    t.host(150)
            if not on_device:
                move(t, PAGEABLE, dims, 250)

    with program(t, "mixer.py") as steps:
        for n in steps:
            for _ in range(3):
                if n == 0 or not once:
                    build()
                compute(t, 4_000, "mixer.py(55): forward")
            with t.op("aten::item"):
                t.wait()
    return t


def collated() -> TraceBuilder:
    """A loader without workers makes the batch on the main thread, and the loop moves it."""
    t = TraceBuilder()
    dims = [64, 3, 64, 64]
    made: dict[str, Any] = {"Concrete Inputs": [str(dims)]}
    with program(t, "seg_train.py") as steps:
        for _ in steps:
            batch = t.op("aten::randn", dims=[[]], types=["ScalarList"], **made)
            loader = t.annotation(LOADER.replace("_MultiProcessing", "_SingleProcess"))
            with loader, t.frame("torch/utils/data/dataloader.py(708): __next__"), batch:
                t.host(300)
            move(t, PAGEABLE, dims, 400)
            compute(t, 30_000)
            with t.op("aten::item"):
                t.wait()
    return t


def extension(call: str, us: float) -> TraceBuilder:
    """An extension that copies its parameters with a call of the runtime of its own."""
    t = TraceBuilder()
    with program(t, "ray_render.py") as steps:
        for _ in steps:
            with t.frame("ray_render.py(26): render"), t.op("raylib::upload"):
                t.copy("HtoD (Pinned -> Device)", 8 << 20, us, call=call, call_us=us + 10 if "Async" not in call else 6)
            compute(t, 12_000, "ray_render.py(26): render")
            with t.op("aten::item"):
                t.wait()
    return t


def checkerboard(gigabytes: float, size: int = 64 << 20) -> TraceBuilder:
    """Pinned copies at a given rate, then 30 ms of work."""
    t = TraceBuilder()
    with program(t, "tiles.py") as steps:
        for _ in steps:
            with t.frame("tiles.py(19): upload"), t.op("aten::copy_", dims=[[size // 4], [size // 4], []]):
                t.copy(PINNED, size, size / gigabytes / 1e3)
            compute(t, 30_000, "tiles.py(27): forward")
            with t.op("aten::item"):
                t.wait()
    return t


COPYING = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>"
CONVOLVING = "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"
TO_LAST = "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true>"
TO_FIRST = "void cudnn::engines_precompiled::nhwcToNchwKernel<__half, __half, float, true, false>"


def convolving(layout_us: float, *, last: bool = False) -> TraceBuilder:
    """A convolution of 8 ms, with two conversions of its layout."""
    t = TraceBuilder()
    steps_of = [16384, 1, 512, 8] if last else [16384, 4096, 64, 1]
    told: dict[str, Any] = {"Input Strides": [steps_of, [72, 1, 24, 8] if last else [72, 9, 3, 1], []]}
    dims = [[64, 256, 64, 64], [256, 256, 3, 3], []]
    with program(t, "dense_unet.py") as steps:
        for _ in steps:
            convolution = t.op("aten::convolution", dims=dims, types=["c10::Half"] * 3, **told)
            with t.frame("dense_unet.py(23): forward"), convolution, t.op("aten::cudnn_convolution", dims=dims):
                if layout_us:
                    t.launch(TO_LAST, layout_us)
                t.launch(CONVOLVING, 500)
                if layout_us:
                    t.launch(TO_FIRST, layout_us)
            with t.op("aten::item"):
                t.wait()
    return t


def heads(us: float, *, tall: bool = False) -> TraceBuilder:
    """Attention whose heads are joined by a transposed reshape, and no convolution."""
    t = TraceBuilder()
    shape, steps_of = [16, 1024, 12, 128], [1572864, 128, 131072, 1]
    told: dict[str, Any] = {"Input Strides": [[1572864, 1536, 128, 1], steps_of, []]}
    with program(t, "decoder_lm.py") as steps:
        for _ in steps:
            with t.frame("decoder_lm.py(38): forward"):
                with t.op("aten::_scaled_dot_product_flash_attention"):
                    t.launch("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, bf16>>", 3_000)
                repack(t, shape, us, told)
                if tall:
                    repack(t, shape, us, told)
            compute(t, 6_000, "decoder_lm.py(38): forward")
            with t.op("aten::item"):
                t.wait()
    return t


def repack(t: TraceBuilder, shape: list[int], us: float, told: dict[str, Any]) -> None:
    """`y.transpose(1, 2).contiguous()`."""
    two = ["c10::BFloat16", "c10::BFloat16", "Scalar"]
    with (
        t.op("aten::contiguous", dims=[shape, []], types=two[1:]),
        t.op("aten::clone", dims=[shape, []], types=two[1:]),
        t.op("aten::copy_", dims=[shape, shape, []], types=two, **told),
    ):
        t.launch(COPYING, us)


def shifted() -> TraceBuilder:
    """`logits[:, :-1].flatten(0, 1)`: a slice is copied, in the order in which it lies."""
    t = TraceBuilder()
    shape = [8, 511, 32768]
    told: dict[str, Any] = {"Input Strides": [[16744448, 32768, 1], [16777216, 32768, 1], []]}
    with program(t, "decoder_lm.py") as steps:
        for _ in steps:
            compute(t, 6_000, "decoder_lm.py(38): forward")
            with t.frame("decoder_lm.py(44): loss"):
                repack(t, shape, 900, told)
            with t.op("aten::item"):
                t.wait()
    return t


def head(n: int, kernel: str, us: float, *, strides: bool = True, m: int = 4096) -> TraceBuilder:
    """A language model's last product: [m, 1024] times [1024, n]."""
    t = TraceBuilder()
    told: dict[str, Any] = {"Input Strides": [[1024, 1], [1, 1024]]} if strides else {}
    with program(t, "decoder_lm.py") as steps:
        for _ in steps:
            compute(t, 6_000, "decoder_lm.py(38): forward")
            product = t.op("aten::mm", dims=[[m, 1024], [1024, n]], **told)
            with t.frame("decoder_lm.py(61): logits"), t.op("aten::linear"), product:
                t.launch(kernel, us)
            with t.op("aten::item"):
                t.wait()
    return t


UNALIGNED = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(Params)"


CASES = {
    "MEM001/fires-half-in-nchw": lambda: convolving(110),
    "MEM001/silent-channels-last": lambda: convolving(0, last=True),
    "MEM001/silent-attention-without-convolution": lambda: heads(100),
    "MEM002/fires-bias-in-forward": bias,
    "MEM002/silent-built-on-the-device": lambda: bias(on_device=True),
    "MEM002/silent-built-in-the-first-step": lambda: bias(once=True),
    "MEM002/silent-made-by-the-loader": collated,
    "MEM002/silent-no-shapes": lambda: bias(shapes=False),
    "MEM003/fires-loader-does-not-pin": lambda: loading(PAGEABLE, 6_000),
    "MEM003/fires-non-blocking-in-vain": lambda: loading(PAGEABLE, 6_000, vain=True),
    "MEM003/silent-pinned": lambda: loading(PINNED, 700),
    "MEM003/silent-hidden-behind-compute": hidden,
    "MEM004/fires-extension-copies": lambda: extension("cudaMemcpy", 700),
    "MEM004/silent-asynchronous": lambda: extension("cudaMemcpyAsync", 700),
    "MEM005/fires-one-by-one": lambda: records(12),
    "MEM005/fires-features-brought-back": lambda: features(BACK, [64, 512, 1024], 30_000),
    "MEM005/silent-stacked": lambda: records(12, stacked=True),
    "MEM005/silent-means-brought-back": lambda: features(BACK, [64, 1024], 60),
    "MEM005/silent-a-few-small-ones": lambda: records(6),
    "MEM007/fires-narrow-link": lambda: checkerboard(3.1),
    "MEM007/silent-pcie3": lambda: checkerboard(12.0),
    "MEM007/silent-small-copies": lambda: checkerboard(1.5, 256 << 10),
    "MEM012/fires-vocabulary": lambda: head(50257, UNALIGNED, 2_000),
    "MEM012/fires-without-strides": lambda: head(50257, UNALIGNED, 2_000, strides=False),
    "MEM012/silent-padded": lambda: head(50304, GEMM, 700),
    "MEM012/silent-odd-batch": lambda: head(50304, GEMM, 700, m=4099),
    "MEM012/silent-small-part": lambda: head(1001, UNALIGNED, 60),
    "MEM013/fires-heads-rewritten": lambda: heads(500, tall=True),
    "MEM013/silent-heads-joined": lambda: heads(100),
    "MEM013/silent-a-slice": shifted,
}
