"""Nsight Compute could not profile the kernels

What it means
    Nsight Compute reported an error instead of measurements: for all kernels (driver, GPU, another
    tool) or for single ones whose replay failed.

Why it happens
    Counters can be used by one tool at a time, and monitoring (DCGM, as many clusters run it) is one.
    A driver that is older than Nsight Compute, or much newer, does not speak with it. GPUs before
    Volta, WSL and most virtual GPUs are not supported. To replay a kernel for several passes, ncu
    saves and restores the memory it writes: kernels that wait for the host or for other ranks
    cannot be replayed, and memory may run out.

How to confirm
    `ncu --version` and `nvidia-smi` tell both versions; `ncu --list-chips` the supported GPUs;
    `dcgmi profile --pause` or `systemctl status nvidia-dcgm` whether DCGM runs.

How to fix
    See the fix of each finding.

Limits
    The message names no cause where the driver told none.

References
    - https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#faq
    - https://docs.nvidia.com/nsight-compute/ReleaseNotes/index.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages.ncu_notice import NcuNotice

from necropsy.claim import from_record
from necropsy.evidence.ncu_notices import NcuNotices
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_REPLAY: Final = (
    Fix("Replay the whole program instead of kernels", "flag", command="ncu --replay-mode application ..."),
    Fix("Collect fewer sections, so that fewer passes are needed", "flag", command="ncu --set basic ..."),
    Fix(
        "Leave out kernels that wait for others (collectives)",
        "flag",
        command="ncu --kernel-name regex:'^(?!nccl)' ...",
    ),
)
_SAYS: Final = {
    "busy": (
        "Another tool holds the GPU's performance counters, so that ncu could not profile",
        (
            Fix("Stop it for the time being: DCGM, nsys, another ncu, or a profiler in the program", "investigate"),
            Fix("Pause DCGM's profiling", "command", command="dcgmi profile --pause"),
        ),
    ),
    "driver": (
        "The driver does not fit this release of Nsight Compute, which profiled nothing",
        (Fix("Use the Nsight Compute of the CUDA release that the driver belongs to, or update the driver", "config"),),
    ),
    "unsupported": (
        "Nsight Compute does not support this GPU or this virtualization of it, and profiled nothing",
        (
            Fix("See which chips this release supports (Volta and newer)", "command", command="ncu --list-chips"),
            Fix("Use torch's profiler on this machine", "investigate"),
        ),
    ),
    "lock": (
        "Nsight Compute could not take its lock file, which another user's run has left or holds, and profiled nothing",
        (Fix("Give it a folder of your own", "env", command="TMPDIR=$HOME/tmp ncu ..."),),
    ),
}


@rule("INP010", "profiling-failed", Severity.ERROR)
def check(notices: NcuNotices) -> Iterator[Finding]:
    """One finding an input and kind; what follows from a refusal of permission is INP006's."""
    by_input: dict[str, list[NcuNotice]] = {}
    for n in notices:
        by_input.setdefault(n.anchor.input, []).append(n)
    for mine in by_input.values():
        if any(n.kind == "permission" for n in mine):
            continue
        told = [kind for kind in _SAYS if any(n.kind == kind for n in mine)]
        for kind in told:
            first = next(n for n in mine if n.kind == kind)
            what, fixes = _SAYS[kind]
            yield from_record(first, f"{what}.", Severity.ERROR, fixes=fixes, facts={"said": first.detail[:200]})
        failed = [n for n in mine if n.kind == "failed"]
        if failed and not told:
            yield _failed(failed, [n for n in mine if n.kind == "program"])
        others = [n for n in mine if n.kind == "other"]
        if others and not told and not failed:
            yield _unknown(others)


def _unknown(others: list[NcuNotice]) -> Finding:
    """An error of which only the words are known."""
    said = others[0].detail.partition("==ERROR==")[2].strip().rstrip(".")
    return from_record(
        others[0],
        f'Nsight Compute reported an error, "{said[:160]}", and may have profiled nothing.',
        Severity.ERROR,
        facts={"errors": len(others)},
        fixes=(Fix("Read what it says on this", "command", command="ncu --help"),),
    )


def _failed(failed: list[NcuNotice], ended: list[NcuNotice]) -> Finding:
    """Kernels whose replay failed; what is not named counts once."""
    names = list(dict.fromkeys(n.name for n in failed if n.name))
    what = f"{len(names)} kernel{'s' * (len(names) > 1)} ({', '.join(names[:3])})" if names else "a kernel"
    then = f", and the program ended with status {ended[-1].code}" if ended else ""
    return from_record(
        next((n for n in failed if n.name), failed[0]),
        f"Nsight Compute failed to profile {what}{then}: nothing is known of what was not replayed.",
        Severity.WARNING if names else Severity.ERROR,  # of the others there may be a report
        facts={"kernels": names[:10]} if names else {},
        fixes=_REPLAY,
    )
