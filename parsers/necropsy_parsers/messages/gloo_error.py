"""Errors of gloo and MPI transports: a peer that closed, reset, or never came.

RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:65244
RuntimeError: [.../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete
RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.records import Record

NAME: Final = "gloo_error"
TITLE: Final = "Errors of gloo and MPI transports"
TRIGGERS: Final = (b"gloo/transport", b"monitoredBarrier", b"MPI_ERR", b"gloo::")
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "RuntimeError: [/x/gloo/transport/tcp/unbound_buffer.cc:81] "
    "Timed out waiting 8000ms for recv operation to complete": {
        "kind": "timeout",
        "waited_ms": 8000,
    },
}
_CLOSED: Final = re.compile(
    r"gloo/transport\S*\] ?"
    r"(?P<why>(?:"
    r"Connection (?:closed|reset|refused)|Read error|Write error"
    r"|Broken pipe|Application timeout|Socket|Remote"
    r")[^\n\[]*)"
    r"(?: ?\[(?P<peer>[^\]]+)\]:(?P<port>\d+))?"
)
_TIMEOUT: Final = re.compile(r"Timed out waiting (?P<ms>\d+) ?ms for (?P<what>\w+) operation to complete")
_BARRIER: Final = re.compile(
    r"Rank (?P<rank>\d+) (?:failed to pass|timed out in|successfully reached) monitoredBarrier(?P<rest>[^\n]*)"
)
_ABSENT: Final = re.compile(
    r"[Rr]ank(?:s)? (?P<ranks>[\d, ]+) failed to pass monitoredBarrier"
    r"|waiting for send/recv from rank (?P<one>\d+)"
    r"|Ranks (?P<more>[\d, ]+) failed"
)


@dataclass(frozen=True, slots=True)
class TransportError(Record):
    """One error. `kind`: closed (the peer is gone), timeout (it did not come), barrier.

    `absent` are the ranks that a monitored barrier names; `waited_ms` the limit of a timeout.
    """

    kind: str
    why: str
    peer: str
    waited_ms: int | None
    absent: tuple[int, ...]
    from_exception: bool


def read(message: Message) -> Iterator[TransportError]:
    """The error in `message`, if there is one."""
    text = message.text
    from_exception = message.exception is not None
    if (m := _BARRIER.search(text)) is not None:
        absent = _ABSENT.search(text)
        ranks = (
            tuple(int(r) for r in re.findall(r"\d+", absent["ranks"] or absent["one"] or absent["more"]))
            if absent
            else ()
        )
        yield TransportError(message.anchor, "barrier", m[0].strip(), "", None, ranks, from_exception, **message.common)
    elif (m := _TIMEOUT.search(text)) is not None:
        yield TransportError(message.anchor, "timeout", m[0], "", int(m["ms"]), (), from_exception, **message.common)
    elif (m := _CLOSED.search(text)) is not None:
        yield TransportError(
            message.anchor, "closed", m["why"].strip(), m["peer"] or "", None, (), from_exception, **message.common
        )
