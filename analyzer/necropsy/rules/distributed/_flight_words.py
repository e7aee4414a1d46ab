"""Entries of flight-recorder dumps to words, places and anchors, alike in all rules that read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from necropsy_parsers.flight import STATES, FlightCall
from necropsy_parsers.records import Anchor

from necropsy.evidence._flight_jobs import Group, Job
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.flight_entries import user_frame
from necropsy.finding import Place

# A dump is written after everything else, wherever its file stands among the inputs.
AFTERWARDS: Final = 1 << 62
NAMED: Final = 8  # more ranks than these are counted


def ranks(listed: Iterable[int]) -> str:
    """`rank 3`, `ranks 0, 1 and 5`, `ranks 0, 1, ... (14 in all)`."""
    known = sorted(listed)
    if len(known) == 1:
        return f"rank {known[0]}"
    if len(known) > NAMED:
        return f"ranks {', '.join(map(str, known[:3]))}, ... ({len(known)} in all)"
    return f"ranks {', '.join(map(str, known[:-1]))} and {known[-1]}"


def collective(op: str, number: int, group: Group) -> str:
    """`all_reduce #4 of group 0 (default_pg)`; a send or receive has no number that ranks share."""
    counted = f"{op} #{number}" if number >= 0 else f"a {op}"
    return f"{counted} of {group}"


def entry(job: Job, rank: int, index: int) -> str:
    """One entry in words: `all_reduce #4 of group 0 (default_pg), scheduled`."""
    e = job.dumps[rank].entries
    call = job.dumps[rank].calls[e.call[index]]
    number = e.sequence[index] if e.p2p[index] < 0 else -1
    state = STATES[min(e.state[index] & 3, len(STATES) - 1)] if e.state[index] < 4 else "completed"
    return f"{collective(call.op, number, job.groups[job.ids[rank][e.group[index]]])}, {state}"


def shape(call: FlightCall) -> str:
    """`all_reduce of 1024x8 Float`."""
    sizes = ", ".join("x".join(map(str, s)) or "scalar" for s in call.input_sizes[:3])
    types = "/".join(dict.fromkeys(call.input_types[:3]))
    return " ".join(p for p in (call.op, "of" if sizes or types else "", sizes, types) if p)


def anchor(job: Job, rank: int, index: int) -> Anchor:
    """Where an entry stands: its dump, and the entry in words (a dump has no lines)."""
    words = f"rank {rank}: {entry(job, rank, index)}" if index >= 0 else f"rank {rank}: no entries"
    return Anchor(job.dumps[rank].anchor.input, 0, 0, 1, words)


def place(job: Job, rank: int, index: int, how: str, exactness: str = "line") -> tuple[Place, ...]:
    """The line of the user's code that enqueued an entry, where its stack was recorded."""
    frame = user_frame(job.dumps[rank], index) if index >= 0 else None
    return (Place(frame.file, frame.line, None, frame.function, "", exactness, how),) if frame else ()


def distinct(places: Sequence[Place]) -> tuple[Place, ...]:
    """Each line once, at most four."""
    return tuple({(p.file, p.line): p for p in reversed(places)}.values())[::-1][:4]


def last_attempt(exceptions: Exceptions | None) -> int:
    """The attempt that dumps are of, since later ones overwrite those of earlier ones."""
    return max((row.attempt for row in exceptions or ()), default=0)


def process_of(listed: Sequence[int]) -> str:
    """The process that a finding is about, or several together."""
    return ranks(listed) if listed else "a group of ranks"
