"""How a local source stands to what a log quoted: the same, changed since the run, one of several, a notebook's cell.

A place keeps the number that the log gave: it is what ran. Where the local file has moved the line, holds it no more,
or where two files could be meant, this says so in words.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from necropsy.finding import Place
from necropsy.provenance.files import SourceTree
from necropsy.provenance.notebooks import cell_of, number_of, of_notebook
from necropsy.provenance.paths import quotes

_TELLING: Final = 8  # characters of a line that is looked for elsewhere: `else:` stands everywhere
_LISTED: Final = 3


def standing(tree: SourceTree, place: Place) -> str:
    """A sentence about the local source of a place; "" where there is none, or nothing to say."""
    if of_notebook(place.file):
        return _cell(tree, place)
    if place.line is None or place.file.startswith("<"):
        return ""
    path = tree.path(place.file)
    if path is None:
        near = tree.nearest(place.file)
        return _changed(tree, near, place) if near is not None and place.text.strip() else ""
    if place.text.strip() and place.exactness != "function" and not _stands(tree, path, place):
        return _changed(tree, path, place)
    rivals = [p for p in tree.rivals(place.file) if tree.text(p) != tree.text(path)]
    if not rivals:
        return ""
    others = ", ".join(_named(p) for p in rivals[:_LISTED]) + (", ..." if len(rivals) > _LISTED else "")
    return f"{len(rivals) + 1} files fit: {_named(path)} is shown, {others} could be meant; --source DIR decides"


def _cell(tree: SourceTree, place: Place) -> str:
    """Which cell of a notebook it is."""
    cell, number = cell_of(tree, place), number_of(place.file)
    if cell is None:
        told = f"the cell that ran as In [{number}]" if number is not None else "a cell of a notebook"
        return f"{told}; with its .ipynb beside the log, or below --source DIR, it is told which one"
    now = f" (In [{cell.number}] there)" if cell.number is not None else ""
    if cell.sure:
        return f"cell {cell.position} of {_named(cell.path)}{now}"
    return f"perhaps cell {cell.position} of {_named(cell.path)}{now}: it holds this line"


def _stands(tree: SourceTree, path: Path, place: Place) -> bool:
    lines = tree.read(path)
    return place.line is not None and place.line <= len(lines) and quotes(lines[place.line - 1], place.text)


def _changed(tree: SourceTree, path: Path, place: Place) -> str:
    first = place.text.strip().splitlines()[0].strip()
    found = [n for n, line in enumerate(tree.read(path), 1) if line.strip() == first] if len(first) >= _TELLING else []
    if len(found) == 1:
        return f"{_named(path)} has changed since the run: this line is number {found[0]} there now"
    if found:
        numbers = ", ".join(map(str, found[:_LISTED]))
        return f"{_named(path)} has changed since the run: lines like this are number {numbers} there now"
    return f"{_named(path)} does not hold this line: it has changed since the run, or is another file of that name"


def _named(path: Path) -> str:
    """A path as the user would write it: relative where it lies below the working folder."""
    whole = os.path.abspath(path)
    return os.path.relpath(whole) if whole.startswith(os.getcwd() + os.sep) else whole
