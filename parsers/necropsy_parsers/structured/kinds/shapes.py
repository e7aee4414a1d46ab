"""Symbolic sizes: symbols with their source and line, guards on them, and sizes that turned out to be constant.

create_symbol, create_unbacked_symbol, guard_added_fast (2.6 and later), and
symbolic_shape_specialization (2.4 and later), torch/fx/experimental/symbolic_shapes.py. Unlike the text log these
entries do not tell guards that were suppressed (made for the compiler's own ends) from others: of equalities only the
constants that followed from them are taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.messages.symbolic_shape import SymbolicShape
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.structured.entry import Entry, RawFrame
from necropsy_parsers.structured.kinds import Plain, Reader

KINDS: Final = (
    "create_symbol",
    "create_unbacked_symbol",
    "guard_added_fast",
    "symbolic_shape_specialization",
)
_LIBRARY: Final = lazily(
    r"^<|[/\\](?:site|dist)-packages[/\\]|(?:^|[/\\])torch[/\\](?:_\w+|nn|fx|utils|functional\.py)"
)
_EQUAL: Final = re.compile(r"Eq\(")


class Shape(Struct, frozen=True):
    """The fields of all these kinds."""

    symbol: str = ""
    val: str = ""
    value: str = ""
    source: str | None = None
    sources: list[str] | None = None
    reason: str = ""
    expr: str = ""
    user_stack: list[RawFrame] | None = None


def make() -> Reader:
    """A reader of symbolic sizes."""
    return Plain(_read)


def _read(entry: Entry) -> Iterator[Record]:
    told = entry.value(Shape)
    if told is None:
        return
    frame = user_frame(entry.frames(told.user_stack))
    common = entry.message("", "dynamic").common
    if entry.kind == "create_symbol":
        yield SymbolicShape(entry.anchor, "symbol", told.symbol, told.val, told.source or "", "", frame, **common)
    elif entry.kind == "create_unbacked_symbol":
        yield SymbolicShape(entry.anchor, "unbacked", told.symbol, "", "", "", frame, **common)
    elif entry.kind == "symbolic_shape_specialization":
        for source in told.sources or [""]:
            yield SymbolicShape(entry.anchor, "constant", told.symbol, told.value, source, told.reason, frame, **common)
        if frame is not None:
            expression = f"Eq({told.symbol}, {told.value})"
            yield SymbolicShape(entry.anchor, "guard", "", "", "", expression, frame, **common)
    elif frame is not None and not _EQUAL.search(told.expr):
        yield SymbolicShape(entry.anchor, "guard", "", "", "", told.expr, frame, **common)


def user_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame that is no library's, as the text log's `# File` comments show; None if all are."""
    return next((f for f in reversed(frames) if not _LIBRARY.search(f.file)), None)
