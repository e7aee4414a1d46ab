"""CUDA graphs are replayed: idle time and launches say little in this trace

What it means
    Most of the device's work was submitted by replays of CUDA graphs. Profilers record the
    kernels of a replay incompletely and know one launch for all of them, so that idle
    time, launch delays and the Python line of a kernel would be wrong. Rules that rest on
    them are not judged for this trace.

Why it happens
    `torch.compile(mode="reduce-overhead")`, `torch.cuda.graph`, and serving engines
    (vLLM, SGLang, TensorRT-LLM) replay graphs to save launches. It is good for speed; it
    is only the recording that suffers.

How to confirm
    The trace has `cudaGraphLaunch` calls, and many kernels with the correlation of one.

How to fix
    Nothing, if the program is fast. To see where time goes, profile once more with graphs
    off (`TORCHINDUCTOR_CUDAGRAPHS=0`, `--enforce-eager` for vLLM), or profile the
    capture, whose trace has the Python lines.

Limits
    Time on the device, copies, memory and collectives are judged all the same.

References
    - https://github.com/AMD-AGI/TraceLens/issues/728
    - https://github.com/facebookresearch/HolisticTraceAnalysis/issues/290
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, part


@rule("LCH011", "graph-replay", Severity.NOTE)
def check(traces: Traces) -> Iterator[Finding]:
    """A note a trace of replays."""
    for p in traces.gpu_profiles:
        if not p.graphs:
            continue
        launches = len(p.graph_launches)
        yield about(
            p,
            f"CUDA graphs are replayed ({launches:,} graph launches, {part(p.replayed)} of the recorded GPU time): "
            "idle time, launch overhead and lines of kernels are not judged from this trace.",
            Severity.NOTE,
            shows="cudaGraphLaunch",
            facts={"graph launches": launches, "captures": p.captures, "GPU time in replays": part(p.replayed)},
            fixes=(Fix("Profile once more with CUDA graphs off to see launches and lines", "investigate"),),
        )
