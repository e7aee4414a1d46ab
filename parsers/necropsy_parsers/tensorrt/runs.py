"""Times of runs in JSON to what trtexec prints of them in a log, so that rules see one form."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from necropsy_parsers.tensorrt.measured import EngineRuns, EngineSummary
from necropsy_parsers.tensorrt_log.records import Quantiles, TrtRun


def of_runs(runs: EngineRuns) -> TrtRun:
    """The quantiles of single runs (`--exportTimes`)."""
    return TrtRun(
        runs.anchor,
        0,
        latency=_quantiles(runs.latency),
        enqueue=_quantiles(runs.enqueue),
        h2d=_quantiles(runs.to_device),
        compute=_quantiles(runs.compute),
        d2h=_quantiles(runs.from_device),
        seq=runs.seq,
    )


def of_summary(summary: EngineSummary) -> TrtRun | None:
    """Trtexec's summary as trt-engine-explorer keeps it; None of a file that only holds the options of a build."""
    if not summary.times:
        return None
    options = summary.options.get("inference_options", {})
    graph = options.get("CUDA Graph", "").lower()
    streams = options.get("Streams", options.get("Inference Streams", ""))
    return TrtRun(
        summary.anchor,
        0,
        throughput=summary.throughput,
        latency=_told(summary.times.get("Latency", ())),
        enqueue=_told(summary.times.get("Enqueue Time", ())),
        h2d=_told(summary.times.get("H2D Latency", ())),
        compute=_told(summary.times.get("GPU Compute Time", ())),
        d2h=_told(summary.times.get("D2H Latency", ())),
        wall_s=next(iter(summary.times.get("Total Host Walltime", ())), None),
        compute_s=next(iter(summary.times.get("Total GPU Compute Time", ())), None),
        cuda_graph={"enabled": True, "disabled": False}.get(graph),
        streams=int(streams) if streams.isdigit() and len(streams) < 6 else None,
        seq=summary.seq,
    )


def _quantiles(values: Sequence[float]) -> Quantiles | None:
    if not values:
        return None
    ordered = sorted(values)
    last = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return Quantiles(ordered[0], ordered[-1], statistics.fmean(ordered), statistics.median(ordered), {"99": last})


def _told(values: Sequence[float]) -> Quantiles | None:
    """Minimum, maximum, mean, median, then percentiles, whose numbers are not kept."""
    if len(values) < 4:
        return None
    low, high, mean, median = values[:4]
    return Quantiles(low, high, mean, median, {"99": values[-1]} if len(values) > 4 else {})
