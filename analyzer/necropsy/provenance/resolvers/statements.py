"""Functions that traces name become statements, where the source of the run is at hand and leaves no choice.

A finding of a trace rests on moments inside calls of a function. All events of such a call are
laid over the function's source; if each moment can be of one line only, that line is the
place. The file counts only if every function of it that the trace saw still begins where
the trace says, and the call only if its events fit the source to the end. Where the run was
captured with marks, these tell the lines, with or without a source.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from necropsy.evidence.sources import Sources
from necropsy.finding import MAX_PLACES, Confidence, Finding, Place, Rests
from necropsy.provenance.files import SourceTree

if TYPE_CHECKING:
    from necropsy.evidence import Evidence
    from necropsy.provenance.statements.functions import Module
    from necropsy.trace.profile import Moments, Profile

EXACT: Final = "source read against the trace"
CHOICE: Final = "source read against the trace: one of these"
MARKED: Final = "marked while it ran"
MOST_OF_IT: Final = 0.8  # part of a claim's weight on the lines told, from which they are the claim
CALLS: Final = 16  # calls of a function that are looked at for one finding, evenly spread
PLAIN: Final = Rests()


ORDER: Final = 20


def resolve(found: Iterable[Finding], evidence: Evidence) -> list[Finding]:
    """The findings; those of traces with lines where marks or the sources at hand tell them."""
    return with_statements(found, evidence.get(Sources).tree)


def with_statements(found: Iterable[Finding], tree: SourceTree) -> list[Finding]:
    """The findings; those of traces with lines where the sources tell them."""
    resolver: Resolver | None = None
    out = []
    for f in found:
        if any(p.exactness == "function" and type(p.rests) is not Rests for p in f.code):
            resolver = resolver or Resolver(tree)
            try:
                f = resolver.resolved(f)
            except Exception:  # the source may be anything; the function is known without it
                if os.environ.get("NECROPSY_STRICT"):
                    raise
        out.append(f)
    return out


class Resolver:
    """Reads each source once, and each trace's calls once."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._files: dict[tuple[int, str], Module | None] = {}

    def resolved(self, f: Finding) -> Finding:
        """A finding with the lines of its places; the first place decides how sure it is."""
        places: list[Place] = []
        for place in f.code:
            lines = self.lines(place)
            # Of further functions only what is one line is told; what else they do is not the claim.
            places += lines if place is f.code[0] or len(lines) == 1 else [replace(place, rests=PLAIN)]
        code = tuple(dict.fromkeys(places))[:MAX_PLACES]
        sure = f.confidence
        if code and code[0].how == EXACT and sure is Confidence.CERTAIN:
            sure = Confidence.LIKELY
        return replace(f, code=code, confidence=sure)

    def lines(self, place: Place) -> list[Place]:
        """The lines of a place, the heaviest first; itself where nothing tells them."""
        from necropsy.trace.profile import Moments

        rests = place.rests
        bare = replace(place, rests=PLAIN)
        if place.exactness != "function" or not isinstance(rests, Moments):
            return [bare]
        bare = self._started(bare, rests)
        if marked := self._marked(bare, rests):
            return marked
        told = self._told(place.file, rests)
        lines = Counter({choice[0]: n for choice, n in told.items() if len(choice) == 1})
        open_ = sorted({line for choice in told if len(choice) > 1 for line in choice})
        if not told or () in told or len({*lines, *open_}) >= MAX_PLACES:
            return [bare]
        if open_:
            return [bare, *(replace(bare, line=n, how=CHOICE) for n in sorted({*lines, *open_}))]
        found = [replace(bare, line=n, exactness="line", how=EXACT) for n, _ in lines.most_common()]
        return found if rests.culprit else [bare, *found]

    def _started(self, bare: Place, m: Moments) -> Place:
        """Of a call that was under way when recording began the number is where it stood: its function's first line."""
        from necropsy.trace.statements import call_of

        module = self._module(m.profile, bare.file) if len(m.frames) else None
        if module is None:
            return bare
        seen, _ = call_of(m.profile, int(m.frames[0]))
        start = None if seen.entered or seen.line != bare.line else module.start(seen)
        return bare if start is None else replace(bare, line=start)

    def _marked(self, bare: Place, m: Moments) -> list[Place]:
        """Places on the lines that were marked, the heaviest first; none where there are no marks."""
        from necropsy.trace.marks import marked_lines

        lines = marked_lines(m)[: MAX_PLACES - 1]
        found = [self._at(bare, file, line, m) for file, line, _ in lines]
        if m.culprit and sum(part for _, _, part in lines) >= MOST_OF_IT:
            return found
        return [bare, *found] if found else []

    def _at(self, bare: Place, file: str, line: int, m: Moments) -> Place:
        """A marked line; its text, if the source at hand is what ran."""
        if not _alike(bare.file, file):  # a function of a file that the trace does not tell from a library's
            return replace(bare, file=file, line=line, function="", exactness="line", how=MARKED)
        text = ""
        if self._module(m.profile, bare.file) is not None:
            shown = self._tree.lines(bare.file)
            text = shown[line - 1].strip() if line <= len(shown) else ""
        return replace(bare, line=line, text=text, exactness="line", how=MARKED)

    def _told(self, file: str, m: Moments) -> Counter[tuple[int, ...]]:
        """The lines that each moment can be of -> its weight; () where the source says nothing."""
        from necropsy.provenance.statements.sequence import Laid
        from necropsy.trace.statements import call_of, insides

        module = self._module(m.profile, file)
        told: Counter[tuple[int, ...]] = Counter()
        if module is None:
            return told
        inside = insides(m.profile)
        calls = sorted(set(m.frames.tolist()))
        for call in calls[:: -(-len(calls) // CALLS)]:
            seen, ended = call_of(m.profile, call)
            graph = module.graph(seen)
            events, starts, ends = inside.of(call)
            if graph is None or not events:
                return Counter()
            begin = None if seen.entered else seen.line
            nodes = Laid(graph, events).sites_of(events, begin, whole=ended and seen.entered)
            if not nodes:
                return Counter()
            mine = m.frames == call
            for time, ns in zip(m.times[mine].tolist(), m.ns[mine].tolist(), strict=True):
                at = int(starts.searchsorted(time, "right")) - 1
                hit = nodes[at] if at >= 0 and ends[at] >= time else []
                sites = [graph.sites[n] for n in hit]
                told[tuple(sorted({s.line for s in sites if s is not None}))] += int(ns) + 1
        return told

    def _module(self, p: Profile, file: str) -> Module | None:
        """The source of a file, if it is here, is the only one, and is what ran."""
        key = (id(p), file)
        if key not in self._files:
            self._files[key] = self._read(p, file)
        return self._files[key]

    def _read(self, p: Profile, file: str) -> Module | None:
        from necropsy.provenance.statements.functions import Module
        from necropsy.trace.statements import functions_of

        seen = functions_of(p).get(file, set())
        fitting: dict[str, tuple[Path, Module]] = {}
        for path in self._tree.candidates(file):
            text = self._tree.text(path)
            try:
                module = Module(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            if seen and module.explains(seen):
                fitting.setdefault(text, (path, module))
        if len(fitting) != 1:
            return None
        path, module = next(iter(fitting.values()))
        self._tree.stands_for(file, path)
        return module


def _alike(frame: str, mark: str) -> bool:
    """Whether a frame's file and a mark's can be one: either name may begin further up."""
    a, b = (name.replace("\\", "/").split("/")[::-1] for name in (frame, mark))
    return all(x == y for x, y in zip(a, b, strict=False))
