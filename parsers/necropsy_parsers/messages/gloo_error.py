"""Errors of gloo and MPI transports: a peer that closed, reset, or never came.

RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:65244
RuntimeError: [.../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete
RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message, is_label
from necropsy_parsers.patterns import lazily
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
_CLOSED: Final = lazily(
    r"gloo/transport\S*\] ?"
    r"(?P<why>(?:"
    r"Connection (?:closed|reset|refused)|Read error|Write error"
    r"|Broken pipe|Application timeout|Socket|Remote"
    r")[^\n\[]*)"
    r"(?: ?\[(?P<peer>[^\]]+)\]:(?P<port>\d+))?"
)
_TIMEOUT: Final = lazily(r"Timed out waiting (?P<ms>\d+) ?ms for (?P<what>\w+) operation to complete")
_ABSENT: Final = lazily(r"Ranks? (?P<ranks>\d[\d, ]*) failed to pass monitoredBarrier[^\n]*")
_LOST: Final = lazily(
    r"Rank \d+ successfully reached monitoredBarrier, but received errors while waiting for send/recv"
    r" from rank (?P<rank>\d+)"
)


class TransportError(Record, frozen=True):
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
    """The error in `message`, if there is one; quotations of one are not."""
    text = message.text
    from_exception = message.exception is not None
    absent = _ABSENT.search(text)
    if absent is not None and (from_exception or is_label(text[: absent.start()])):
        ranks = tuple(int(r) for r in re.findall(r"\d+", absent["ranks"]))
        yield TransportError(
            message.anchor, "barrier", absent[0].strip(), "", None, ranks, from_exception, **message.common
        )
    elif (m := _LOST.search(text)) is not None and from_exception:
        # The rank named here did come: it collects the others, and left when it found one missing.
        yield TransportError(message.anchor, "closed", m[0], f"rank {m['rank']}", None, (), True, **message.common)
    elif (m := _TIMEOUT.search(text)) is not None:
        yield TransportError(message.anchor, "timeout", m[0], "", int(m["ms"]), (), from_exception, **message.common)
    elif (m := _CLOSED.search(text)) is not None:
        yield TransportError(
            message.anchor, "closed", m["why"].strip(), m["peer"] or "", None, (), from_exception, **message.common
        )
