"""Inference is bound by launches: enqueueing takes as long as the GPU's work

What it means
    The time to enqueue one inference is about as long as its GPU time. The GPU waits for launches
    between kernels, and these gaps are part of what is reported as GPU compute time: that it looks busy all
    the time does not mean that it is.

Why it happens
    Many small kernels (a small batch, an unfused network, a region with dynamic shapes, plugins),
    on a slow or busy host.

How to confirm
    With CUDA graphs (`--useCudaGraph`) enqueue time falls to a fraction, and latency with it.

How to fix
    Capture the inference in a CUDA graph; enlarge the batch; run several streams; fuse more.

Limits
    Graphs need fixed shapes and addresses. The threshold is the one with which trtexec itself warns,
    over medians.

References
    - https://github.com/NVIDIA/TensorRT/blob/main/samples/common/sampleReporting.cpp
    - https://github.com/NVIDIA/TensorRT/issues/2112
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.tensorrt_log.records import Quantiles, TrtRun

from necropsy.claim import from_record
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.evidence.trt_summaries import TrtSummaries
from necropsy.finding import Fact, Finding, Fix, Related, Severity
from necropsy.rule import rule

_GRAPH: Final = Fix(
    "Run the engine in a CUDA graph",
    "flag",
    command="trtexec --useCudaGraph ...  # or capture enqueueV3 in a torch.cuda.graph",
)
_BATCH: Final = Fix("Enlarge the batch, or run several inferences on several streams", "config")
_HOST: Final = Fix(
    "Look for what keeps the host busy, and at kernels that a graph cannot hold (dynamic shapes, plugins)"
)


class Settings(Struct, frozen=True):
    """`share`: enqueue time as a share of GPU compute time, from which the host is said to bind."""

    share: float = 0.8  # trtexec's enqueueBoundReportingThreshold


@rule("TRT017", "enqueue-bound", Severity.WARNING, settings=Settings)
def check(
    summaries: TrtSummaries, messages: TrtMessages | None, builds: TrtBuilds | None, settings: Settings
) -> Iterator[Finding]:
    """One finding a summary."""
    for run in summaries:
        enqueue, compute = _middle(run.enqueue), _middle(run.compute)
        if not enqueue or not compute or enqueue < settings.share * compute:
            continue
        said = [m for m in messages.of("enqueue-bound") if m.build == run.build] if messages is not None else []
        build = builds.of(run) if builds is not None else None
        graph = run.cuda_graph or (build is not None and "useCudaGraph" in build.flags)
        yield from_record(
            run,
            f"Inference is bound by launches on the host: enqueueing one takes {enqueue:.3g} ms, its GPU compute "
            f"{compute:.3g} ms, so that the GPU waits for kernels{' although a CUDA graph is used' if graph else ''}.",
            Severity.WARNING,
            facts=_facts(run, enqueue, compute),
            fixes=(_BATCH, _HOST) if graph else (_GRAPH, _BATCH),
            related=tuple(Related(m.anchor, "trtexec says it itself") for m in said[:1]),
        )


def _middle(part: Quantiles | None) -> float | None:
    if part is None:
        return None
    return part.median if part.median is not None else part.mean


def _facts(run: TrtRun, enqueue: float, compute: float) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "enqueue time": f"{enqueue:.4g} ms",
        "GPU compute time": f"{compute:.4g} ms",
        "enqueue / compute": f"{enqueue / compute:.0%}",
    }
    if run.throughput is not None:
        facts["throughput"] = f"{run.throughput:.4g} queries/s"
    if run.latency is not None and (p99 := run.latency.percentiles.get("99")) is not None:
        facts["latency, 99th percentile"] = f"{p99:.4g} ms"
    return facts
