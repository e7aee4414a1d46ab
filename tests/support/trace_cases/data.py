"""Input pipelines."""

from __future__ import annotations

from tests.support.tracing import TraceBuilder

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def training(load_us: float, *, single: bool = False) -> TraceBuilder:
    """Steps that wait for a batch and then keep the device busy for 40 ms."""
    t = TraceBuilder()
    name = LOADER.replace("_MultiProcessing", "_SingleProcess") if single else LOADER
    with t.frame("train_tagger.py(112): <module>", "train_tagger.py(61): main"):
        for n in range(4):
            with t.step(n):
                with t.annotation(name), t.frame("torch/utils/data/dataloader.py(708): __next__"):
                    t.host(load_us)
                with t.frame("train_tagger.py(22): forward"), t.op("aten::mm", dims=[[4096, 4096], [4096, 4096]]):
                    t.launch("nvjet_tst_128x256_64x4_2x1_v_bz_TNN", us=40_000)
                with t.op("aten::item"):
                    t.wait()
    return t


CASES = {
    "DAT001/fires-workers-too-slow": lambda: training(30_000),
    "DAT001/silent-batches-are-ready": lambda: training(400),
}
