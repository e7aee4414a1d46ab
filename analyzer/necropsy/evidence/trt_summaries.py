"""What trtexec measured."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.tensorrt_log.records import TrtRun

from necropsy.evidence._records import COMMON, RecordTable


class TrtSummaries(RecordTable[TrtRun]):
    """One row a performance summary."""

    name = "trt_summaries"
    row = TrtRun
    accepts = (TrtRun,)
    formats = ("log",)
    supply = "the performance summary that trtexec prints"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "build": "number of the build in its input, from 0",
        "throughput": "queries a second",
        "latency": "milliseconds of a query on the host: min, max, mean, median, percentiles",
        "enqueue": "milliseconds that the host took to enqueue one",
        "h2d": "milliseconds of copies to the GPU",
        "compute": "milliseconds of GPU compute",
        "d2h": "milliseconds of copies from the GPU",
        "wall_s": "seconds of all queries on the host",
        "compute_s": "seconds of GPU compute of all queries",
        "cuda_graph": "whether a CUDA graph was used, None where untold",
        "streams": "number of streams, None where untold",
    }

    def covered(self, formats: frozenset[str]) -> bool:
        """Only a summary tells."""
        return bool(self.rows)
