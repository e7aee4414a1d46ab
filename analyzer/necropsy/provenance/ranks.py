"""Which rank a process id or a PCI address belongs to, as far as launchers and NCCL said."""

from __future__ import annotations

import re
from typing import Final

from necropsy.evidence.activity import Activity
from necropsy.evidence.elastic_failures import ElasticFailures
from necropsy.evidence.nccl_communicators import NcclCommunicators

# The most GPUs that one host of common make holds: so many ranks from 0 on are one node's, and its local ranks too.
ONE_NODE: Final = 8


def rank_of_process(
    pid: int | None, attempt: int, workers: ElasticFailures, nccl: NcclCommunicators, activity: Activity
) -> int | None:
    """The rank of the process with that id, or None."""
    if pid is None:
        return None
    worker = workers.of_process(pid, attempt)
    if worker is not None and worker.rank is not None:
        return worker.rank
    told = nccl.rank_of_process(pid, attempt)
    if told is not None:
        return told
    seen = activity.all_ranks
    local = workers.local_rank_of(pid, attempt)
    return local if local in seen and len(seen) <= ONE_NODE and seen == set(range(len(seen))) else None


def ranks_of_device(bus: str, host: str, nccl: NcclCommunicators) -> tuple[int, ...]:
    """The ranks that use the device at a PCI address (`0000:a7:00`) of a host; empty if the host is not certain."""
    found = {(c.origin.host or "", c.rank) for c in nccl if bus and pci_address(c.bus).endswith(bus[-5:])}
    hosts = {h for h, _ in found if not host or not h or h == host}
    if len(hosts) > 1:
        return ()
    return tuple(sorted({rank for h, rank in found if h in hosts}))


def pci_address(bus_id: str) -> str:
    """NCCL's number of a bus as an address without function: `a7000` -> `a7:00`."""
    digits = re.sub(r"[^0-9a-f]", "", bus_id.lower()).zfill(5)
    return f"{digits[-5:-3]}:{digits[-3:-1]}"
