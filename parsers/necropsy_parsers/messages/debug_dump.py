"""Who started the dump of debug information, and who only followed.

    [PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout from this local rank and
    we will try our best to dump the debug info. ...                                                      (initiator)
    [PG ID 0 PG GUID 0(default_pg) Rank 2] Observed flight recorder dump signal from another rank via
    TCPStore.                                                                                             (follower)

ProcessGroupNCCL since torch 2.2 (heartbeat monitor).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "debug_dump"
TITLE: Final = "Initiators and followers of a flight-recorder dump"
TRIGGERS: Final = (b"dump signal", b"signal dumping", b"dump debug info", b"dumping debug info")
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "[PG ID 0 PG GUID 0(default_pg) Rank 2] Observed flight recorder dump signal from another rank via TCPStore.": {
        "initiator": False,
    },
}
_OWN: Final = lazily(r"from this local rank|First PG on this rank to signal dumping")
_OTHER: Final = lazily(
    r"(?:from (?:another|other) rank|from  ?rank \d|from a global rank|via (?:the )?(?:TCP)?[Ss]tore)"
)
_RANK: Final = lazily(r"Rank (\d+)\]")
_FROM: Final = lazily(r"from  ?(?:other |global )?rank (\d+)")  # c10d puts two blanks: "from  rank 7"


class DumpSignal(Record, frozen=True):
    """One signal: the rank that speaks, whether it started the dump, which rank it heard it from if told."""

    rank: int | None
    initiator: bool
    heard_from: int | None


def read(message: Message) -> Iterator[DumpSignal]:
    """The signal that `message` tells of, if it does."""
    text = message.text
    own, other = _OWN.search(text), _OTHER.search(text)
    if not own and not other:
        return
    spoken = _RANK.search(text)
    source = _FROM.search(text)
    yield DumpSignal(
        message.anchor,
        rank=message.origin.rank if message.origin.rank is not None or spoken is None else int(spoken[1]),
        initiator=bool(own),
        heard_from=int(source[1]) if source and not own else None,
        **message.common,
    )
