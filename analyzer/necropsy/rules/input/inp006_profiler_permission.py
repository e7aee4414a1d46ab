"""The driver keeps performance counters for administrators

What it means
    Nsight Compute (or CUPTI, through torch's profiler) asked the driver for hardware counters and
    was refused. The program itself is not affected and may have run to its end; its kernels were
    launched, and none of them was measured.

Why it happens
    Since 2019 NVIDIA's driver lets only administrators of the host read counters, unless its module
    is loaded with `NVreg_RestrictProfilingToAdminUsers=0`. Being root inside a container is not
    enough: the container needs the capability SYS_ADMIN. Providers of rented GPUs often allow
    neither.

How to confirm
    `grep RmProfilingAdminOnly /proc/driver/nvidia/params` prints 1 where they are locked; it can be
    read inside a container.

How to fix
    On the host, as its administrator: put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into
    a file in /etc/modprobe.d and reload the module or reboot. Or start the container with
    `--cap-add=SYS_ADMIN` (Kubernetes: `securityContext.capabilities.add`). Where neither can be had,
    torch's profiler still gives times of kernels, without counters.

Limits
    Which of the two locks it, the host's setting or the container, the message does not say.

References
    - https://developer.nvidia.com/ERR_NVGPUCTRPERM
    - https://docs.nvidia.com/nsight-compute/ReleaseNotes/index.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record
from necropsy.evidence.ncu_notices import NcuNotices
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_FIXES: Final = (
    Fix(
        "Have an administrator of the host unlock the counters, then reload the driver's module or reboot",
        "command",
        command="echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > /etc/modprobe.d/nvidia-profiling.conf",
    ),
    Fix(
        "Or start the container with the capability SYS_ADMIN; being root inside it is not enough",
        "command",
        command="docker run --gpus all --cap-add=SYS_ADMIN ...",
    ),
    Fix(
        "On a rented machine where neither is allowed, use torch's profiler: times of kernels need no counters",
        "investigate",
    ),
)


@rule("INP006", "profiler-permission", Severity.ERROR)
def check(notices: NcuNotices) -> Iterator[Finding]:
    """One finding an input."""
    seen: set[str] = set()
    refused = [n for n in notices if n.kind == "permission"]
    for n in refused:
        if n.anchor.input in seen:
            continue
        seen.add(n.anchor.input)
        same = [other for other in refused if other.anchor.input == n.anchor.input]
        devices = sorted({other.device for other in same if other.device is not None})
        where = f" of GPU {', '.join(map(str, devices))}" if devices else ""
        yield from_record(
            n,
            f"The driver refused {n.tool} access to the performance counters{where} (no permission): kernels ran and "
            "were not measured, so that nothing can be told of them.",
            Severity.ERROR,
            facts={"refusals": len(same)} | ({"devices": devices} if devices else {}),
            fixes=_FIXES,
        )
