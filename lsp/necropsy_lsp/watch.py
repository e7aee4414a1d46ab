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
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
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
Rest = tuple[str, ...]  # the parts of a pattern that are still to be matched
_FILE: Final[Rest] = ()
_FOLDER: Final[Rest] = ("",)


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

    def inputs(self, folder: Path) -> list[str]:
        """The patterns of inputs of a workspace folder that do not lead out of it."""
        return [pattern for pattern in self._server.session.settings_for(folder).inputs if inside(pattern)]

    def patterns(self) -> dict[Path, list[str]]:
        """What is watched, by workspace folder."""
        return {
            folder: [*ALWAYS, *(f"{p}**" if p.endswith("/") else p for p in self.inputs(folder))]
            for folder in self._server.folders()
        }

    def _tell(self, paths: set[Path]) -> None:
        if paths:
            self._server.each("files_changed", paths)

    async def _register(self) -> None:
        server, method = self._server, types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        old, self._registered = self._registered, f"necropsy-watch-{next(_numbers)}"
        options = types.DidChangeWatchedFilesRegistrationOptions(self._watchers())
        new = types.Registration(self._registered, method, options)
        try:
            if old:
                gone = types.UnregistrationParams([types.Unregistration(old, method)])
                await asyncio.shield(server.client_unregister_capability_async(gone))
            # Shielded: the answer to a request that was given up fails pygls 2.1, and its user sees that (Emacs).
            await asyncio.shield(server.client_register_capability_async(types.RegistrationParams([new])))
        except Exception as error:  # whatever the client refuses it with, there is the other way
            _log.info("the client does not watch files (%s): they are looked at instead", error)
            await self._poll()

    def _watchers(self) -> list[types.FileSystemWatcher]:
        relative = "workspace.did_change_watched_files.relative_pattern_support"
        if not get_capability(self._server.client_capabilities, relative, False):
            patterns = dict.fromkeys(p for wanted in self.patterns().values() for p in wanted)
            return [types.FileSystemWatcher(f"**/{pattern.removeprefix('**/')}") for pattern in patterns]
        bases = [(from_fs_path(str(folder)), wanted) for folder, wanted in self.patterns().items()]
        return [types.FileSystemWatcher(types.RelativePattern(b, p)) for b, wanted in bases if b for p in wanted]

    async def _poll(self) -> None:
        patterns = self.patterns()
        seen = await asyncio.to_thread(look, patterns)
        while True:
            await asyncio.sleep(POLL_S)
            now = await asyncio.to_thread(look, patterns)
            self._tell({path for path, _ in seen.items() ^ now.items()})
            seen = now


def inside(pattern: str) -> bool:
    """Whether a pattern stays in its workspace folder."""
    return bool(pattern) and ".." not in re.split(r"[/\\]", pattern) and not os.path.isabs(pattern)


def look(patterns: Mapping[Path, Sequence[str]]) -> Seen:
    """The files that match, with time and size."""
    found: Seen = {}
    for folder, wanted in patterns.items():
        for path in matching(folder, wanted):
            try:
                info = path.stat()
            except OSError:  # removed since it was listed
                continue
            found[path] = (info.st_mtime_ns, info.st_size)
    return found


def matching(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """Files below `folder` that match one of the patterns, in order of the walk; folders, for `logs/*/`.

    Hidden folders, caches and environments are entered only where a pattern names them.
    """
    budget = ENTRIES
    waiting: deque[tuple[Path, list[Rest]]] = deque([(folder, [_parts(p) for p in patterns if p.strip("/")])])
    while waiting and budget > 0:
        here, rests = waiting.popleft()
        try:
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda e: e.name)
        except OSError:
            continue
        budget -= len(listed)
        for entry in listed:
            below = [rest for pattern in rests for rest in _step(pattern, entry.name)]
            if (_FILE in below and entry.is_file()) or (_FOLDER in below and entry.is_dir()):
                yield Path(entry.path)
            further = [rest for rest in below if rest not in (_FILE, _FOLDER)]
            if further and entry.is_dir(follow_symlinks=False):
                waiting.append((Path(entry.path), further))


def input_of(path: Path, folder: Path, pattern: str) -> Path | None:
    """The input that a file below `folder` is, or belongs to, by a pattern."""
    if not path.is_relative_to(folder):
        return None
    wanted = _FOLDER if pattern.endswith("/") else _FILE
    rests, here = {_parts(pattern)}, folder
    for name in path.relative_to(folder).parts:
        here /= name
        rests = {rest for pattern_left in rests if pattern_left for rest in _step(pattern_left, name)}
        if wanted in rests and (here == path or wanted is _FOLDER):
            return here
    return None


def _parts(pattern: str) -> Rest:
    """A pattern by parts; one of folders ends with an empty part, which no entry matches."""
    parts = tuple(part for part in pattern.replace("\\", "/").split("/") if part not in ("", "."))
    return (*parts, "") if pattern.endswith("/") else parts


def _step(pattern: Rest, name: str) -> list[Rest]:
    """What is left of a pattern below an entry called `name`; `_FILE` or `_FOLDER` where it matches the entry."""
    if pattern[0] != "**":
        return [pattern[1:]] if _glob(pattern[0]).fullmatch(name) else []
    here: list[Rest] = _step(pattern[1:], name) if len(pattern) > 1 else [()]
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
