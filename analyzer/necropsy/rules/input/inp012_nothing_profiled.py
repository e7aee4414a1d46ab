"""Nsight Compute profiled no kernel

What it means
    The program ran under Nsight Compute, and no launch of it was profiled: the report is empty. It
    says nothing of what the program did on the GPU.

Why it happens
    The kernels were launched by a child process (torchrun, a launcher script, DataLoader) and ncu
    followed the first process only; a filter (`--kernel-name`, `--launch-skip`, `--nvtx-include`,
    `--profile-from-start off` without `cudaProfilerStart`) fitted none; or the program ended before
    its first launch.

How to confirm
    `==PROF== Connected to process` names the processes that ncu followed.

How to fix
    Add `--target-processes all`; see whether filters fit by leaving them out with `--launch-count 5`.

Limits
    If an error is told in the same log (INP006, INP010), that is why, and this rule is silent. Nothing
    is said where launches were profiled before.

References
    - https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.claim import from_record
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_notices import NcuNotices
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule


@rule("INP012", "nothing-profiled", Severity.WARNING)
def check(notices: NcuNotices, kernels: NcuKernels | None) -> Iterator[Finding]:
    """One finding an input."""
    explained = {n.anchor.input for n in notices if n.kind not in ("nothing", "metrics", "program", "ending")}
    explained |= {row.anchor.input for row in kernels or ()}
    for n in notices:
        if n.kind != "nothing" or n.anchor.input in explained:
            continue
        explained.add(n.anchor.input)
        yield from_record(
            n,
            "Nsight Compute profiled none of the program's kernels: its report is empty, and says nothing of them.",
            Severity.WARNING,
            fixes=(
                Fix("Follow child processes, too", "flag", command="ncu --target-processes all ..."),
                Fix("See whether a filter fits no kernel", "flag", command="ncu --launch-count 5 ..."),
            ),
        )
