"""A job's dumps to the collectives on which the members of a group do not agree.

Two ranks of a group must give the same collective the same sequence number, with the same
element count and type. Shapes may differ where the count does not, counts where the
collective allows it (all_to_all, gather, scatter, uneven lists, batches); those compare by
name only. The first disagreement of a group is the telling one; what follows is pairing
up wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from msgspec import Struct

from necropsy_parsers.flight import FlightCall

from necropsy.evidence._flight_jobs import Job
from necropsy.evidence._flight_state import COALESCED, is_done
from necropsy.evidence._flight_waits import comparable

# Every member must bring as much as the others.
_EVEN: Final = re.compile(r"all_?reduce(?!_barrier)|reduce(?!_scatter|_oop)|broadcast(?!_oop)")
# The same, unless lists of unequal tensors are given, which NCCL then sends one by one.
_EVEN_LISTS: Final = re.compile(r"all_?gather(?!_?v)|reduce_scatter(?!_?v)", re.IGNORECASE)
_TYPED: Final = re.compile(r"all_?to_?all", re.IGNORECASE)

Signature = tuple[str, int | None, int | None, tuple[str, ...] | None]


class Mismatch(Struct, frozen=True):
    """The first collective of a group on which its members disagree.

    `what`: operation, size or type. `sides`: ranks that agree with each other, the largest
    set first. `entries`: each rank's entry. `complete`: nobody waits in it any more.
    """

    group: int
    number: int
    what: str
    sides: tuple[tuple[int, ...], ...]
    entries: dict[int, int]
    complete: bool

    @property
    def suspects(self) -> tuple[int, ...]:
        """The ranks outside the majority; all of them where there is none."""
        most = len(self.sides[0])
        everybody = sum(map(len, self.sides))
        odd = self.sides[1:] if 2 * most > everybody else self.sides
        return tuple(sorted(r for side in odd for r in side))

    @property
    def decided(self) -> bool:
        """Whether a majority agrees."""
        return 2 * len(self.sides[0]) > sum(map(len, self.sides))


class _Line(Struct):
    """One rank's collectives in one group: signature and entry by number, oldest first."""

    numbers: list[int]
    signatures: list[int]
    entries: list[int]


def mismatches_of(job: Job) -> list[Mismatch]:
    """The first disagreement of each group, those that others follow from left out, in order of time."""
    signatures: dict[Signature, int] = {}
    lines: dict[int, dict[int, _Line]] = {}
    for rank in job.dumps:
        for group, line in _lines(job, rank, signatures).items():
            lines.setdefault(group, {})[rank] = line
    known = list(signatures)
    found: list[Mismatch] = []
    for group, ranks in lines.items():
        if len(ranks) > 1 and comparable(job, group):
            found += _first(job, group, ranks, known)
    found.sort(key=lambda m: min(job.dumps[r].entries.created[e] for r, e in m.entries.items()))
    kept: list[Mismatch] = []
    for m in found:
        if not any(set(k.suspects) & set(m.suspects) for k in kept):
            kept.append(m)
    return kept


def _lines(job: Job, rank: int, signatures: dict[Signature, int]) -> dict[int, _Line]:
    dump, ids = job.dumps[rank], job.ids[rank]
    call_ids = [signatures.setdefault(_signature(c), len(signatures)) for c in dump.calls]
    batches = {c for c, call in enumerate(dump.calls) if call.op == COALESCED}
    lines: dict[int, _Line] = {}
    several: set[tuple[int, int]] = set()
    e = dump.entries
    for i, (group, p2p, number, call) in enumerate(zip(e.group, e.p2p, e.sequence, e.call, strict=True)):
        if p2p >= 0:
            continue
        line = lines.setdefault(ids[group], _Line([], [], []))
        if call in batches or (line.numbers and line.numbers[-1] == number):
            several.add((ids[group], number))
        line.numbers.append(number)
        line.signatures.append(call_ids[call])
        line.entries.append(i)
    return {g: _without(line, g, several) if several else line for g, line in lines.items()}


def _without(line: _Line, group: int, several: set[tuple[int, int]]) -> _Line:
    """A line without batches, whose members may stand in any order."""
    kept = [i for i, n in enumerate(line.numbers) if (group, n) not in several]
    return _Line(*([column[i] for i in kept] for column in (line.numbers, line.signatures, line.entries)))


def _signature(call: FlightCall) -> Signature:
    """What must agree. None where it need not, or was not recorded."""
    op = call.op
    plain = op.lstrip("_")
    lists = _EVEN_LISTS.match(plain)
    if lists and len({*call.input_sizes}) <= 1 and len({*call.output_sizes}) <= 1:
        return op, _elements(call.input_sizes), _elements(call.output_sizes), call.input_types or None
    if not lists and _EVEN.match(plain):
        return op, _elements(call.input_sizes), None, call.input_types or None
    return op, None, None, call.input_types[:1] or None if _TYPED.match(plain) else None


def _elements(shapes: Sequence[tuple[int, ...]]) -> int | None:
    return sum(prod(shape) for shape in shapes) if shapes else None


def _first(job: Job, group: int, ranks: dict[int, _Line], known: list[Signature]) -> Iterator[Mismatch]:
    """The first disagreement in a group, if there is one that its neighbours confirm."""
    longest = max(ranks, key=lambda r: len(ranks[r].numbers))
    firsts = [
        n for r, line in ranks.items() if r != longest and (n := _differs(ranks[longest], line, known)) is not None
    ]
    if not firsts:
        return
    number = min(firsts)
    at = {r: line.numbers.index(number) for r, line in ranks.items() if number in line.numbers}
    sides: list[list[int]] = []
    for r, i in at.items():
        mine = known[ranks[r].signatures[i]]
        home = next((s for s in sides if _agree(mine, known[ranks[s[0]].signatures[at[s[0]]]])), None)
        if home is None:
            sides.append([r])
        else:
            home.append(r)
    sides.sort(key=len, reverse=True)
    what = _what([known[ranks[s[0]].signatures[at[s[0]]]] for s in sides])
    entries = {r: ranks[r].entries[i] for r, i in at.items()}
    complete = all(is_done(job.dumps[r].entries.state[i]) for r, i in entries.items())
    aligned = any(i > 0 for r, i in at.items() if r not in sides[0]) or number == 1
    if len(sides) > 1 and (aligned or not complete or what != "operation"):
        yield Mismatch(group, number, what, tuple(tuple(s) for s in sides), entries, complete)


def _differs(a: _Line, b: _Line, known: list[Signature]) -> int | None:
    """The first number that both have, with signatures that do not agree."""
    if not a.numbers or not b.numbers:
        return None
    start, end = max(a.numbers[0], b.numbers[0]), min(a.numbers[-1], b.numbers[-1])
    pieces = []
    for line in (a, b):
        i = start - line.numbers[0]
        whole = line.numbers[-1] - line.numbers[0] == len(line.numbers) - 1
        pieces.append(line.signatures[i : i + end - start + 1] if whole and end >= start else None)
    if pieces[0] is not None and pieces[0] == pieces[1]:
        return None
    theirs = dict(zip(b.numbers, b.signatures, strict=True))
    for n, signature in zip(a.numbers, a.signatures, strict=True):
        other = theirs.get(n, signature)
        if other != signature and not _agree(known[signature], known[other]):
            return n
    return None


def _agree(a: Signature, b: Signature) -> bool:
    return a[0] == b[0] and all(x is None or y is None or x == y for x, y in zip(a[1:], b[1:], strict=True))


def _what(signatures: list[Signature]) -> str:
    if len({s[0] for s in signatures}) > 1:
        return "operation"
    return "size" if len({s[1:3] for s in signatures}) > 1 else "type"
