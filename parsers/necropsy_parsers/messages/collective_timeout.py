"""What ProcessGroupNCCL's watchdog says of a collective that did not finish.

    [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4141, OpType=ALLREDUCE, NumelIn=1,
    NumelOut=1, Timeout(ms)=1200000) ran for 1200004 milliseconds before timing out.
    [PG 0 (default_pg) Rank 1] Exception (either an error or timeout) detected by watchdog at work: 4141, last
    enqueued NCCL work: 4141, last completed NCCL work: 4140.

torch 2.0 to now; before 2.1 without SeqNum, before 1.13 with `OpType=ALLREDUCE, TensorShape=[1]`. `SeqNum` counts
collectives of one process group; "last enqueued" and "last completed" count the watchdog's works of that group. Only
readings of the same counter and group may be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message, is_label
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record

NAME: Final = "collective_timeout"
TITLE: Final = "Timeouts of collectives, and the watchdog's counters"
TRIGGERS: Final = (
    b"collective operation timeout",
    b"ast enqueued",
    b"lagging ranks",
    b"but didn't join collective",
    b"Timeout at collective",
    b"Stack trace of the failed collective",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4141, OpType=ALLREDUCE, "
    "NumelIn=1, NumelOut=1, Timeout(ms)=1200000) ran for 1200004 milliseconds before timing out.": {
        "operation": "ALLREDUCE",
        "sequence": 4141,
    },
}
_TIMEOUT: Final = lazily(
    r"(?:\[Rank (?P<rank>\d+)\] )?"
    r"(?:Watchdog caught collective operation timeout|Caught collective operation timeout): "
    r"Work\w*\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)(?P<rest>[^)]*?(?:Timeout\(ms\)=(?P<limit>\d+))?)\)"
    r"(?: ran for (?P<ran>\d+) milliseconds)?"
)
_NUMEL: Final = lazily(r"NumelIn=(\d+)|TensorShape=\[([\d, ]*)\]")
_COUNTERS: Final = lazily(
    r"(?:at work(?: sequence id)?: (?P<at>\d+)[, ]*)?"
    r".{0,40}?[Ll]ast enqueued(?: NCCL)? work: (?P<enqueued>-?\d+), (?:last started work: -?\d+, )?"  # since 2.13
    r"last completed(?: NCCL)? work: (?P<completed>-?\d+)"  # -1: none yet
)
# `name` takes the GUID in: groups of the same ID on other ranks are other groups. The description may be missing.
_GROUP: Final = lazily(
    r"\[PG (?:ID )?(?P<id>\d+)(?: PG GUID (?P<guid>[^\s(]+))? ?\((?P<name>[^)]*)\) Rank (?P<rank>\d+)\]"
)
_STACK: Final = lazily(r"^#\d+ (?P<function>\S+) from (?P<file>.+):(?P<line>\d+)$", re.MULTILINE)
_LAGGING: Final = lazily(
    r"(?:ranks? )?\[(?P<ranks>[\d, ]+)\] (?:(?:are|is) the lagging ranks?|finished collective #\d+, but didn't join)"
)
_OWN: Final = lazily(r"\[(?:PG|Rank)[^\]]*\] ?|^.*\n", re.DOTALL)  # torch's labels, and the lines before
_RANK: Final = lazily(r"\[Rank (\d+)\]| Rank (\d+)\]")


class CollectiveTimeout(Record, frozen=True):
    """One collective that ran into its limit: who says it, which (sequence in its group), limit and time in ms.

    `elements` is the number of input elements; 1 is what barriers and flags use.
    """

    rank: int | None
    operation: str
    sequence: int | None
    elements: int | None
    limit_ms: int | None
    ran_ms: int | None


class WatchdogCounters(Record, frozen=True):
    """The watchdog's own count of works in one process group: last enqueued, last completed, the one at fault."""

    rank: int | None
    group: str
    enqueued: int
    completed: int
    at: int | None


class LaggingRanks(Record, frozen=True):
    """The desync report's answer (TORCH_NCCL_DESYNC_DEBUG=1): the ranks that held up the others."""

    ranks: tuple[int, ...]


class CollectiveStack(Record, frozen=True):
    """Where a waiting rank called the collective that did not finish (flight recorder on, torch 2.9 or later)."""

    rank: int | None
    frames: tuple[Frame, ...]


def read(message: Message) -> Iterator[CollectiveTimeout | WatchdogCounters | LaggingRanks | CollectiveStack]:
    """What the watchdog says in `message`.

    `[Rank 1]` inside a message is the rank within a process group (since torch 2.4); the rank that a launcher's prefix
    gives is that of the job, and wins.
    """
    text = message.text
    spoken = _RANK.search(text)
    rank = message.origin.rank
    if rank is None and spoken is not None:
        rank = int(spoken[1] or spoken[2])
    if (lag := _LAGGING.search(text)) is not None:
        yield LaggingRanks(message.anchor, tuple(int(r) for r in lag["ranks"].split(",")), **message.common)
    if "Stack trace of the failed collective:" in text and (frames := _frames(text)):
        yield CollectiveStack(message.anchor, rank, frames, **message.common)
    m = _TIMEOUT.search(text)
    if m is not None and (message.exception is not None or is_label(_OWN.sub("", text[: m.start()]))):
        numel = _NUMEL.search(m["rest"])
        yield CollectiveTimeout(
            message.anchor,
            rank=rank,
            operation=m["op"].lstrip("_"),
            sequence=int(m["seq"]) if m["seq"] else None,
            elements=_elements(numel) if numel else None,
            limit_ms=int(m["limit"]) if m["limit"] else None,
            ran_ms=int(m["ran"]) if m["ran"] else None,
            **message.common,
        )
    if (c := _COUNTERS.search(text)) is not None:
        group = _GROUP.search(text)
        yield WatchdogCounters(
            message.anchor,
            rank=rank,
            group=f"{group['guid'] or group['id']} ({group['name']})" if group else "",
            enqueued=int(c["enqueued"]),
            completed=int(c["completed"]),
            at=int(c["at"]) if c["at"] else None,
            **message.common,
        )


def _frames(text: str) -> tuple[Frame, ...]:
    """The Python stack of the collective, outermost call first (it is printed the other way round)."""
    found = [Frame(m["file"], int(m["line"]), m["function"]) for m in _STACK.finditer(text)]
    return tuple(reversed(found))


def _elements(m: re.Match[str]) -> int:
    if m[1] is not None:
        return int(m[1])
    count = 1
    for part in m[2].split(","):
        count *= int(part) if part.strip() else 1
    return count
