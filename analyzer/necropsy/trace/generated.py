"""Kernels of a trace that torch.compile made or called, laid over the calls of its generated code: their lines.

A run of generated code launches its kernels in the order of the code's calls. Generated ones bear the code's own names;
libraries' kernels (products, convolutions) are named by what stands between those. A run whose generated kernels are
not exactly those of one code tells by names alone: a name's kernels may be several calls', and then all lines count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy_parsers.records import Frame

from necropsy.finding import Place
from necropsy.provenance.frames import is_library
from necropsy.provenance.inductor import operator
from necropsy.trace.nesting import Nest
from necropsy.trace.opwork import COMPILED, opwork_of

if TYPE_CHECKING:
    from necropsy.evidence.inductor_kernels import InductorKernel, InductorKernels
    from necropsy.trace.profile import Profile

Rows = NDArray[np.int64]
HOW: Final = "generated code"
CHOICE: Final = "generated code: fused of these lines"
GENERATED: Final = ("triton_", "cpp_fused", "pallas_", "cutedsl_")
LEAST: Final = 0.01  # weight of a line of which no node was seen
MOST_LINES: Final = 4  # lines of a fused kernel that become places
_ALIASES: Final = {"bias_addmm": "addmm", "_mm_plus_mm": "mm"}


class Code(Struct, frozen=True):
    """The calls of one graph's code: names of the generated ones, and the libraries' between them."""

    calls: tuple[InductorKernel, ...]
    names: tuple[str, ...]
    own: tuple[int, ...]  # places of the generated calls
    gaps: tuple[tuple[int, ...], ...]  # places of libraries' calls before, between and behind them


def codes_of(rows: Iterable[InductorKernel]) -> list[Code]:
    """The table's rows, by graph; what several inputs say of one graph counts once."""
    graphs: dict[tuple[object, ...], list[InductorKernel]] = {}
    for row in rows:
        graphs.setdefault((row.anchor, row.graph), []).append(row)
    return [_code(tuple(calls)) for calls in graphs.values()]


def _code(calls: tuple[InductorKernel, ...]) -> Code:
    own = tuple(i for i, c in enumerate(calls) if not c.extern)
    bounds = (-1, *own, len(calls))
    gaps = tuple(tuple(range(a + 1, b)) for a, b in pairwise(bounds))
    return Code(calls, tuple(calls[i].kernel for i in own), own, gaps)


class Generated:
    """The calls of generated code behind the kernels of a trace."""

    def __init__(self, profile: Profile, rows: Iterable[InductorKernel]) -> None:
        self._p, self._r = profile, profile.rank
        self._codes = codes_of(rows)
        self._by_name: dict[str, list[InductorKernel]] = {}
        for code in self._codes:
            for call in code.calls:
                self._by_name.setdefault(call.kernel, []).append(call)
        self.calls: dict[int, tuple[InductorKernel, ...]] = {}  # kernel's row -> calls that it may be
        if self._codes and len(self._r.kernels):
            self._named()
            self._laid()

    def _named(self) -> None:
        """Generated kernels by their names."""
        names = self._r.kernels["name"]
        for number in np.unique(names):
            name = self._r.trace.names[int(number)]
            calls = self._by_name.get(name)
            if calls and name.startswith(GENERATED):
                for row in np.flatnonzero(names == number).tolist():
                    self.calls[row] = tuple(calls)

    def _laid(self) -> None:
        """Kernels of each run of generated code, in the order of their launches."""
        memo: dict[tuple[object, ...], dict[int, tuple[InductorKernel, ...]]] = {}
        for rows, units, ops in self._runs():
            numbers = self._r.kernels["name"][rows].tolist()
            seen: dict[int, int] = {}  # operators' calls as they follow each other, alike in each run
            units = [seen.setdefault(u, len(seen)) if u >= 0 else u for u in units]
            key = (tuple(numbers), tuple(units), tuple(ops))
            if key not in memo:
                memo[key] = self._align([self._r.trace.names[n] for n in numbers], units, ops)
            for at, calls in memo[key].items():
                self.calls[int(rows[at])] = calls

    def _runs(self) -> Iterable[tuple[Rows, list[int], list[str]]]:
        """Rows of one run's kernels, the unit (operator's call) of each, the operators' names."""
        r = self._r
        launch = r.launch_of(r.kernels)
        region = self._regions(launch)
        order = np.lexsort((r.kernels["start"], r.calls["start"][np.maximum(launch, 0)], region))
        order = order[region[order] >= 0]
        ops = r.op_of(r.kernels)
        cuts = np.flatnonzero(np.diff(region[order])) + 1
        for rows in np.split(order, cuts):
            if len(rows):
                mine = ops[rows]
                names = [r.named(r.ops, int(o)) if o >= 0 else "" for o in mine]
                # A replay has one operator, if any, for all kernels: it says nothing of them.
                replay = len(set(launch[rows].tolist())) == 1 and len(rows) > 1
                yield rows, [-1] * len(rows) if replay else mine.tolist(), [""] * len(rows) if replay else names

    def _regions(self, launch: Rows) -> Rows:
        """For each kernel the run of generated code that launched it: a replay, or a range around the launch; or -1."""
        r = self._r
        ranges = r.annotations.take(np.flatnonzero(r.where(r.annotations, COMPILED[2:])))
        if not len(ranges):
            ranges = r.ops.take(np.flatnonzero(r.where(r.ops, COMPILED)))
        known = np.maximum(launch, 0)
        if not len(ranges) or not len(r.calls):
            return np.full(len(launch), -1, np.int64)
        nest = Nest(ranges["start"], ranges["end"], ranges["thread"])
        within = nest.innermost(r.calls["thread"][known], r.calls["start"][known])
        return np.where(launch >= 0, within, -1)

    def _align(self, names: list[str], units: list[int], ops: list[str]) -> dict[int, tuple[InductorKernel, ...]]:
        """Places of a run's kernels -> calls of all codes whose generated kernels are these, in this order."""
        own = [i for i, n in enumerate(names) if n.startswith(GENERATED)]
        found: dict[int, list[InductorKernel]] = {}
        for code in self._codes:
            if not own or code.names != tuple(names[i] for i in own):
                continue
            for at, call in zip(own, code.own, strict=True):
                found.setdefault(at, []).append(code.calls[call])
            bounds = (-1, *own, len(names))
            for (a, b), gap in zip(pairwise(bounds), code.gaps, strict=True):
                for at, call in _between(list(range(a + 1, b)), units, ops, [(g, code.calls[g]) for g in gap]):
                    found.setdefault(at, []).append(code.calls[call])
        return {at: tuple(calls) for at, calls in found.items()}

    def places(self, rows: Sequence[int] | Rows, ns: Sequence[int] | Rows) -> list[Place]:
        """Where the kernels of these rows come from: one line, or the lines of fused ones, the heaviest first."""
        weights: dict[tuple[str, int | None], float] = {}
        frames: dict[tuple[str, int | None], Any] = {}
        whole = True
        for row, length in zip(np.asarray(rows).tolist(), np.asarray(ns).tolist(), strict=True):
            lines, complete = self.lines(row)
            whole = whole and complete
            for place, (frame, share) in lines.items():
                weights[place] = weights.get(place, 0.0) + share * (length + 1)
                frames[place] = frame
        order = sorted(weights, key=lambda k: -weights[k])
        users = [frames[k] for k in order if not is_library(frames[k].file)]
        exact = "line" if len(order) == 1 and whole else "statement"
        how = HOW if len(order) == 1 else CHOICE
        return [Place(f.file, f.line, None, f.function, f.text, exact, how) for f in users[:MOST_LINES]]

    def knows(self, rows: Rows) -> bool:
        """Whether all of these kernels have lines."""
        return len(rows) > 0 and all(self.lines(int(row))[0] for row in rows)

    def lines(self, row: int) -> tuple[dict[tuple[str, int | None], tuple[Any, float]], bool]:
        """Lines of one kernel with their parts of it, and whether these are all; empty if a call of it has none."""
        calls = self.calls.get(row, ())
        told = {c.frames: c for c in calls}
        if not told or () in told:
            return {}, False
        parts: dict[tuple[str, int | None], tuple[Any, float]] = {}
        for call in told.values():
            total = sum(w.weight + LEAST for w in call.lines)
            for w in call.lines:
                key = (w.frame.file, w.frame.line)
                before = parts[key][1] if key in parts else 0.0
                parts[key] = (w.frame, before + (w.weight + LEAST) / total / len(told))
        return parts, all(c.complete for c in told.values())


def _between(
    kernels: list[int], units: list[int], ops: list[str], calls: list[tuple[int, InductorKernel]]
) -> Iterable[tuple[int, int]]:
    """Kernels between two generated ones and the libraries' calls there: (place, call), where there is no choice."""
    if not calls or not kernels:
        return
    if len(calls) == 1 and (units[kernels[0]] < 0 or len({units[k] for k in kernels}) == 1):
        yield from ((k, calls[0][0]) for k in kernels)
        return
    groups: list[list[int]] = []
    for k in kernels:
        if groups and units[k] >= 0 and units[k] == units[groups[-1][0]]:
            groups[-1].append(k)
        else:
            groups.append([k])
    # Copies and fills of torch's own may stand between them; they are no calls of the code.
    if units[kernels[0]] >= 0:
        wanted = {_operator(c) for _, c in calls}
        groups = [g for g in groups if ops[g[0]].rpartition("::")[2] in wanted]
    if len(groups) != len(calls):
        return
    for group, (place, call) in zip(groups, calls, strict=True):
        name = ops[group[0]].rpartition("::")[2]
        if name and name != _operator(call):
            return
        yield from ((k, place) for k in group)


def _operator(call: InductorKernel) -> str:
    name = operator(call.kernel)
    return _ALIASES.get(name, name)


def generated_of(profile: Profile, rows: Iterable[InductorKernel]) -> Generated:
    """The kernels of a trace with their calls, laid once."""
    if "generated" not in profile.memo:
        profile.memo["generated"] = Generated(profile, rows)
    made: Generated = profile.memo["generated"]
    return made


class Share(Struct, frozen=True):
    """A line, nanoseconds of the kernels that compute nothing else, and its part of those fused with others."""

    frame: Frame
    alone: float
    fused: float

    @property
    def ns(self) -> float:
        """Both."""
        return self.alone + self.fused


class ByLine(Struct, frozen=True):
    """Judged kernels by line, the heaviest first; ns of those with lines, of torch.compile's, and of all."""

    shares: list[Share]
    known: float
    compiled: float
    total: float


def by_line(profile: Profile, rows: Iterable[InductorKernel]) -> ByLine:
    """The time of a profile's judged kernels by line of the program."""
    known, w = generated_of(profile, rows), opwork_of(profile)
    sums: dict[tuple[str, int | None], list[Any]] = {}
    told = compiled = 0.0
    for row, ns in zip(w.rows.tolist(), w.ns.tolist(), strict=True):
        lines, whole = known.lines(row)
        compiled += ns if row in known.calls else 0
        told += ns if lines else 0
        for key, (frame, part) in lines.items():
            mine = sums.setdefault(key, [frame, 0.0, 0.0])
            mine[1 if len(lines) == 1 and whole else 2] += part * ns
    shares = [Share(f, alone, fused) for f, alone, fused in sums.values()]
    return ByLine(sorted(shares, key=lambda s: -s.ns), told, compiled, float(w.ns.sum()))


def places_of(profile: Profile, table: InductorKernels | None, rows: Rows) -> list[Place]:
    """The lines of these kernels; none unless all are torch.compile's with generated code that tells."""
    if table is None:
        return []
    known, kernels = generated_of(profile, table), profile.rank.kernels
    return known.places(rows, (kernels["end"] - kernels["start"])[rows]) if known.knows(rows) else []
