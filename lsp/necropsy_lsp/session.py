"""State of one server: workspace folders, settings, sources of findings, and what they say of a document."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from pygls.uris import to_fs_path, uri_scheme
from pygls.workspace import TextDocument

from necropsy.provenance.paths import candidates, the_one
from necropsy.store import project_folder
from necropsy_lsp.about import About, Around
from necropsy_lsp.mapping import bases_of
from necropsy_lsp.placed import Shown
from necropsy_lsp.settings import Given, Settings, of_project
from necropsy_lsp.sources import Source, Sources
from necropsy_lsp.stored import Place, StoredFinding
from necropsy_lsp.text import Document, LineEdit, split_lines

UNTITLED: Final = "untitled"
_log = logging.getLogger(__name__)
_KEPT: Final = 64  # documents that are not open and whose places are remembered


class Session:
    """What the features of one server share.

    A *source* is a key such as `stored:.necropsy/run.log-3f2a.json`, `input:logs/run.log` or
    `open:file:///...`. Each of `changed` is called when what is shown may have changed;
    `say(text, loud)` shows the user a sentence, in the log or, loudly, as a message.
    """

    def __init__(self) -> None:
        self.folders: list[Path] = []
        self.settings = Settings()
        self.changed: list[Callable[[], None]] = []
        self.say: Callable[[str, bool], None] = lambda text, loud: None
        self._client = Given()
        self._projects: dict[Path, Settings] = {}
        self._sources = Sources()
        self._open: dict[str, About] = {}
        self._closed: dict[str, About] = {}
        self._said: set[str] = set()

    # Sources

    def publish(self, source: str, project: Path, findings: Sequence[StoredFinding]) -> None:
        """Replace what a source says; its inputs are named relative to `project`."""
        self._sources.publish(source, project, findings)
        self._tell()

    def withdraw(self, source: str) -> None:
        """Forget a source."""
        if self._sources.withdraw(source):
            self._tell()

    def refresh(self) -> bool:
        """Look whether stored reports were written, changed or removed; whether they were."""
        changed = self._sources.read(self._report_folders())
        for path, error in self._sources.complaints():
            self.say(f"{path}: {error}. Its findings are not shown.", error.newer)
        if changed:
            self._tell()
        return changed

    def all_sources(self) -> list[Source]:
        """Every source of findings, the newest first."""
        return self._sources.all()

    def reported_sources(self) -> list[Path]:
        """The local files in which a finding may claim a line, as far as they are found without opening any."""
        named: dict[tuple[str, Path], None] = {}
        for source in self._sources.all():
            named |= {(finding.code[0].file, source.project): None for finding in source.findings if finding.code}
        return list(dict.fromkeys(path for file, project in named for path in self.find_sources(file, project)))

    # Settings

    def configure(self, folders: Iterable[Path], given: Given | None = None) -> None:
        """Take the workspace folders, and what the client set if that changed; projects are read anew."""
        self.folders = list(folders)
        self._client = given if given is not None else self._client
        self._projects.clear()
        self._closed.clear()
        for complaint in self._client.complaints:
            self._say_once(complaint)
        self.settings = self._client.over(Settings())
        if self.folders:
            self.settings = self.settings_for(self.folders[0])
        for about in self._open.values():
            about.move(self._around(about.path))
        self._tell()

    def settings_for(self, folder: Path) -> Settings:
        """The client's settings over those of the project that `folder` belongs to."""
        if (known := self._projects.get(folder)) is None:
            project = of_project(folder)
            for complaint in project.complaints:
                self._say_once(complaint)
            known = self._projects[folder] = self._client.over(project.over(Settings()))
        return known

    # Documents

    def opened(self, document: TextDocument) -> None:
        """The client opened a document."""
        self._closed.pop(document.uri, None)
        self._open[document.uri] = self._about(document)
        if isinstance(document, Document):
            document.take_edits()

    def edited(self, document: TextDocument, edits: Sequence[LineEdit]) -> None:
        """The client edited a document."""
        if (about := self._open.get(document.uri)) is not None:
            about.shown(self._sources)  # what was said of the text before is bound to that text
            about.edit(edits)
            if about.tracked.lines != _lines(document):  # the client's edits and the text disagree: believe the text
                self._open[document.uri] = self._about(document)

    def closed(self, document: TextDocument) -> None:
        """The client closed a document."""
        self._open.pop(document.uri, None)

    def findings(self, document: TextDocument) -> list[Shown]:
        """The findings that stand in a document now, by line and then worst first; one of several sources once.

        Further places of a finding are listed too, see `Shown.place_index`.
        """
        about = self._open.get(document.uri)
        if about is None:
            about = self._closed.get(document.uri)
            if about is None or about.text != document.source:
                about = self._about(document)
                self._closed[document.uri] = about
                while len(self._closed) > _KEPT:
                    del self._closed[next(iter(self._closed))]
        return about.shown(self._sources)

    def find_sources(self, reported: str, project: Path) -> list[Path]:
        """The local files that a path in a report may mean."""
        bases = dict.fromkeys([project, *self.folders])
        return candidates(reported, self.settings.path_mappings, bases, self.folders)

    def find_source(self, place: Place, project: Path) -> Path | None:
        """The local file that a place is in, for a link; None when there is none, or nobody can tell which."""
        return the_one(self.find_sources(place.file, project), place.line, place.text)

    # Helpers

    def _about(self, document: TextDocument) -> About:
        path = path_of(document.uri)
        untitled = uri_scheme(document.uri) == UNTITLED
        return About(document.source, list(_lines(document)), path, untitled, self._around(path))

    def _around(self, path: Path | None) -> Around:
        if path is None:
            return Around((), tuple(self.folders), self.settings)
        # A checkout may be opened below the folder that `analyze --save` took for the project.
        bases = dict.fromkeys([*bases_of(path, self.folders), project_folder(path.parent)])
        return Around(tuple(bases), tuple(self.folders), self.settings_for(path.parent))

    def _report_folders(self) -> list[Path]:
        found: dict[Path, None] = {}
        for folder in self.folders:
            found |= dict.fromkeys((folder, project_folder(folder)))
        for about in self._open.values():
            found |= dict.fromkeys(about.around.bases)
        return list(found)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(text, True)

    def _tell(self) -> None:
        for callback in self.changed:
            try:
                callback()
            except Exception as error:  # one that fails must not take what is known with it
                _log.exception("a listener failed")
                self.say(f"showing what changed failed ({type(error).__name__}: {error}). Please report this.", True)


def _lines(document: TextDocument) -> list[str]:
    return document.plain_lines if isinstance(document, Document) else split_lines(document.source)


def path_of(uri: str) -> Path | None:
    """The local file of a URI; None for other schemes, such as `untitled:` and `git:`."""
    path = to_fs_path(uri) if uri_scheme(uri) == "file" else None
    return Path(path) if path else None
