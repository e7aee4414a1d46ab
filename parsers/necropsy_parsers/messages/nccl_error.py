"""NCCL's own errors: results, warnings, and the peers that they name.

    gpu-03:29880:30398 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000
    NCCL error: remote process exited or there was a network error, NCCL version 2.21.5
    ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
    Last error:
    socketProgressOpt: Call to recv from 10.0.24.53<49901> failed : Broken pipe
    vm:6729:6729 [0] NCCL INFO ncclCommInitRankConfig comm 0x1aa2 rank 1 nranks 2 cudaDev 0 busId 60 - Init START

"CUDA device 1000" is the PCI bus id 0x1000 (01:00.0), not an index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "nccl_error"
TITLE: Final = "Errors and warnings of NCCL"
TRIGGERS: Final = (
    b"NCCL error",
    b"NCCL WARN",
    b"ncclRemoteError",
    b"ncclSystemError",
    b"ncclInternalError",
    b"ncclUnhandledCudaError",
    b"ncclInvalid",
    b"Duplicate GPU",
    b"nranks ",
    b"Call to recv",
    b"Call to send",
    b"Call to connect",
    b"ncclCommInitRank failed",
    b"NCCL communicator was aborted",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "init.cc:497 NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000": {
        "kind": "duplicate-gpu",
        "pair": (2, 0),
    },
    "socketProgressOpt: Call to recv from 10.0.24.53<49901> failed : Broken pipe": {
        "kind": "remote",
        "peer": "10.0.24.53",
    },
}
_DUPLICATE: Final = lazily(
    r"Duplicate GPU detected ?: rank (?P<a>\d+) and rank (?P<b>\d+) both on CUDA device (?P<bus>[0-9a-f]+)"
)
_PEER: Final = lazily(
    r"(?:Call to \w+ (?:from|to)|Connect to|connect to|peer|Peer|remote|from) "
    r"(?P<peer>\d+\.\d+\.\d+\.\d+|[0-9a-f:]{6,}|[\w.-]+\.[\w.-]+)<(?P<port>\d+)>"
    r"(?: (?:failed|error)[: ]*(?P<why>[A-Za-z][^\n]*)| with (?:status=|error )(?P<status>\w+(?:\(\d+\))?))?"
)
_KIND: Final = (
    (
        lazily(r"creating shared memory segment|shared memory segment .{0,60}(?:failed|No space)|/dev/shm/nccl"),
        "shared-memory",
    ),
    (
        lazily(
            r"ncclRemoteError"
            r"|Got completion from peer"
            r"|remote process exited or there was a network error"
            r"|Call to (?:recv|send) (?:from|to)"
            r"|Net: .*remote"
            r"|Connection closed by remote"
        ),
        "remote",
    ),
    (lazily(r"ncclUnhandledCudaError|unhandled cuda error|Cuda failure"), "cuda"),
    (lazily(r"ncclSystemError|unhandled system error|Call to (?:connect|bind|ibv_\w+)"), "system"),
    (lazily(r"ncclInvalidUsage|invalid usage"), "usage"),
    (lazily(r"ncclInvalidArgument|invalid argument"), "usage"),
    (lazily(r"ncclInternalError|internal error"), "internal"),
    (lazily(r"NCCL communicator was aborted|communicator .{0,40}aborted"), "aborted"),
)
_COMM: Final = lazily(
    r"\bcomm 0x[0-9a-f]+ rank (?P<rank>\d+) n[Rr]anks (?P<nranks>\d+) "
    r"cudaDev (?P<dev>\d+)(?: nvmlDev \d+)? "
    r"busId (?P<bus>[0-9a-f]+)"
)
_ADAPTER: Final = lazily(r"\bhca (\w+)")
_VERSION: Final = lazily(r"NCCL version (?P<version>[\d.]+)")


class NcclError(Record, frozen=True):
    """One error. `kind`: duplicate-gpu, remote, shared-memory, cuda, system, usage, internal, aborted.

    `pair` are the two ranks of a duplicate GPU, `bus` its PCI bus id in hex; `peer` and `port` the other end of a
    broken connection; `why` the system's words.
    """

    kind: str
    pair: tuple[int, int] | None
    bus: str
    peer: str
    port: int | None
    why: str
    version: str
    from_exception: bool


class NcclCommunicator(Record, frozen=True):
    """A communicator that a rank reports: its rank and size, device index and PCI bus id."""

    rank: int
    nranks: int
    device: int
    bus: str


def _why(peer: re.Match[str], text: str) -> str:
    """The system's words, or the InfiniBand completion status and the adapter that reports it."""
    if peer["status"]:
        adapter = _ADAPTER.search(text)
        return f"completion status {peer['status']}" + (f" on {adapter[1]}" if adapter else "")
    return (peer["why"] or "").strip()


def _speaks(message: Message) -> bool:
    """Whether a line is NCCL's or torch's own, and not somebody's words about such a line."""
    text = message.first
    place = message.origin.place
    own = place is not None and place[0].endswith((".cpp", ".cc", ".h"))
    if "NCCL INFO" in text or (own and (message.origin.level or "") in ("I", "W")):
        return False
    return (
        "NCCL WARN" in text
        or own
        or text.startswith(("nccl", "socket", "ibv", "Call to", "NCCL error", "Duplicate GPU"))
    )


def read(message: Message) -> Iterator[NcclError | NcclCommunicator]:
    """Errors and communicators in `message`."""
    text = message.text
    if (c := _COMM.search(text)) is not None:
        yield NcclCommunicator(
            message.anchor, int(c["rank"]), int(c["nranks"]), int(c["dev"]), c["bus"], **message.common
        )
    duplicate = _DUPLICATE.search(text)
    kind = "duplicate-gpu" if duplicate else next((k for p, k in _KIND if p.search(text)), "")
    if not kind or (message.exception is None and not _speaks(message)):
        return
    peer, version = _PEER.search(text), _VERSION.search(text)
    yield NcclError(
        message.anchor,
        kind,
        (int(duplicate["a"]), int(duplicate["b"])) if duplicate else None,
        duplicate["bus"] if duplicate else "",
        peer["peer"] if peer else "",
        int(peer["port"]) if peer else None,
        _why(peer, text) if peer else "",
        version["version"].rstrip(".") if version else "",
        message.exception is not None,
        **message.common,
    )
