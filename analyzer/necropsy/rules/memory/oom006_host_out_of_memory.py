"""Host memory ran out: a process was killed, or an allocation failed

What it means
    Main memory (or the memory limit of the container or job) was used up. A kill record of
    the kernel, of Slurm, Kubernetes or Ray says so, or an allocation on the host failed.

Why it happens
    DataLoader workers that each copy the data set, pinned buffers, a checkpoint gathered on
    one rank, a memory limit below what the job needs.

How to confirm
    `dmesg -T | grep -i oom`, `sacct -o MaxRSS,ReqMem`, `kubectl describe pod`; resident
    size of main process and workers over time.

How to fix
    Ask for more memory, use fewer workers or a shared (memory-mapped) data set, shard the
    checkpoint, stream the data.

Limits
    The shell's bare "Killed" is not enough: without a record it stays undetermined (CRS014).
    A group's limit can kill one process of many; the record names the victim, not the cause.

References
    - https://docs.kernel.org/admin-guide/mm/concepts.html
    - https://slurm.schedmd.com/sacct.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from necropsy_parsers.messages.host_memory import HostMemory

from necropsy.claim import from_record, ranks_of, told
from necropsy.conditions import HOST_FULL, PROCESS_DIED, WORKER_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.elastic_failures import ElasticFailures
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.host_memory import HostMemoryRecords
from necropsy.evidence.nccl_communicators import NcclCommunicators
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.provenance.ranks import rank_of_process
from necropsy.rule import rule
from necropsy.units import human_bytes

_MORE: Final = Fix("Ask for more host memory (Slurm --mem, container limit), or lower what the job needs", "config")
_WORKERS: Final = Fix(
    "Use fewer DataLoader workers, and keep the data set in shared or memory-mapped arrays instead of Python lists",
    "code",
)
_ASKED: Final = Fix("Check the size of the array at this line; load or build it in parts", "code")


def _facts(m: HostMemory) -> dict[str, Fact]:
    facts: dict[str, Fact] = {"reported by": m.by}
    if m.pid is not None:
        facts["pid"] = m.pid
    if m.name:
        facts["process"] = m.name
    if m.bytes is not None:
        facts["resident" if m.kind == "kill" else "asked for"] = human_bytes(m.bytes)
    return facts


def _one_each(records: Iterable[HostMemory]) -> list[HostMemory]:
    """The kernel writes several lines about one kill; the one that tells most stands for all."""
    best: dict[tuple[int, int], HostMemory] = {}
    rest: list[HostMemory] = []
    for m in records:
        key = (m.pid or 0, m.attempt)
        if m.kind != "kill" or m.pid is None:
            rest.append(m)
        elif key not in best or (best[key].bytes is None and m.bytes is not None):
            best[key] = m
    return [*best.values(), *rest]


@rule("OOM006", "host-out-of-memory", Severity.FATAL, aliases=("X16", "oom-killer"))
def check(
    records: HostMemoryRecords,
    exceptions: Exceptions,
    workers: ElasticFailures,
    communicators: NcclCommunicators,
    activity: Activity,
) -> Iterator[Finding]:
    """One finding a kill record, one a failed allocation."""
    for m in _one_each(records):
        if m.kind == "allocation":
            size = f" of {human_bytes(m.bytes)}" if m.bytes is not None else ""
            message = f"An allocation{size} in host memory failed: the machine or the job's limit has no more."
            yield from told(
                m,
                exceptions,
                message,
                Severity.FATAL,
                activity=activity,
                facts=_facts(m),
                fixes=(_ASKED, _MORE),
                leaves=frozenset({HOST_FULL, PROCESS_DIED}),
            )
            continue
        rank = rank_of_process(m.pid, m.attempt, workers, communicators, activity)
        victim = f" process {m.pid}" if m.pid is not None else " a process of the job"
        named = f" ({m.name})" if m.name else ""
        held = f", which held {human_bytes(m.bytes)}" if m.bytes is not None else ""
        limit = "the job's memory limit was reached" if m.cgroup else "host memory was exhausted"
        yield from_record(
            m,
            f"{m.by[0].upper()}{m.by[1:]} killed{victim}{named}{held}: {limit} (out of memory).",
            Severity.FATAL,
            activity=activity,
            ranks=ranks_of(m.origin) if rank is None else (rank,),
            facts=_facts(m),
            fixes=(_MORE, _WORKERS),
            leaves=frozenset({HOST_FULL, PROCESS_DIED, WORKER_DIED}),
            shows=frozenset({HOST_FULL}),
            confirms=True,
        )
