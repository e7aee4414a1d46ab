"""What a user typed -> the files meant: folders walked in order, patterns matched, `-` for standard input."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from necropsy_parsers.issues import Issues
from necropsy_parsers.source.limits import Limits
from necropsy_parsers.source.notes import shown
from necropsy_parsers.source.stream import reason

_SKIPPED: Final = ("node_modules", "__pycache__")  # and hidden ones, `.git` and `.necropsy` among them
_VENV: Final = "pyvenv.cfg"
_PSEUDO: Final = ("/proc/", "/sys/", "/dev/")  # a link into these is no log: some files there have no end


class Input(Struct, frozen=True):
    """One input to open. `path` is None for standard input; `pipe`: a named one, or a terminal."""

    name: str
    path: Path | None
    size: int = 0
    pipe: bool = False


def find_inputs(paths: Sequence[str], issues: Issues, limits: Limits) -> Iterator[Input]:
    """Yield each regular file meant by `paths` once, in order. What cannot be had is an issue."""
    return _Finder(issues, limits).inputs(paths)


class _Finder:
    """Remembers what was seen: neither a file given twice nor a circle of links is read twice."""

    def __init__(self, issues: Issues, limits: Limits) -> None:
        self._issues = issues
        self._limits = limits
        self._files: dict[tuple[int, int], str] = {}
        self._stdin = False

    def inputs(self, paths: Sequence[str]) -> Iterator[Input]:
        for path in paths:
            if path == "-":
                if self._stdin:
                    self._skip("-", "standard input was named twice")
                else:
                    yield Input("-", None)
                self._stdin = True
            else:
                yield from self._typed(path)

    def _typed(self, path: str) -> Iterator[Input]:
        try:
            status = os.stat(path)
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) and any(c in path for c in "*?["):
                yield from self._matches(path)
            else:
                self._unreadable(path, reason(error))
            return
        yield from self._existing(path, status, typed=True)

    def _existing(self, path: str, status: os.stat_result, *, typed: bool) -> Iterator[Input]:
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            yield from self._folder(path)
        elif stat.S_ISREG(mode):
            yield from self._file(path, status, path)
        elif typed and path == "/dev/stdin":
            yield Input(path, None)
        elif typed and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
            yield Input(shown(path), Path(path), pipe=True)
        elif typed:
            self._unreadable(path, "neither a file nor a folder nor a pipe")

    def _matches(self, pattern: str) -> Iterator[Input]:
        import glob

        found = sorted(islice(glob.iglob(pattern, recursive=True), self._limits.files + 1))
        if not found:
            self._unreadable(pattern, "no such file, and nothing matches it as a pattern")
        if len(found) > self._limits.files:
            self._limit(pattern, "matches")
        for path in found[: self._limits.files]:
            try:
                status = os.stat(path)
            except OSError as error:
                self._unreadable(path, reason(error))
                continue
            yield from self._existing(path, status, typed=False)

    def _file(self, path: str, status: os.stat_result, group: str) -> Iterator[Input]:
        """The file, unless it was met before under another name; such names add up in `group`."""
        key = (status.st_dev, status.st_ino)
        first = self._files.get(key) if status.st_ino else None
        if first is not None:
            self._skip(group, f"{shown(path)} is the same file as {shown(first)}")
        else:
            self._files[key] = path
            yield Input(shown(path), Path(path), status.st_size)

    def _folder(self, root: str) -> Iterator[Input]:
        """Every regular file below `root`, each folder's own entries by name, links last."""
        count = 0
        seen: set[tuple[int, int]] = set()
        waiting = [root]
        while waiting:
            path = waiting.pop()
            try:
                status = os.stat(path)
                if not stat.S_ISDIR(status.st_mode):
                    if stat.S_ISREG(status.st_mode):
                        if count == self._limits.files:
                            self._limit(root, "files")
                            return
                        count += 1
                        yield from self._file(path, status, root)
                    continue
                if (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    waiting.extend(self._entries(path, root))
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ELOOP):
                    self._skip(root, f"{shown(path)} is a link to nothing, or just went away")
                else:
                    self._unreadable(path, reason(error))
        if not count:
            self._unreadable(root, "a folder without files")

    def _entries(self, folder: str, root: str) -> list[str]:
        """The paths in `folder` that are worth a look, last first. Raises `OSError`."""
        with os.scandir(folder) as entries:
            some = list(islice(entries, self._limits.files + 1))
        if len(some) > self._limits.files:
            self._limit(root, "entries in one folder")
            some.pop()
        if folder != root and any(entry.name == _VENV for entry in some):
            return []
        wanted = [e for e in some if not e.name.startswith(".") and e.name not in _SKIPPED]
        wanted.sort(key=lambda e: (e.is_symlink(), e.name), reverse=True)
        return [e.path for e in wanted if not (e.is_symlink() and self._leads_out(e.path, root))]

    def _leads_out(self, link: str, root: str) -> bool:
        """Does a link in a folder lead to a pseudo file system?"""
        leads = os.path.realpath(link).startswith(_PSEUDO)
        if leads:
            self._skip(root, f"{shown(link)} is a link into the system's pseudo files")
        return leads

    def _skip(self, group: str, detail: str) -> None:
        self._issues.add("source/skipped-member", shown(group), unit="files", detail=detail)

    def _unreadable(self, path: str, why: str) -> None:
        self._issues.add("source/unreadable", shown(path), detail=why)

    def _limit(self, name: str, what: str) -> None:
        detail = f"more than {self._limits.files:,} {what}: the rest was not read"
        self._issues.add("source/limit", shown(name), detail=detail)
