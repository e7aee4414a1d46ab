"""Configured inputs (`necropsy.inputs`) to findings: analyzed at the start and whenever a file changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lsprotocol import types

from necropsy_lsp.analysis import AnalysisFailed
from necropsy_lsp.feature import Feature
from necropsy_lsp.targets import Target, grounds, path_target
from necropsy_lsp.watch import input_of, matching

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

QUIET_S: Final = 0.5  # a file that was written last this long ago is taken for complete
LONGEST_S: Final = 3.0  # but a log that never rests is read at least this often
GIVE_WAY: Final = 3  # analyses in a row that a newer change may end; then one is let through
MOST: Final = 200  # inputs; of more, the newest are taken


class Inputs(Feature):
    """Keeps one source a matching file (or folder, for a pattern that ends in `/`)."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)
        self._shown: set[Path] = set()
        self._first_change: dict[Path, float] = {}
        self._gave_way: dict[Path, int] = {}
        self._again: set[Path] = set()
        self._grounds: object = None
        self._scan: asyncio.Task[None] | None = None

    def started(self) -> None:
        """Look for inputs."""
        self.configured()

    def configured(self) -> None:
        """Look again, if patterns, folders or the selection of rules are others."""
        grounds_now = grounds(self.server)
        if grounds_now == self._grounds:
            return
        self._grounds = grounds_now
        if self._scan is not None:
            self._scan.cancel()
        self._scan = asyncio.ensure_future(self._look())

    def stopping(self) -> None:
        """End the search; the analyses are ended by the server."""
        if self._scan is not None:
            self._scan.cancel()

    def files_changed(self, paths: Collection[Path]) -> None:
        """Analyze the inputs among these files."""
        for path in sorted({found for path in paths if (found := self._input(path)) is not None}):
            if path.exists():
                self._change(path)
            else:
                self._forget(path)

    def _input(self, path: Path) -> Path | None:
        for folder in self.server.folders():
            for pattern in self.server.watch.inputs(folder):
                if (found := input_of(path, folder, pattern)) is not None:
                    return found
        return None

    async def _look(self) -> None:
        patterns = {folder: self.server.watch.inputs(folder) for folder in self.server.folders()}
        found = await asyncio.to_thread(_newest, patterns)
        if len(found) > MOST:
            message = f"{len(found):,} files match necropsy.inputs: only the {MOST} newest are analyzed. Name fewer."
            self.server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, message))
        wanted = found[:MOST]
        for path in self._shown - set(wanted):
            self._forget(path)
        for path in wanted:
            self._start(path, 0)

    def _change(self, path: Path) -> None:
        source = self._target(path).source
        now = time.monotonic()
        first = self._first_change.setdefault(path, now)
        if path not in self._shown and len(self._shown) >= MOST:
            return
        if self.server.jobs.running(source) is not None and self._gave_way.get(path, 0) >= GIVE_WAY:
            self._again.add(path)
            return
        self._start(path, max(0.0, min(QUIET_S, first + LONGEST_S - now)))

    def _start(self, path: Path, delay: float) -> None:
        target = self._target(path)
        self._shown.add(path)

        async def work() -> None:
            self._first_change.pop(path, None)
            self._gave_way[path] = self._gave_way.get(path, 0) + 1
            try:
                await self.server.jobs.show(target.source, target.request, target.called, background=True)
            except AnalysisFailed as error:
                self.server.jobs.failed(target.source, target.called, error)
            self._gave_way.pop(path, None)
            if path in self._again:
                self._again.discard(path)
                asyncio.get_running_loop().call_soon(self._change, path)

        self.server.jobs.start(target.source, work, delay)

    def _forget(self, path: Path) -> None:
        self.server.jobs.withdraw(self._target(path).source)
        self._shown.discard(path)
        for known in (self._first_change, self._gave_way):
            known.pop(path, None)
        self._again.discard(path)

    def _target(self, path: Path) -> Target:
        return path_target(path, self.server)


def _newest(patterns: Mapping[Path, Sequence[str]]) -> list[Path]:
    found: dict[Path, float] = {}
    for folder, wanted in patterns.items():
        for path in matching(folder, wanted):
            try:
                found[path] = path.stat().st_mtime
            except OSError:  # removed since it was listed
                continue
    return sorted(found, key=lambda path: -found[path])
