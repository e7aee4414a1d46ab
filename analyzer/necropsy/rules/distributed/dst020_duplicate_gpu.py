"""Two ranks use the same GPU

What it means
    NCCL found two ranks of one communicator on one device and refused to build it.

Why it happens
    The program never selects a device by local rank (`torch.cuda.set_device`), names
    `cuda:0` explicitly, or CUDA_VISIBLE_DEVICES gives every rank the same first GPU; or more
    ranks were started on the node than it has GPUs.

How to confirm
    With NCCL_DEBUG=INFO each rank prints `cudaDev`; it is the same number in the ranks named.

How to fix
    Call `torch.cuda.set_device(local_rank)` before the first collective, create tensors on
    that device, and start as many ranks as there are GPUs.

Limits
    "CUDA device 1000" in NCCL's message is the PCI bus id in hex, not an index; it is shown
    here as lspci writes it.

References
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html
    - https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages.nccl_error import NcclError

from necropsy.claim import event_of, from_incident
from necropsy.conditions import PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.nccl_communicators import NcclCommunicators
from necropsy.evidence.nccl_errors import NcclErrors
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule


def pci(bus: str) -> str:
    """A bus id as NCCL prints it (hex digits of bus, device, function) as lspci writes it: `1000` -> `01:00.0`."""
    digits = bus.rjust(5, "0")
    return f"{digits[-5:-3]}:{digits[-3:-1]}.{digits[-1]}"


_FIXES: Final = (
    Fix(
        "Select the device by local rank before the first collective",
        "code",
        command="torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
    ),
    Fix(
        "Start no more ranks on a node than it has GPUs, and do not give all of them one GPU by CUDA_VISIBLE_DEVICES",
        "config",
    ),
)


def _raised(row: ExceptionRow) -> bool:
    """Whether an exception is NCCL's refusal to build the communicator."""
    return any(word in row.everything for word in ("Duplicate GPU", "invalid usage", "ncclInvalidUsage"))


@rule("DST020", "duplicate-gpu", Severity.FATAL, aliases=("duplicate-gpu-detected",))
def check(errors: NcclErrors, exceptions: Exceptions, communicators: NcclCommunicators) -> Iterator[Finding]:
    """One finding an attempt, at the call that built the communicator if a traceback shows it."""
    of_attempt: dict[int, list[NcclError]] = {}
    for e in errors:
        if e.pair:
            of_attempt.setdefault(e.attempt, []).append(e)
    raised: dict[int, list[ExceptionRow]] = {}
    for r in exceptions if of_attempt else ():
        if r.attempt in of_attempt and _raised(r):
            raised.setdefault(r.attempt, []).append(r)
    for attempt, found in sorted(of_attempt.items()):
        ranks = tuple(sorted({r for e in found if e.pair for r in e.pair}))
        buses = sorted({pci(e.bus) for e in found})
        devices = sorted({c.device for rank in ranks for c in communicators.of_rank(rank, attempt)})
        facts: dict[str, Fact] = {"PCI bus": buses, "ranks": list(ranks)}
        if devices:
            facts["cudaDev of these ranks"] = devices
        named = ", ".join(map(str, ranks[:-1])) + f" and {ranks[-1]}"
        message = (
            f"Ranks {named} use the same GPU (PCI {', '.join(buses)}): "
            "NCCL refuses a communicator with a duplicate GPU."
        )
        rows = raised.get(attempt, [])
        row = next((r for r in rows if r.places), None)
        yield from_incident(
            found[0],
            row,
            message,
            ranks=ranks,
            facts=facts,
            fixes=_FIXES,
            leaves=frozenset({PROCESS_DIED, PEER_ABSENT}),
            event=f"duplicate-gpu@{attempt}",
            claims=frozenset(event_of(r) for r in rows),
            seq=min(e.seq for e in (*found, *((row,) if row is not None else ()))),
        )
