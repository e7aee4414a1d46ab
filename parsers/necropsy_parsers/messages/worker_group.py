"""Restarts of torchrun's worker group, and how many it may make.

    [default] Worker group FAILED. 2/3 attempts left;  will restart worker group
    [default] Detected 1 new nodes from group_rank=0; will restart worker group
      max_restarts             : 3

torch/distributed/elastic/agent/server/api.py and launcher/api.py, at log level INFO (LOGLEVEL=INFO) only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "worker_group"
TITLE: Final = "Restarts of torchrun's worker group"
TRIGGERS: Final = (b"will restart worker group", b"max_restarts  ", b"Stopping worker group", b"Starting worker group")
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "[default] Worker group FAILED. 2/3 attempts left;  will restart worker group": {
        "kind": "failed",
        "left": 2,
        "limit": 3,
    },
    "  max_restarts             : 3": {"kind": "limit", "limit": 3},
}
_FAILED: Final = lazily(r"Worker group (?P<state>[A-Z]+)\. (?P<left>\d+)/(?P<limit>\d+) attempts left; +will restart")
_JOINED: Final = lazily(r"Detected (?P<nodes>\d+) new nodes from group_rank=\d+; ?will restart worker group")
_LIMIT: Final = lazily(r"\s*max_restarts +: (?P<limit>\d+)$")


class WorkerGroupEvent(Record, frozen=True):
    """One event. `kind`: failed or joined (new nodes; the group will restart), limit (of restarts, as configured).

    `left` are the restarts left before this one, `limit` all that are allowed.
    """

    kind: str
    left: int | None
    limit: int | None


def read(message: Message) -> Iterator[WorkerGroupEvent]:
    """The event that `message` reports, if it does."""
    if message.exception is not None:
        return
    text = message.first
    if (m := _FAILED.search(text)) is not None:
        yield WorkerGroupEvent(message.anchor, "failed", int(m["left"]), int(m["limit"]), **message.common)
    elif _JOINED.search(text):
        yield WorkerGroupEvent(message.anchor, "joined", None, None, **message.common)
    elif (m := _LIMIT.match(text)) is not None:
        yield WorkerGroupEvent(message.anchor, "limit", None, int(m["limit"]), **message.common)
