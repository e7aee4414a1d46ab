"""Frames in cells of notebooks to the cell: by the hash in the name of the frame's file, else by number and text.

    /tmp/ipykernel_4127/3947512006.py        ipykernel 6 and later: MurmurHash2 of the cell as it was typed
    <ipython-input-12-3c1f0a9b7d2e>          IPython before: number of the execution, SHA-1 of the cell
    <ipython-input-5>                        here for `Cell In[5]` of IPython's own tracebacks

A notebook beside the log, or in a folder that the user named, has the text of its cells, so that a hash proves which
cell it was, whatever its number is now.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha1
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from necropsy.finding import Place
from necropsy.provenance.files import SourceTree
from necropsy.provenance.paths import quotes

_KERNEL: Final = re.compile(r"[/\\]ipykernel_\d+[/\\](?P<hash>\d+)\.py$")
_INPUT: Final = re.compile(r"^<ipython-input-(?P<number>\d+)(?:-(?P<hash>[0-9a-f]+))?>$")
_SEED: Final = 0xC70F6907  # ipykernel/compiler.py
_TELLING: Final = 8  # characters of a line that tells a cell where no hash does
MAX_NOTEBOOK: Final = 32 << 20  # bytes; most of a large one are pictures
MAX_NOTEBOOKS: Final = 50


class _Written(Struct):
    cell_type: str = ""
    source: str | list[str] = ""
    execution_count: int | None = None


class _Notebook(Struct):
    cells: list[_Written] = field(default_factory=list)


class Cell(Struct, frozen=True):
    """A cell of code: `position` among all cells, from 1; `number` of its last run; `sure` if its name tells, too."""

    path: Path
    position: int
    number: int | None
    text: str
    sure: bool = False

    @property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.splitlines()


def of_notebook(file: str) -> bool:
    """Whether a frame's file is a cell."""
    return _INPUT.match(file) is not None or _KERNEL.search(file) is not None


def number_of(file: str) -> int | None:
    """The number under which the cell ran, where the name tells it."""
    m = _INPUT.match(file)
    return int(m["number"][:9]) if m is not None else None


def cell_of(tree: SourceTree, place: Place) -> Cell | None:
    """The cell of a place, if a notebook at hand holds it; None where several could be meant."""
    holding = [c for path in tree.notebooks(MAX_NOTEBOOKS) for c in _cells_of(path) if _holds(c, place)]
    proved = [c for c in holding if _proved(c, place.file)]
    if len(place.text.strip()) < _TELLING and not proved:
        return None
    number = number_of(place.file)
    alike = proved or [c for c in holding if c.number == number and number is not None]
    found = proved[:1] or alike or holding
    return replace(found[0], sure=bool(alike)) if len(found) == 1 else None


def _holds(cell: Cell, place: Place) -> bool:
    lines = cell.lines
    if place.line is None or place.line > len(lines):
        return False
    return not place.text.strip() or quotes(lines[place.line - 1], place.text)


def _proved(cell: Cell, file: str) -> bool:
    """Whether the hash in the name is the cell's; IPython hashes it with the end of the last line."""
    if (m := _KERNEL.search(file)) is not None:
        return int(m["hash"][:12]) == murmur2(cell.text.encode())
    m = _INPUT.match(file)
    if m is None or m["hash"] is None:
        return False
    return any(sha1(t.encode(), usedforsecurity=False).hexdigest().startswith(m["hash"]) for t in _typed(cell.text))


def _typed(text: str) -> tuple[str, ...]:
    return text, text.rstrip("\n") + "\n"


def _cells_of(path: Path) -> tuple[Cell, ...]:
    try:
        told = path.stat()
    except OSError:
        return ()
    return _read(path, told.st_mtime_ns) if told.st_size <= MAX_NOTEBOOK else ()


@lru_cache(maxsize=2 * MAX_NOTEBOOKS)
def _read(path: Path, _changed: int) -> tuple[Cell, ...]:
    try:
        written = msgspec.json.decode(path.read_bytes(), type=_Notebook).cells
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return ()
    return tuple(
        Cell(path, n, c.execution_count, c.source if isinstance(c.source, str) else "".join(c.source))
        for n, c in enumerate(written, 1)
        if c.cell_type == "code"
    )


def murmur2(data: bytes, seed: int = _SEED) -> int:
    """MurmurHash2 of 32 bits, as ipykernel names cells with."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h, whole = seed ^ len(data), len(data) & ~3
    for at in range(0, whole, 4):
        k = (int.from_bytes(data[at : at + 4], "little") * m) & mask
        k = ((k ^ (k >> 24)) * m) & mask
        h = ((h * m) & mask) ^ k
    if rest := data[whole:]:
        h = ((h ^ int.from_bytes(rest, "little")) * m) & mask
    h = ((h ^ (h >> 13)) * m) & mask
    return h ^ (h >> 15)
