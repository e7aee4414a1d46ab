"""State of one server: workspace folders, settings, sources of findings, and what they say of a document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pygls.workspace import TextDocument

from necropsy_lsp.placed import Shown
from necropsy_lsp.settings import Settings
from necropsy_lsp.stored import StoredFinding


class Session:
    """What the features of one server share.

    A *source* is a key such as `stored:.necropsy/run.log-3f2a.json`, `input:logs/run.log` or
    `open:file:///...`. Each of `changed` is called when what is shown may have changed.
    """

    def __init__(self) -> None:
        self.folders: list[Path] = []
        self.settings = Settings()
        self.changed: list[Callable[[], None]] = []
        self._published: dict[str, tuple[Path, tuple[StoredFinding, ...]]] = {}

    def publish(self, source: str, project: Path, findings: Sequence[StoredFinding]) -> None:
        """Replace what a source says; its inputs are named relative to `project`."""
        self._published[source] = (project, tuple(findings))
        self._tell()

    def withdraw(self, source: str) -> None:
        """Forget a source."""
        if self._published.pop(source, None) is not None:
            self._tell()

    def findings(self, document: TextDocument) -> list[Shown]:
        """The findings that stand in a document now, by line and then worst first; one of several sources once."""
        return []

    def _tell(self) -> None:
        for callback in self.changed:
            callback()
