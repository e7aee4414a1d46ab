"""Places of a run in a document under edit: which line is each of them now, and does its text still stand?

Every line of the document has an identity that edits carry along. A place is bound to the
line that held its text when it was first looked for: it moves with that line, is stale
while the line says something else, and is nowhere when the line was deleted. Text that
was cut and pasted is followed to lines that are new, never to a twin that was there before.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct, field

from necropsy_lsp.matching import (
    DECORATORS,
    Function,
    defines,
    functions_of,
    inside,
    quoted,
    seen,
    similar,
    stands,
)
from necropsy_lsp.stored import Place
from necropsy_lsp.text import LineEdit

_LARGE = 4_000_000  # pairs of lines beyond which a whole-text change is compared coarsely


class Mark(Struct):
    """Where a place is: `home` is its line's identity, `at` that of the line it was moved to.

    `others` counts the lines that hold the same text and are not meant. `line` is None
    where the place cannot be shown.
    """

    home: int | None = None
    at: int | None = None
    others: int = 0
    line: int | None = None
    stale: bool = False


class Tracked(Struct):
    """The lines of one document and the places that are looked for in it."""

    lines: list[str]
    ids: list[int] = field(default_factory=list)
    born: list[str] = field(default_factory=list)
    marks: dict[Place, Mark] = field(default_factory=dict)
    _next: int = 0
    _where: dict[str, list[int]] | None = None
    _functions: list[Function] | None = None

    def __post_init__(self) -> None:
        self.born = list(self.lines)
        self.ids = list(range(len(self.lines)))
        self._next = len(self.lines)

    def want(self, places: Iterable[Place], again: Container[Place] = ()) -> None:
        """Look for these places and no others.

        Those of `again` were seen by a new run: one that does not stand is taken from where
        it was to the line that the run names, but not searched for, since twins are no proof.
        """
        marks: dict[Place, Mark] = {}
        new: list[Place] = []
        for place in places:
            mark = self.marks.get(place)
            if place in marks:
                continue
            lost = mark is not None and mark.stale and place in again
            if mark is None or (lost and (mark.home is None or self._stated(place, (place.line or 0) - 1) is not None)):
                new.append(place)
                marks[place] = Mark()
            else:
                marks[place] = mark
        self.marks = marks
        self._find(new)
        self.settle()

    def edit(self, edits: Sequence[LineEdit]) -> None:
        """Carry the places along with what happened to the lines."""
        for edit in edits:
            old = self.lines[edit.first : edit.last + 1]
            kept = _align(old, edit.lines, edit.pushes)
            ids = [self.ids[edit.first + kept[n]] if n in kept else self._fresh() for n in range(len(edit.lines))]
            self.lines[edit.first : edit.last + 1] = edit.lines
            self.ids[edit.first : edit.last + 1] = ids
        self._where = self._functions = None
        self.settle()

    def settle(self) -> None:
        """Say for each place which line it is on now and whether its text stands there."""
        line_of = {identity: number for number, identity in enumerate(self.ids)}
        taken: set[int] = set()
        lost: list[tuple[Place, Mark]] = []
        for place, mark in self.marks.items():
            for identity in (mark.home, mark.at):
                number = line_of.get(identity) if identity is not None else None
                if number is not None and stands(place, self.lines, number):
                    mark.line, mark.stale = number, False
                    taken.add(number)
                    break
            else:
                lost.append((place, mark))
        for place, mark in lost:
            self._follow(place, mark, line_of, taken)

    def _follow(self, place: Place, mark: Mark, line_of: dict[int, int], taken: set[int]) -> None:
        """Bind a place whose text is not where it was to a new line that holds it, else call it stale."""
        here = self._holding(place)
        new = [n for n in here if n not in taken and self._is_new(n)]
        if new and len(here) > mark.others:
            near = mark.line if mark.line is not None else (place.line or 1) - 1
            mark.line = min(new, key=lambda n: abs(n - near))
            mark.at, mark.stale = self.ids[mark.line], False
            taken.add(mark.line)
            return
        numbers = [line_of[i] for i in (mark.home, mark.at) if i is not None and i in line_of]
        numbers = [n for n in numbers if self.lines[n].strip()]  # an emptied line says nothing any more
        mark.line, mark.stale = (numbers[0], True) if numbers else (None, True)

    def _find(self, places: Sequence[Place]) -> None:
        """Bind new places: where they say, else where their text moved to, else to what became of it."""
        shifts: list[tuple[int, int]] = []
        unclear: list[tuple[Place, list[int]]] = []
        for place in places:
            near = (place.line or 0) - 1
            number = self._stated(place, near)
            candidates = [number] if number is not None else inside(place, self._holding(place), self._known())
            if len(candidates) == 1:
                self._bind(place, candidates[0])
                shifts.append((near, candidates[0] - near))
            else:
                unclear.append((place, candidates))
        for place, candidates in unclear:
            near = (place.line or 0) - 1
            if not candidates:
                changed = similar(place, self.lines, near) if near >= 0 else None
                self.marks[place].home = self.ids[changed] if changed is not None else None
                continue
            # Of several copies, the one that moved as far as the places around it did.
            shift = min(shifts, key=lambda s: abs(s[0] - near), default=(0, 0))[1]
            self._bind(place, min(candidates, key=lambda n: (abs(n - near - shift), n)))

    def _bind(self, place: Place, number: int) -> None:
        mark = self.marks[place]
        mark.home = self.ids[number]
        mark.others = len(self._holding(place)) - 1

    def _stated(self, place: Place, near: int) -> int | None:
        """The line that the place names, if it holds what the run saw."""
        if stands(place, self.lines, near):
            return near
        if defines(place) and 0 <= near < len(self.lines) and self.lines[near].lstrip().startswith("@"):
            for number in range(near, min(near + DECORATORS, len(self.lines))):
                if stands(place, self.lines, number):
                    return number
        return None

    def _holding(self, place: Place) -> list[int]:
        """Every line that holds what the run saw at the place."""
        if quote := quoted(place):
            if self._where is None:
                self._where = {}
                for number, line in enumerate(self.lines):
                    self._where.setdefault(seen(line), []).append(number)
            numbers = self._where.get(quote[0], [])
            return numbers if len(quote) == 1 else [n for n in numbers if stands(place, self.lines, n)]
        name = defines(place)
        return [f.first for f in self._known() if f.name == name] if name else []

    def _known(self) -> list[Function]:
        if self._functions is None:
            self._functions = functions_of(self.lines)
        return self._functions

    def _is_new(self, number: int) -> bool:
        """Whether a line says something that it did not say when the document was opened."""
        identity = self.ids[number]
        return identity >= len(self.born) or seen(self.born[identity]) != seen(self.lines[number])

    def _fresh(self) -> int:
        self._next += 1
        return self._next - 1


def _align(old: Sequence[str], new: Sequence[str], pushes: bool) -> dict[int, int]:
    """Which new line is which old one, as new index -> old index."""
    if list(old) == list(new):
        return {n: n for n in range(len(new))}
    kept: dict[int, int] = {}
    begin, tail = 0, 0
    most = min(len(old), len(new))

    def head() -> None:
        nonlocal begin
        while begin + tail < most and old[begin] == new[begin]:
            kept[begin] = begin
            begin += 1

    def foot() -> None:
        nonlocal tail
        while begin + tail < most and old[-1 - tail] == new[-1 - tail]:
            kept[len(new) - 1 - tail] = len(old) - 1 - tail
            tail += 1

    for step in (foot, head) if pushes else (head, foot):
        step()
    kept.update(_between(old, new, range(begin, len(old) - tail), range(begin, len(new) - tail)))
    return kept


def _between(old: Sequence[str], new: Sequence[str], olds: range, news: range) -> Iterator[tuple[int, int]]:
    """The pairs (new, old) of the lines that differ: equal ones first, then those that were rewritten in place."""
    if not olds or not news:
        return
    a, b = [seen(old[n]) for n in olds], [seen(new[n]) for n in news]
    blocks = [(0, 0, 0)]
    if len(a) > 1 or len(b) > 1:
        matcher = SequenceMatcher(None, a, b, autojunk=len(a) * len(b) > _LARGE)
        blocks = [(m.a, m.b, m.size) for m in matcher.get_matching_blocks()]
    i = j = 0
    for start_a, start_b, size in blocks if len(blocks) > 1 else [(len(a), len(b), 0)]:
        for offset in range(min(start_a - i, start_b - j)):
            yield news[j + offset], olds[i + offset]
        for offset in range(size):
            yield news[start_b + offset], olds[start_a + offset]
        i, j = start_a + size, start_b + size
