"""Marks of `necropsy capture`: ranges `necropsy:pkg/train.py:63` around each line of the user's own files.

They come as operators (`cpu_op`), or as `user_annotation` from builds of torch without the faster form, then with
shadows on the device. They are no operators or ranges of the program, so they become a kind of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from necropsy_parsers.trace.columns import Columns

PREFIX: Final = "necropsy:"
KIND: Final = "mark"
COLUMNS: Final = ("name", "start", "end", "process", "thread")
_NAME: Final = re.compile(r"necropsy:(?P<file>[^:][^\n]*):(?P<line>[1-9]\d{0,8})", re.ASCII)
_FROM: Final = ("op", "annotation", "gpu_annotation")


def place_of(name: str) -> tuple[str, int] | None:
    """(file, line) of a mark's name; None for other names."""
    found = _NAME.fullmatch(name) if name.startswith(PREFIX) else None
    return (found["file"], int(found["line"])) if found is not None else None


def apart(kinds: Mapping[str, Columns], names: Sequence[str]) -> dict[str, Columns]:
    """The kinds, with marks taken out of operators and ranges into a kind `mark`."""
    marked = [i for i, name in enumerate(names) if place_of(name) is not None]
    if not marked:
        return dict(kinds)
    table = np.zeros(len(names), np.bool_)
    table[marked] = True
    found, parts = dict(kinds), []
    for kind in _FROM:
        if kind not in kinds:
            continue
        rows = table[kinds[kind]["name"]]
        if rows.any():
            found[kind] = kinds[kind].take(~rows)
            parts += [kinds[kind].take(rows)] if kind != "gpu_annotation" else []
    if parts:
        arrays = {c: np.concatenate([p[c] for p in parts]) for c in COLUMNS}
        found[KIND] = Columns(arrays, len(arrays["start"]))
    return found
