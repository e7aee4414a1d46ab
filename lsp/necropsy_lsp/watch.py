"""Files on disk that matter: stored reports, `pyproject.toml`, inputs. Who changed them is told to the features.

The client watches where it can register that; otherwise the files are looked at every
two seconds, in a thread and within a bounded number of folder entries.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.uris import from_fs_path, to_fs_path

from necropsy.provenance.files import SKIP
from necropsy.store import FOLDER

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

ALWAYS: Final = (f"{FOLDER}/*.json", "pyproject.toml")
POLL_S: Final = 2.0
ENTRIES: Final = 20_000  # folder entries looked at for the patterns of one workspace folder
_numbers = itertools.count(1)
_log = logging.getLogger(__name__)

Seen = dict[Path, tuple[int, int]]


class Watch:
    """Watches for one server; `renew` after the patterns or folders changed."""

    def __init__(self, server: NecropsyServer) -> None:
        self._server = server
        self._task: asyncio.Task[None] | None = None
        self._registered = ""

    def start(self) -> None:
        """Begin, once the client is ready for requests."""
        self.stop()
        by_client = get_capability(
            self._server.client_capabilities, "workspace.did_change_watched_files.dynamic_registration", False
        )
        self._task = asyncio.ensure_future(self._register() if by_client else self._poll())

    renew = start

    def stop(self) -> None:
        """End the polling; the client forgets its watchers by itself."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def told(self, changes: Sequence[types.FileEvent]) -> None:
        """The client saw files change."""
        paths = {path for change in changes if (path := to_fs_path(change.uri)) is not None}
        self._tell({Path(path) for path in paths})

    def patterns(self) -> tuple[str, ...]:
        """What is watched in each workspace folder."""
        return (*ALWAYS, *(p for p in self._server.session.settings.inputs if inside(p)))

    def _tell(self, paths: set[Path]) -> None:
        if paths:
            for feature in self._server.features:
                feature.files_changed(paths)

    async def _register(self) -> None:
        server, method = self._server, types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        old, self._registered = self._registered, f"necropsy-watch-{next(_numbers)}"
        options = types.DidChangeWatchedFilesRegistrationOptions(self._watchers())
        new = types.Registration(self._registered, method, options)
        try:
            if old:
                gone = types.UnregistrationParams([types.Unregistration(old, method)])
                await server.client_unregister_capability_async(gone)
            await server.client_register_capability_async(types.RegistrationParams([new]))
        except Exception as error:  # whatever the client refuses it with, there is the other way
            _log.info("the client does not watch files (%s): they are looked at instead", error)
            await self._poll()

    def _watchers(self) -> list[types.FileSystemWatcher]:
        patterns = self.patterns()
        relative = "workspace.did_change_watched_files.relative_pattern_support"
        if not get_capability(self._server.client_capabilities, relative, False):
            return [types.FileSystemWatcher(f"**/{pattern}") for pattern in patterns]
        bases = [from_fs_path(str(folder)) for folder in self._server.folders()]
        return [
            types.FileSystemWatcher(types.RelativePattern(base, pattern))
            for base in bases
            if base
            for pattern in patterns
        ]

    async def _poll(self) -> None:
        folders, patterns = self._server.folders(), self.patterns()
        seen = await asyncio.to_thread(look, folders, patterns)
        while True:
            await asyncio.sleep(POLL_S)
            now = await asyncio.to_thread(look, folders, patterns)
            self._tell({path for path, _ in seen.items() ^ now.items()})
            seen = now


def inside(pattern: str) -> bool:
    """Whether a pattern stays in its workspace folder."""
    return bool(pattern) and ".." not in re.split(r"[/\\]", pattern) and not os.path.isabs(pattern)


def look(folders: Sequence[Path], patterns: Sequence[str]) -> Seen:
    """The files that match, with time and size."""
    found: Seen = {}
    for folder in folders:
        for path in matching(folder, patterns):
            try:
                info = path.stat()
            except OSError:  # removed since it was listed
                continue
            found[path] = (info.st_mtime_ns, info.st_size)
    return found


def matching(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """Files below `folder` that match one of the patterns, in order of the walk.

    Hidden folders, caches and environments are entered only where a pattern names them.
    """
    budget = ENTRIES
    splits = [
        tuple(part for part in pattern.replace("\\", "/").split("/") if part not in ("", ".")) for pattern in patterns
    ]
    waiting: list[tuple[Path, list[tuple[str, ...]]]] = [(folder, [s for s in splits if s])]
    while waiting and budget > 0:
        here, rests = waiting.pop(0)
        try:
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda e: e.name)
        except OSError:
            continue
        budget -= len(listed)
        for entry in listed:
            below = [rest for pattern in rests for rest in _step(pattern, entry.name)]
            if any(rest == () for rest in below) and entry.is_file():
                yield Path(entry.path)
            further = [rest for rest in below if rest]
            if further and entry.is_dir(follow_symlinks=False):
                waiting.append((Path(entry.path), further))


def matches(path: Path, folder: Path, pattern: str) -> bool:
    """Whether a file of `folder` is meant by a pattern."""
    try:
        parts = path.relative_to(folder).parts
    except ValueError:
        return False
    rests = {tuple(part for part in pattern.replace("\\", "/").split("/") if part not in ("", "."))}
    for name in parts:
        rests = {rest for pattern_left in rests if pattern_left for rest in _step(pattern_left, name)}
    return () in rests


def _step(pattern: tuple[str, ...], name: str) -> list[tuple[str, ...]]:
    """What is left of a pattern below an entry called `name`; `()` where it is matched by the entry itself."""
    if pattern[0] != "**":
        return [pattern[1:]] if _glob(pattern[0]).fullmatch(name) else []
    here: list[tuple[str, ...]] = _step(pattern[1:], name) if len(pattern) > 1 else [()]
    if name.startswith(".") or name in SKIP:
        return here if len(pattern) > 1 else []
    return [pattern, *here]


@cache
def _glob(text: str) -> re.Pattern[str]:
    """One part of a path as in `*.log` or `rank?.{out,err}`; a star does not match a leading dot."""
    out = "" if text.startswith(".") else r"(?!\.)"
    depth = 0
    for char in text:
        if char == "{":
            depth, char = depth + 1, "(?:"
        elif char == "}" and depth:
            depth, char = depth - 1, ")"
        elif char == "," and depth:
            char = "|"
        else:
            char = {"*": ".*", "?": "."}.get(char, re.escape(char))
        out += char
    return re.compile(out + ")" * depth)
