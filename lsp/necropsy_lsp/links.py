"""Lines of a log to references such as `File "train.py", line 7` and `train.py:7`, and those to local files.

A log is untrusted: a link leads only to a file below a workspace folder, or where the
user's own `pathMappings` say; and time is linear in the log, whatever stands in it.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from necropsy_parsers.numbers import natural

from necropsy.provenance.files import SKIP
from necropsy.provenance.paths import candidates, the_one

LONGEST: Final = 4096  # characters of a line that are looked at
PATH: Final = 1024  # characters of a path
FOLDERS: Final = 400  # subfolders of a workspace folder in which a name is looked up
DEPTH: Final = 3

# The end of a path and what follows it. Searched first: a pattern that begins with the path is slow on long words.
_TAIL: Final = re.compile(
    r"(?P<extension>\.(?:pyx?|pyi|cuh?|cpp|cc|hp?p?))"
    r"(?:(?P<quote>[\"']), line (?P<quoted>\d{1,7})|:(?P<colon>\d{1,7})|\((?P<paren>\d{1,7})\))(?!\d)"
)
_PATH_CHARS: Final = frozenset("-+.@~/\\_$%")


class Reference(Struct, frozen=True):
    """A place that a line names: characters `start` to `end` of the line, `line` is 1-based."""

    start: int
    end: int
    file: str
    line: int


def references(line: str) -> Iterator[Reference]:
    """What a line refers to, from left to right."""
    line = line[:LONGEST]
    past = 0
    for tail in _TAIL.finditer(line):
        lowest = max(past, tail.start() - PATH)
        quote = tail["quote"]
        start = line.rfind(quote, lowest, tail.start()) + 1 if quote else _start(line, lowest, tail.start())
        if lowest <= start < tail.start() and not (quote and start == 0):
            file = line[start : tail.end("extension")]
            yield Reference(start, tail.end(), file, natural(tail["quoted"] or tail["colon"] or tail["paren"]))
        past = tail.end()


def _start(line: str, lowest: int, end: int) -> int:
    """Where a path without quotes begins, which ends at `end`; a drive letter belongs to it."""
    start = end
    while start > lowest and (line[start - 1].isalnum() or line[start - 1] in _PATH_CHARS):
        start -= 1
    drive = (
        start - 2 >= lowest
        and line[start - 1] == ":"
        and line[start - 2].isalpha()
        and line[start : start + 1] in "/\\"
    )
    alone = drive and (start - 2 == lowest or not line[start - 3].isalnum())
    return start - 2 if alone else start


class LocalFiles:
    """Finds files of this workspace by the names that another machine gave them."""

    def __init__(self, folders: Sequence[Path], mappings: Mapping[str, str]) -> None:
        self._folders = list(folders)
        self._mappings = mappings
        self._known: dict[str, list[Path]] = {}
        self._bases: list[Path] | None = None

    def fitting(self, reported: str) -> list[Path]:
        """The local files that may be meant: where the settings map it, else by the longest part that exists here."""
        if reported not in self._known:
            if self._bases is None:
                self._bases = [place for folder in self._folders for place in _subfolders(folder)]
            short = reported if len(reported) <= PATH else ""
            self._known[reported] = candidates(short, self._mappings, self._bases, self._folders)
        return self._known[reported]

    def find(self, reported: str, line: int | None = None, text: str = "") -> Path | None:
        """The local file that is meant: of several that fit, the one that holds what was quoted of a line, or none."""
        return the_one(self.fitting(reported), line, text)


def _subfolders(folder: Path) -> Iterable[Path]:
    """A workspace folder and the folders in it that may hold sources, the nearer first."""
    waiting, found = deque([(folder, 0)]), 0
    while waiting and found < FOLDERS:
        here, depth = waiting.popleft()
        found += 1
        yield here
        if depth == DEPTH:
            continue
        try:
            with os.scandir(here) as entries:
                names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except OSError:
            continue
        waiting.extend((here / name, depth + 1) for name in names if not name.startswith(".") and name not in SKIP)
