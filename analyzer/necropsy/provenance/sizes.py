"""Where a changing size entered a compiled function, and which line allows it one value only.

The reason of a recompilation for a tensor's size names the function and no line (torch/csrc/dynamo/guards.cpp, 2.1 to
2.13). The line is told elsewhere, if at all: where the size became a symbol (`create_symbol`, TORCH_LOGS=dynamic), or
in the list of guards (TORCH_LOGS=guards). Both are joined by process, function and source of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from msgspec import Struct

from necropsy_parsers.grammars.guard import Guard, shown
from necropsy_parsers.grammars.symbolic import asked
from necropsy_parsers.messages.recompile_limit import RecompileLimit
from necropsy_parsers.messages.symbolic_shape import SymbolicShape
from necropsy_parsers.numbers import natural
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame
from necropsy_parsers.tallies.input_guards import InputGuard
from necropsy_parsers.text.guard_failure import GuardFailure

from necropsy.evidence._twice import STREAM
from necropsy.evidence.input_guards import InputGuards
from necropsy.evidence.recompiles import RecompileRow
from necropsy.evidence.shape_guards import ShapeGuards
from necropsy.finding import Place
from necropsy.provenance.guards import guard_place

Row = RecompileRow | RecompileLimit
Key = tuple[object, ...]
STRUCTURED: Final = "symbolic size in a structured log"
_SIZE: Final = lazily(r"^(?P<source>.+)\.size\(\)\[(?P<dim>\d+)\]$")
_ATTEMPT: Final = re.compile(r"_\d+$")  # `0/1_2`: the second restart of a compilation


class SizeLines(Struct, dict=True):
    """Lines at which sizes entered compiled functions, from the log of symbolic shapes and from lists of guards."""

    shapes: ShapeGuards
    inputs: InputGuards

    def entered(self, row: Row, source: str, dim: int | None, known: Iterable[str]) -> Place | None:
        """The line that used a size first in the function that was compiled, or None where nothing tells."""
        symbols = self._symbols.get((*_frame_of(row), source, dim), ())
        for found in sorted(symbols, key=lambda s: _compilation(s) != _compilation(row)):
            how = STRUCTURED if found.origin.stream == STREAM else "symbolic size"
            if (place := _placed(found.frame, how, known)) is not None:
                return place
        for guard in self._inputs.get((*_frame_of(row), source), ()):
            if (place := _placed(guard.frame, "guards", known)) is not None:
                return place
        return None

    def now(self, row: Row, source: str, dim: int | None) -> str:
        """What the size was when it became a symbol in that very compilation, "" where nothing tells."""
        told = [
            s for s in self._symbols.get((*_frame_of(row), source, dim), ()) if _compilation(s) == _compilation(row)
        ]
        return told[0].value if told else ""

    def fixed(self, row: Row, source: str, dim: int | None, known: Iterable[str]) -> Place | None:
        """The line that allows the size one value only, in that very compilation."""
        for symbol in self._symbols.get((*_frame_of(row), source, dim), ()):
            if _compilation(symbol) != _compilation(row):
                continue
            for guard in self._equalities.get((*_frame_of(row), _compilation(row), symbol.symbol), ()):
                if (place := _placed(guard.frame, "guard on a symbolic size", known)) is not None:
                    return place
        return None

    @cached_property
    def _symbols(self) -> dict[Key, list[SymbolicShape]]:
        found: dict[Key, list[SymbolicShape]] = {}
        for row in self.shapes:
            if row.kind == "symbol" and row.origin.compile_id:
                m = _SIZE.match(row.source)
                named = (shown(m["source"]), natural(m["dim"])) if m else (shown(row.source), None)
                found.setdefault((*_frame_of(row), *named), []).append(row)
        return found

    @cached_property
    def _equalities(self) -> dict[Key, list[SymbolicShape]]:
        found: dict[Key, list[SymbolicShape]] = {}
        for row in self.shapes:
            told = asked(row.expression) if row.kind == "guard" and row.origin.compile_id else None
            if told is not None and told.only is not None:
                found.setdefault((*_frame_of(row), _compilation(row), told.subject), []).append(row)
        return found

    @cached_property
    def _inputs(self) -> dict[Key, list[InputGuard]]:
        found: dict[Key, list[InputGuard]] = {}
        for row in self.inputs:
            if row.origin.compile_id:
                found.setdefault((*_frame_of(row), shown(row.source)), []).append(row)
        return found


def _id(row: Row | SymbolicShape | InputGuard) -> str:
    return row.origin.compile_id or getattr(row, "compile_id", "")


def _compilation(row: Row | SymbolicShape | InputGuard) -> str:
    return _ATTEMPT.sub("", _id(row))


def _frame_of(row: Row | SymbolicShape | InputGuard) -> Iterator[object]:
    """Whose function it is: input, attempt, process, number of the function. Without a number it is one by itself."""
    o = row.origin
    number = _id(row).rpartition("/")[0]
    yield from (row.anchor.input, row.attempt, o.rank, o.pid, o.host, o.local_rank, number or object())


def _placed(frame: Frame | None, how: str, known: Iterable[str]) -> Place | None:
    if frame is None:
        return None
    place = guard_place(GuardFailure("", comment=frame), known)
    return None if place is None else Place(
        place.file, place.line, None, place.function, place.text, "line", how
    )  # fmt: skip


def asked_in_words(guard: Guard) -> str:
    """What a guard asks of a size that has become dynamic: "multiples of 8"; "" where it is not understood."""
    if guard.kind != "size" or guard.raw.startswith("tensor '"):
        return ""
    told = asked(guard.raw)
    if told is None or told.only is not None:
        return ""
    other = re.fullmatch(r"(?P<words>.*?)(?P<size>\S+)\.size\(\)\[(?P<dim>\d+)\]", told.words)
    return f"{other['words']}dimension {other['dim']} of {shown(other['size'])}" if other else told.words
