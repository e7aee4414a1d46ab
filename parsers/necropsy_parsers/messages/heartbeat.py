"""ProcessGroupNCCL's heartbeat monitor: the watchdog itself does not come round any more.

    [PG ID 0 PG GUID 0(default_pg) Rank 3] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making
    progress in monitoring enqueued collectives. This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy)
    hang blocking the watchdog, ...
    [Rank 3] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=1
    Could not acquire GIL within 300 ms on exit, possible GIL induced hang

torch 2.2 and later; the process is aborted, while a collective that times out is another message (the watchdog works).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "heartbeat"
TITLE: Final = "Watchdogs that got stuck themselves"
TRIGGERS: Final = (b"watchdog got stuck", b"Heartbeat monitor timed out", b"Could not acquire GIL")
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "[PG ID 0 PG GUID 0(default_pg) Rank 3] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making "
    "progress in monitoring enqueued collectives.": {"spoken_by": 3, "seconds": 480, "gil": False},
    "Could not acquire GIL within 300 ms on exit, possible GIL induced hang": {"gil": True},
}
_STUCK: Final = lazily(
    r"ProcessGroup\w+'s watchdog got stuck for (?P<seconds>\d+) ?s(?:ec(?:onds?)?)? without making progress"
    r"|Heartbeat monitor timed out! Process will be terminated"
)
_GIL: Final = lazily(r"Could not acquire GIL within \d+ ?ms")
_RANK: Final = lazily(r"\b[Rr]ank (\d+)\]")


class HeartbeatStuck(Record, frozen=True):
    """One report: the rank that speaks (None if untold), how long in seconds, whether the GIL could not be had."""

    spoken_by: int | None
    seconds: int | None
    gil: bool


def read(message: Message) -> Iterator[HeartbeatStuck]:
    """The report that `message` is, if it is one."""
    text = message.text
    stuck, gil = _STUCK.search(text), _GIL.search(text)
    if stuck is None and gil is None:
        return
    spoken = _RANK.search(text)
    seconds = int(stuck["seconds"]) if stuck is not None and stuck["seconds"] else None
    rank = int(spoken[1]) if spoken is not None else message.origin.rank
    yield HeartbeatStuck(message.anchor, rank, seconds, gil is not None, **message.common)
