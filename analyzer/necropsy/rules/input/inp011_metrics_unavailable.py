"""Some metrics do not exist on this GPU

What it means
    Nsight Compute was asked for metrics that this GPU (or this release) does not have. The others were
    collected; what needs the missing ones is not evaluated.

Why it happens
    `--set full` asks for units that only some machines have (NVLink-C2C, NVLink); names of metrics
    change between architectures; on a MIG instance shared units cannot be read.

How to confirm
    `ncu --query-metrics --chips CHIP` lists what a chip has.

How to fix
    Nothing, if the missing ones are of units that the machine does not have. Else ask for the name
    of this architecture.

Limits
    Which of them a rule would have needed is said by the rule. Beside the report nothing is said where
    no rule reads any of them.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-reference
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy_parsers.ncu.metrics import WANTED

from necropsy.claim import from_record
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_notices import NcuNotices
from necropsy.finding import Finding, Fix, Role, Severity
from necropsy.rule import rule


@rule("INP011", "metrics-unavailable", Severity.NOTE)
def check(notices: NcuNotices, kernels: NcuKernels | None) -> Iterator[Finding]:
    """One note an input; none where a report is read that lacks nothing by it."""
    by_input: dict[str, list[str]] = {}
    for n in notices:
        if n.kind == "metrics":
            by_input.setdefault(n.anchor.input, []).extend(n.names)
    for n in notices:
        if n.kind != "metrics" or n.anchor.input not in by_input:
            continue
        names = list(dict.fromkeys(by_input.pop(n.anchor.input)))
        unread = bool(names) and not any(WANTED.match(name) for name in names)
        if unread and kernels is not None and len(kernels):
            continue
        units = sorted({name.partition("__")[0] for name in names})
        count = f"{len(names)} metric{'s' * (len(names) != 1)}" if names else "Metrics"
        of = f" (of {', '.join(units[:4])})" if units else ""
        then = "no rule reads them" if unread else "what needs them is not evaluated"
        yield from_record(
            n,
            f"{count}{of} could not be collected on this GPU: {then}.",
            Severity.NOTE,
            role=Role.SYMPTOM,
            facts={"metrics": names[:10]} if names else {},
            fixes=(Fix("See what this chip has", "command", command="ncu --query-metrics"),),
        )
