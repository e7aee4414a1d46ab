"""Input pipelines."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.tracing import TraceBuilder

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
MULTI = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
NEXT = "torch/utils/data/dataloader.py(708): __next__"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t>, true>"


def training(
    waits: Sequence[float], *, single: bool = False, decode: float = 0.0, collate: float = 0.0, pinned: bool = True,
    kernel: float = 40_000, device: str | None = "h100", ranges: bool = True,
) -> TraceBuilder:  # fmt: skip
    """Steps that wait for a batch, part of it in the user's decoding and in collating, and then compute."""
    t = TraceBuilder(device)
    with t.frame("train_tagger.py(112): <module>", "train_tagger.py(61): main"):
        for n, wait in enumerate(waits):
            with t.step(n):
                if ranges:
                    with t.annotation(SINGLE if single else MULTI), t.frame(NEXT):
                        batch(t, wait, decode, collate, single=single)
                else:
                    with t.frame(NEXT):
                        batch(t, wait, decode, collate, single=single)
                with t.op("aten::to"):
                    if device is not None:
                        t.copy(f"HtoD ({'Pinned' if pinned else 'Pageable'} -> Device)", 1 << 20, 60)
                model(t, kernel, device)
    return t


def batch(t: TraceBuilder, wait: float, decode: float, collate: float, *, single: bool) -> None:
    """What the main thread does for a batch."""
    if not single:
        with t.frame("multiprocessing/queues.py(98): get"):
            t.host(wait)
        return
    with t.frame("torch/utils/data/dataloader.py(764): _next_data", "torch/utils/data/_utils/fetch.py(47): fetch"):
        for _ in range(4):
            with t.frame("tagger/corpus.py(35): __getitem__"):
                t.host((wait - decode - collate) / 4)
                with t.frame("tagger/corpus.py(18): read_page"):
                    t.host(decode / 4)
                t.host(2)
                if collate:
                    with t.op("aten::permute"):
                        t.host(3)
        if collate:
            with t.frame("torch/utils/data/_utils/collate.py(331): default_collate"), t.op("aten::stack"):
                with t.op("aten::cat"), t.op("aten::narrow"):
                    t.host(1)
                t.host(collate)


def model(t: TraceBuilder, kernel: float, device: str | None) -> None:
    """The step's work, to whose end the program waits."""
    with t.frame("train_tagger.py(22): forward"), t.op("aten::_flash_attention_forward"):
        if device is None:
            t.host(kernel)
            return
        t.launch(FLASH, us=kernel)
    with t.op("aten::item"):
        t.wait()


def asynchronous(load: float) -> TraceBuilder:
    """Loading in the main thread that is hidden: the device still works on the step before."""
    t = TraceBuilder()
    with t.frame("train_tagger.py(61): main"):
        for n in range(5):
            with t.step(n):
                with t.annotation(SINGLE), t.frame(NEXT):
                    batch(t, load, 0, 0, single=True)
                with t.frame("train_tagger.py(22): forward"), t.op("aten::_flash_attention_forward"):
                    t.launch(FLASH, us=load + 9_000)
                t.host(9_000)
        t.wait()
    return t


CASES = {
    "DAT001/fires-short-waits": lambda: training([4_000] * 4),
    "DAT001/silent-batches-are-ready": lambda: training([400] * 4),
    "DAT001/silent-first-batch-of-an-epoch": lambda: training([20_000, 300, 300, 300]),
    "DAT002/fires-slow-decoding": lambda: training([30_000] * 4, single=True, decode=24_000, pinned=False),
    "DAT002/fires-stacking-views": lambda: training([30_000] * 4, single=True, collate=26_000),
    "DAT002/fires-frames-only": lambda: training([30_000] * 4, single=True, decode=24_000, ranges=False),
    "DAT002/fires-without-a-gpu": lambda: training([30_000] * 4, single=True, decode=24_000, device=None),
    "DAT002/silent-hidden-behind-kernels": lambda: asynchronous(12_000),
    "DAT002/silent-workers": lambda: training([30_000] * 4),
    "DAT002/silent-small-data-set": lambda: training([700] * 4, single=True),
    "DAT005/fires-workers-too-slow": lambda: training([30_000, 26_000, 31_000, 400]),
    "DAT005/silent-one-slow-batch": lambda: training([300, 90_000, 300, 300, 300]),
    "DAT005/silent-batches-are-ready": lambda: training([600] * 5),
}
