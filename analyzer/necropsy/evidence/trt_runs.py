"""Whole runs of TensorRT engines: times of single runs and trtexec's summaries."""

from __future__ import annotations

import statistics
from typing import Any, ClassVar

from msgspec import Struct

from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt.measured import EngineRuns, EngineSummary

from necropsy.evidence import Table


class RunRow(Struct, frozen=True):
    """What was measured of an engine's runs; see `TrtRuns.columns`."""

    input: str
    runs: int | None
    compute_ms: float | None
    latency_ms: float | None
    enqueue_ms: float | None
    to_device_ms: float | None
    from_device_ms: float | None
    throughput: float | None
    options: dict[str, str]
    anchor: Anchor


class TrtRuns(Table[RunRow]):
    """One row an input."""

    name = "trt_runs"
    row = RunRow
    accepts = (EngineRuns, EngineSummary)
    formats = ("trt_times", "trt_summary")
    supply = "trtexec --exportTimes=times.json"
    columns: ClassVar[dict[str, str]] = {
        "input": "the file",
        "runs": "runs that are told one by one, None of a summary",
        "compute_ms": "median time on the GPU in milliseconds",
        "latency_ms": "median latency with copies",
        "enqueue_ms": "median time on the host to enqueue a run",
        "to_device_ms": "median time of copies to the GPU",
        "from_device_ms": "median time of copies from the GPU",
        "throughput": "runs a second",
        "options": "what the file tells of options and device, section and name joined by a point",
        "anchor": "where it stands",
    }

    def add(self, record: Any) -> None:
        """A row for the runs or the summary."""
        if isinstance(record, EngineSummary):
            self.rows.append(_summary(record))
            return
        columns = (record.compute, record.latency, record.enqueue, record.to_device, record.from_device)
        medians = [statistics.median(c) if c else None for c in columns]
        self.rows.append(_run(record.anchor, len(record.compute), medians, None, {}))


def _summary(record: EngineSummary) -> RunRow:
    names = ("GPU Compute Time", "Latency", "Enqueue Time", "H2D Latency", "D2H Latency")
    told = [record.times.get(n, ()) for n in names]
    medians = [t[3] if len(t) > 3 else None for t in told]  # min, max, mean, median
    options = {f"{section}.{k}": v for section, values in record.options.items() for k, v in values.items()}
    return _run(record.anchor, None, medians, record.throughput, options)


def _run(
    anchor: Anchor, runs: int | None, medians: list[float | None], throughput: float | None, options: dict[str, str]
) -> RunRow:
    compute, latency, enqueue, to_device, from_device = medians
    return RunRow(anchor.input, runs, compute, latency, enqueue, to_device, from_device, throughput, options, anchor)
