"""Host memory ran out: the kernel's, cgroups', Slurm's and Kubernetes' kill records, failed host allocations.

Out of memory: Killed process 4411 (python) total-vm:81234567kB, anon-rss:64012345kB, ...
Memory cgroup out of memory: Killed process 4411 (python) ...
slurmstepd: error: Detected 1 oom_kill event in StepId=88.0. Some of the step tasks have been OOM Killed.
RuntimeError: [enforce fail at alloc_cpu.cpp:114] . DefaultCPUAllocator: can't allocate memory: you tried to
allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.messages.device_memory import size
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "host_memory"
TITLE: Final = "Host out-of-memory kills and failed host allocations"
TRIGGERS: Final = (
    b"Killed process", b"oom_kill", b"oom-kill", b"OOMKilled", b"OOM Killed", b"Out Of Memory", b"OUT_OF_MEMORY",
    b"DefaultCPUAllocator", b"Cannot allocate memory", b"MemoryError", b"Unable to allocate", b"memory limit",
    b"ray.exceptions.OutOfMemoryError", b"bad_alloc", b"oom_reaper",
)  # fmt: skip
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "slurmstepd: error: Detected 1 oom_kill event in StepId=88.0.": {"kind": "kill", "by": "Slurm"},
}
_KILLS: Final = (
    (
        lazily(
            r"(?P<cg>Memory cgroup )?[Oo]ut of memory: "
            r"Kill(?:ed)? process (?P<pid>\d+) \((?P<name>[^)]*)\)"
            r"(?:.*?anon-rss:(?P<rss>\d+)kB)?"
        ),
        "the kernel",
    ),
    (lazily(r"oom-kill:constraint=\w+.*?task=(?P<name>[^,]+),pid=(?P<pid>\d+)"), "the kernel"),
    (
        lazily(
            r"Detected \d+ oom[_-]kill event"
            r"|oom-kill event\(s\) in "
            r"|Some of (?:your|the step) (?:processes|tasks) (?:may )?have been (?:OOM Killed|killed by the cgroup)"
            r"|task \d+: Out Of Memory"
            r"|State=OUT_OF_MEMORY"
            r"|\bOUT_OF_ME\+"
            r"|Exceeded (?:job|step) memory limit"
        ),
        "Slurm",
    ),
    (lazily(r"\bOOMKilled\b"), "Kubernetes"),
    (
        lazily(
            r"(?:Workers? \(tasks / actors\)|task|actor|worker).{0,80}"
            r"(?:killed|were killed) due to (?:the )?"
            r"(?:node running low on memory|memory pressure)"
            r"|ray\.exceptions\.OutOfMemoryError"
        ),
        "Ray",
    ),
)
_ALLOC: Final = (
    lazily(
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory): you tried to allocate (?P<bytes>\d+) bytes"
    ),
    lazily(r"Unable to allocate (?P<size>[\d.]+) (?P<unit>[KMGTP]iB) for an array"),
    lazily(r"OSError: \[Errno 12\] Cannot allocate memory|\bMemoryError\b|std::bad_alloc|Cannot allocate memory"),
)


class HostMemory(Record, frozen=True):
    """One record: `kind` `kill` or `allocation`, who says so, victim's pid and name, bytes (resident or asked)."""

    kind: str
    by: str
    pid: int | None
    name: str
    bytes: int | None
    cgroup: bool
    from_exception: bool


def read(message: Message) -> Iterator[HostMemory]:
    """The record that `message` holds, if it does."""
    text = " ".join(message.text.split())
    from_exception = message.exception is not None
    for pattern, by in _KILLS:
        if (m := pattern.search(text)) is not None and not (from_exception and by != "Ray"):
            part = m.groupdict()
            rss = int(part["rss"]) * 1024 if part.get("rss") else None
            pid = int(part["pid"]) if part.get("pid") else None
            cgroup = bool(part.get("cg")) or by in ("Slurm", "Kubernetes")
            yield HostMemory(
                message.anchor, "kill", by, pid, part.get("name") or "", rss, cgroup, from_exception, **message.common
            )
            return
    if not from_exception and "DefaultCPUAllocator" not in text and "bad_alloc" not in text:
        return
    for pattern in _ALLOC:
        if (m := pattern.search(text)) is not None:
            part = m.groupdict()
            asked = (
                int(part["bytes"])
                if part.get("bytes")
                else size(part["size"], part["unit"])
                if part.get("size")
                else None
            )
            yield HostMemory(
                message.anchor, "allocation", "the allocator", None, "", asked, False, from_exception, **message.common
            )
            return
