"""Recompilations by cause: one story for all functions, resumed functions and ranks that one changing value touches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, cast

from msgspec import Struct, field

from necropsy_parsers.grammars.guard import Guard
from necropsy_parsers.messages.recompile_limit import RecompileLimit
from necropsy_parsers.messages.side_effect import SideEffect
from necropsy_parsers.numbers import natural
from necropsy_parsers.records import Origin
from necropsy_parsers.text.guard_failure import GuardFailure

from necropsy.evidence.recompile_limits import RecompileLimits
from necropsy.evidence.recompiles import RecompileRow, Recompiles
from necropsy.evidence.side_effects import SideEffects
from necropsy.finding import Place
from necropsy.provenance.dynamo import plain_function, resumed_at
from necropsy.provenance.effects import changed_at
from necropsy.provenance.frames import is_library
from necropsy.provenance.guards import bound_place, guard_place
from necropsy.provenance.sizes import STRUCTURED, SizeLines

Row = RecompileRow | RecompileLimit
VALUES: Final = frozenset({"int", "float", "bool", "str", "none", "value"})
_MODES: Final = frozenset({"dtype", "device", "keyset", "rank", "requires_grad"})
MAX_VALUES: Final = 12


def failure_of(row: Row) -> GuardFailure | None:
    """The guard that a row tells."""
    return row.failure if isinstance(row, RecompileRow) else row.reason


def process_key(origin: Origin) -> tuple[int | None, int | None, str | None, int | None]:
    """Who wrote a row."""
    return (origin.rank, origin.pid if origin.rank is None else None, origin.host, origin.local_rank)


def header_key(row: Row) -> tuple[str, str, int | None]:
    """The function that was compiled."""
    return (row.function, row.file, row.line)


class Story(Struct, dict=True):
    """All recompilations with one cause; `rows` and `limits` in order of reading."""

    rows: list[RecompileRow] = field(default_factory=list)
    limits: list[RecompileLimit] = field(default_factory=list)
    refused: list[RecompileRow] = field(default_factory=list)
    known: frozenset[str] = frozenset()
    sizes: SizeLines | None = None
    effects: Sequence[SideEffect] = ()

    def all(self) -> list[Row]:
        """Whatever tells of it."""
        return [*self.rows, *self.refused, *self.limits]

    @cached_property
    def lead(self) -> Row:
        """The row whose guard speaks for all: of the outermost function, with a line of code if any has one."""
        with_guard = [r for r in self.all() if failure_of(r) is not None] or self.all()
        return min(with_guard, key=self._outermost)

    def _outermost(self, row: Row) -> tuple[bool, bool, bool, int, int]:
        failure = failure_of(row)
        number = row.compile_id.rpartition("/")[0].rpartition("/")[2].lstrip("!")
        return (
            bool(row.file) and is_library(row.file),
            failure is not None and failure.guard.source.startswith("___stack"),
            resumed_at(row.function) is not None,
            natural(number) if number.isdecimal() else 1 << 30,
            row.seq,
        )

    @cached_property
    def failure(self) -> GuardFailure | None:
        """The guard of the leading row."""
        return failure_of(self.lead)

    def per_frame(self) -> Counter[Hashable]:
        """Recompilations of each function in each process and attempt."""
        return Counter((process_key(r.origin), r.attempt, r.frame_id, *header_key(r)) for r in self.rows)

    @cached_property
    def most(self) -> int:
        """The most recompilations of one function in one process."""
        return max(self.per_frame().values(), default=0)

    def in_one_process(self) -> int:
        """The most recompilations in one process, over all functions."""
        return max(Counter((process_key(r.origin), r.attempt) for r in self.rows).values(), default=0)

    def functions(self) -> list[str]:
        """The functions touched, as the user wrote them, outermost first."""
        rows = sorted((r for r in self.all() if r.function), key=self._outermost)
        return list(dict.fromkeys(plain_function(r.function) for r in rows))

    @cached_property
    def place(self) -> Place | None:
        """The line that changes the value; else the one that made the guard; else what is known of its function."""
        return self.changed or self.read

    @cached_property
    def changed(self) -> Place | None:
        """The line of the function itself that changes the value, where the log of side effects tells it."""
        failure, lead = self.failure, self.lead
        if failure is None or not self.effects:
            return None
        return changed_at(failure.guard, lead.origin, lead.compile_id, self.effects)

    @cached_property
    def read(self) -> Place | None:
        """The line that made the guard; else where the size entered; else the function that was compiled."""
        if self.fixed is not None:
            return self.fixed
        if self.bound is not None:
            return self.bound
        for row in self._speaking():
            if (found := guard_place(failure_of(row), self.known)) is not None:
                return found
        # Structured logs tell always where a size was used first, which is no fault of that line; text logs only
        # tell it to those who ask for it.
        if self.entered is not None and self.entered.how == STRUCTURED:
            return self.header or self.entered
        return self.entered or self.header

    def _speaking(self) -> Iterator[Row]:
        """The leading row, then all with its guard."""
        lead = self.lead
        yield lead
        yield from (row for row in self.all() if row is not lead and self._same_guard(row, lead))

    @cached_property
    def bound(self) -> Place | None:
        """The line behind the upper bound that the changing size has passed."""
        return bound_place(self.failure, self.now, self.known)

    @cached_property
    def entered(self) -> Place | None:
        """The line that used the changing size first, where the log of symbolic shapes or the guards tell it."""
        return self._of_size(SizeLines.entered)

    @cached_property
    def fixed(self) -> Place | None:
        """The line that allows the changing size one value only, where the log of symbolic shapes tells it."""
        if self.most < 2 and not self.limits:
            return None  # a first version is for one size in any case
        return self._of_size(SizeLines.fixed)

    def _of_size(self, ask: Callable[[SizeLines, Row, str, int | None, Iterable[str]], Place | None]) -> Place | None:
        lead = header_key(self.lead)  # what a function calls, and what resumes it, got the size from it
        kind = self.failure.guard.kind if self.failure is not None else ""
        for row in self._speaking() if self.sizes is not None and kind in ("size", "stride") else ():
            failure = failure_of(row)
            if failure is not None and failure.guard.kind in ("size", "stride") and header_key(row) == lead:
                dim = failure.guard.dim
                if (
                    found := ask(cast("SizeLines", self.sizes), row, failure.guard.source, dim, self.known)
                ) is not None:
                    return found
        return None

    @cached_property
    def now(self) -> str:
        """What the size is in the call that the leading row's guard did not let pass, "" where nothing tells."""
        failure, lead = self.failure, self.lead
        if failure is None or failure.guard.kind != "size":
            return ""
        told = lead.actual if isinstance(lead, RecompileRow) else failure.guard.actual
        return told or (self.sizes.now(lead, failure.guard.source, failure.guard.dim) if self.sizes else "")

    @staticmethod
    def _same_guard(row: Row, lead: Row) -> bool:
        a, b = failure_of(row), failure_of(lead)
        if a is None or b is None:
            return False
        return _compared(a.guard) == _compared(b.guard)

    @cached_property
    def header(self) -> Place | None:
        """The function that was compiled, as a place."""
        for row in sorted(self.all(), key=self._outermost):
            if row.file and not is_library(row.file):
                return Place(
                    row.file, row.line, None, plain_function(row.function), "", "function", "compiled function"
                )
        return None

    @cached_property
    def values(self) -> list[str]:
        """What the value was in turn, as far as guards tell, in the function and process with most to tell."""
        lead = self.lead
        failure = failure_of(lead)
        if failure is None:
            return []
        same = [r for r in self.all() if _alike(failure_of(r), failure)]
        of = Counter((process_key(r.origin), r.attempt) for r in same)
        best = of.most_common(1)[0][0]
        told: list[str] = []
        for row in sorted((r for r in same if (process_key(r.origin), r.attempt) == best), key=lambda r: r.seq):
            found = failure_of(row)
            assert found is not None
            guard, actual = found.guard, row.actual if isinstance(row, RecompileRow) else found.guard.actual
            was = guard.expected if guard.operator in ("==", "is", "") and not guard.term else ""
            told += [v for v in (was, actual) if v]
        return list(dict.fromkeys(told))

    def ranks(self) -> tuple[int, ...]:
        """The ranks that tell of it."""
        return tuple(sorted({r.origin.rank for r in self.all() if r.origin.rank is not None}))

    def compile_ids(self) -> list[str]:
        """Ids of the compilations."""
        return list(dict.fromkeys(r.compile_id for r in self.all() if r.compile_id))


def _compared(guard: Guard) -> tuple[str, str, int | None, str]:
    """Kind, source, dimension, and how it is compared: with one value (""), or by a relation."""
    relation = guard.term or ("relation" if guard.kind == "size" and guard.operator not in ("==", "") else "")
    return guard.kind, guard.source, guard.dim, relation


def _alike(found: GuardFailure | None, lead: GuardFailure) -> bool:
    """Whether a guard compares the same thing."""
    if found is None or _compared(found.guard)[1:] != _compared(lead.guard)[1:]:
        return False
    return found.guard.kind == lead.guard.kind or {found.guard.kind, lead.guard.kind} <= VALUES


class _Groups:
    """Union of rows over shared keys."""

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._of: dict[Hashable, int] = {}

    def add(self, keys: Iterable[Hashable]) -> int:
        """A new row that belongs to whatever has one of its keys."""
        number = len(self._parent)
        self._parent.append(number)
        for key in keys:
            self._parent[self.find(number)] = self.find(self._of.setdefault(key, number))
        return number

    def find(self, number: int) -> int:
        """The row that stands for a row's group."""
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number


def _keys(row: Row, known: frozenset[str]) -> Iterator[Hashable]:
    """What makes two rows one story."""
    failure = failure_of(row)
    if failure is None:
        return
    guard = failure.guard
    kind = "value" if guard.kind in VALUES else guard.kind
    source = "" if kind == "state" else guard.source or guard.raw
    subject = (kind, source, *_compared(guard)[2:])
    if row.function:
        yield ("function", header_key(row), subject)
    frame_id = row.compile_id.rpartition("/")[0]
    if frame_id:  # a torn warning names no function, but other ranks compile the same functions in the same order
        yield ("frame", frame_id, subject, row.function) if row.function else ("frame", frame_id, subject)
        if row.function:
            yield ("frame", frame_id, subject)
    if guard.kind == "size" and guard.expected.isdecimal() and guard.actual.isdecimal():
        yield ("size", guard.dim, guard.expected, guard.actual)
    elif guard.kind in _MODES:
        yield (guard.kind, guard.expected, guard.actual)
    elif guard.kind == "state":
        yield ("state", guard.source)
    elif guard.source.endswith(".training"):
        yield ("training",)
    if (kind in ("value", "length", "keys", "type", "identity") or guard.term) and (
        place := guard_place(failure, known)
    ) is not None:
        yield ("line", kind, subject[1].rpartition(".")[2], place.file, place.line)


def stories(recompiles: Recompiles, limits: RecompileLimits, sizes: SizeLines, effects: SideEffects) -> list[Story]:
    """The recompilations of a run by cause, in order of first appearance; three rules ask for them."""
    if recompiles.told is None:
        told = _stories(recompiles, limits)
        for story in told:
            story.sizes = sizes
            story.effects = effects.rows
        recompiles.told = told
    return cast("list[Story]", recompiles.told)


def _stories(recompiles: Recompiles, limits: RecompileLimits) -> list[Story]:
    rows: list[Row] = sorted([*recompiles.rows, *limits.rows], key=lambda r: r.seq)
    known = frozenset(_paths(rows))
    groups, found = _Groups(), [r for r in rows if failure_of(r) is not None]
    numbers = [groups.add(_keys(r, known)) for r in found]
    made: dict[Hashable, Story] = {}
    for row, number in zip(found, numbers, strict=True):
        _put(made.setdefault(groups.find(number), Story(known=known)), row)
    homes = _homes(made.values())
    for row in rows:
        if failure_of(row) is None:
            _put(_home(row, made, homes, known), row)
    told = list(made.values())
    _settle(told)
    return [s for s in told if s.all()]


def _put(story: Story, row: Row) -> None:
    if isinstance(row, RecompileLimit):
        story.limits.append(row)
    elif row.refused:
        story.refused.append(row)
    else:
        story.rows.append(row)


def _homes(told: Iterable[Story]) -> dict[Hashable, Counter[int]]:
    """How many rows each story (by its place in the list) has of a function, and of a process's warnings."""
    homes: dict[Hashable, Counter[int]] = {}
    for number, story in enumerate(told):
        for row in story.all():
            homes.setdefault(header_key(row), Counter())[number] += 1
        for limit in story.limits:
            for who in (process_key(limit.origin), limit.origin.rank, None):
                homes.setdefault(("warned", who), Counter())[number] += 1
    return homes


def _home(row: Row, made: dict[Hashable, Story], homes: dict[Hashable, Counter[int]], known: frozenset[str]) -> Story:
    """The story of a row that tells no guard: that of its function, else one of its own."""
    exception = isinstance(row, RecompileLimit) and row.form == "exception"
    hits: Counter[int] | None = None
    if exception:  # it follows a warning of its process, which may have been the only one to bear a number
        for who in (process_key(row.origin), row.origin.rank, None):
            hits = hits or homes.get(("warned", who))
    elif row.function:
        hits = homes.get(header_key(row))
    if hits:
        return list(made.values())[hits.most_common(1)[0][0]]
    return made.setdefault(("untold", "exception" if exception else header_key(row)), Story(known=known))


def _settle(told: list[Story]) -> None:
    """Moves limits to the story that used most of the limit up: the last reason need not be that of the many."""
    counts: dict[Hashable, Counter[int]] = {}
    for number, story in enumerate(told):
        for row in story.rows:
            counts.setdefault((header_key(row), process_key(row.origin)), Counter())[number] += 1
    for number, story in enumerate(told):
        for limit in list(story.limits):
            used = counts.get((header_key(limit), process_key(limit.origin)))
            if limit.form != "warning" or not limit.function or not used:
                continue
            best, most = used.most_common(1)[0]
            if most >= 2 and most > used[number]:
                story.limits.remove(limit)
                told[best].limits.append(limit)


def _paths(rows: Iterable[Row]) -> Iterator[str]:
    """Whole paths that the rows name."""
    for row in rows:
        if row.file:
            yield row.file
        failure = failure_of(row)
        for frame in failure.stack if failure is not None else ():
            yield frame.file
