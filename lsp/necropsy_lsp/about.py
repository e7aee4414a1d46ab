"""One document and all that is known of it: its lines, the places in it, and what is shown there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from necropsy.provenance.paths import common_suffix, is_meant, mapped, path_parts
from necropsy_lsp.matching import quoted, stands
from necropsy_lsp.placed import Shown
from necropsy_lsp.settings import Settings
from necropsy_lsp.sources import Named, Sources
from necropsy_lsp.stored import Place
from necropsy_lsp.suppress import silenced
from necropsy_lsp.text import LineEdit
from necropsy_lsp.tracking import Tracked

_RANK: Final = {"fatal": 0, "error": 1, "warning": 2, "note": 3}
_COPY: Final = 2  # quoted lines that an untitled document must hold to be taken for a reported file


class Around(Struct, frozen=True):
    """Where a document is: folders to look for files and reports in, workspace folders, settings that hold there."""

    bases: tuple[Path, ...]
    folders: tuple[Path, ...]
    settings: Settings


class About:
    """What the sources say of one document, as of its last edit."""

    def __init__(self, text: str, lines: list[str], path: Path | None, untitled: bool, surroundings: Around) -> None:
        self.text = text
        self.path = path
        self.untitled = untitled
        self.around = surroundings
        self.tracked = Tracked(lines)
        self._named: list[Named] = []
        self._confirmed: set[str] = set()
        self._version = -1
        self._seen: set[tuple[str, int]] = set()
        self._shown: list[Shown] | None = None

    def move(self, around: Around) -> None:
        """Settings or folders are others: ask the sources again."""
        self.around = around
        self._version = -1
        if self.path is not None:  # a copy without a name was recognised by its text, perhaps before edits
            self._confirmed.clear()

    def edit(self, edits: Sequence[LineEdit]) -> None:
        """Follow the text."""
        self.tracked.edit(edits)
        self._shown = None

    def shown(self, sources: Sources) -> list[Shown]:
        """The findings that stand here now, by line and then worst first."""
        if self._version != sources.version:
            self._version = sources.version
            self._take(sources)
            self._shown = None
        if self._shown is None:
            self._shown = self._now()
        return self._shown

    def _take(self, sources: Sources) -> None:
        """Look for the places of every file that means this document."""
        files: dict[str, list[Named]] = {}
        for named in self._candidates(sources):
            files.setdefault(named.place.file, []).append(named)
        meant = [found for file, found in files.items() if self._means(file, found)]
        if self.path is None:
            del meant[1:]  # a document without a name is a copy of one file; copies of that are as good
        self._named = [named for found in meant for named in found if _claims(named.place)]
        # Only what a new run says is looked for anew: a line that was deleted is not its twin.
        new = {named.place for named in self._named if (named.source, named.stamp) not in self._seen}
        self._seen = {(named.source, named.stamp) for named in self._named}
        self.tracked.want((named.place for named in self._named), again=new)
        self._confirm(files)

    def _candidates(self, sources: Sources) -> Iterator[Named]:
        """The places in files whose name, or whose mapping by the settings, can mean this document."""
        if self.path is None:
            yield from _all(sources) if self.untitled else ()
            return
        names = {self.path.name: None}
        for start in self.around.settings.path_mappings:  # which may give a file another name
            if self.path in mapped(start, self.around.settings.path_mappings, self.around.folders):
                names[path_parts(start)[-1]] = None
        for name in names:
            yield from sources.about(name)

    def _means(self, file: str, found: Sequence[Named]) -> bool:
        if file in self._confirmed:
            return True
        if self.path is None:
            return self._is_copy({named.place for named in found})
        if by_settings := mapped(file, self.around.settings.path_mappings, self.around.folders):
            return self.path in by_settings
        return is_meant(file, self.path, self.around.bases)

    def _is_copy(self, places: Iterable[Place]) -> bool:
        """Whether all that was quoted of a file stands in this untitled document, line by line."""
        quotes = [place for place in places if quoted(place)]
        return len(quotes) >= _COPY and all(stands(p, self.tracked.lines, (p.line or 0) - 1) for p in quotes)

    def _confirm(self, files: Iterable[str]) -> None:
        """Believe that a reported path is this document once one of its quotes was seen here.

        Without that, only the path itself or a setting counts: a file of the same name is
        not this one, and all its findings would be stale.
        """
        for named in self._named:
            mark = self.tracked.marks[named.place]
            if mark.line is not None and not mark.stale:
                self._confirmed.add(named.place.file)
        for file in files:
            if self.path is None:
                continue
            whole = common_suffix(file, str(self.path)) == len(path_parts(file)) > 1
            if whole or self.path in mapped(file, self.around.settings.path_mappings, self.around.folders):
                self._confirmed.add(file)

    def _now(self) -> list[Shown]:
        lines, settings = self.tracked.lines, self.around.settings
        wanted = cache(settings.shows)
        found: dict[tuple[str, int, int], Shown] = {}
        for named in self._named:
            mark, place, finding = self.tracked.marks[named.place], named.place, named.finding
            if mark.line is None or place.file not in self._confirmed or (mark.stale and not settings.stale):
                continue
            end = _end(place, mark.line, len(lines), mark.stale)
            if not wanted(finding.rule) or silenced(lines, mark.line, end, finding.rule):
                continue
            key = (finding.fingerprint, named.place_index, mark.line)
            if key not in found or (found[key].stale and not mark.stale):
                found[key] = Shown(finding, named.project, named.source, mark.line, end, mark.stale, named.place_index)
        return sorted(found.values(), key=lambda s: (s.line, s.place_index > 0, _RANK[s.finding.severity]))


def _all(sources: Sources) -> Iterator[Named]:
    for source in sources.all():
        yield from source.every()


def _claims(place: Place) -> bool:
    """Whether a place names a line at all; a module as a whole does not."""
    return place.line is not None and place.line > 0


def _end(place: Place, line: int, count: int, stale: bool) -> int:
    """The last line of the place's statement, where the report's end can be believed."""
    extent = (place.end_line or 0) - (place.line or 0)
    return line + extent if not stale and extent > 0 and line + extent < count else line
