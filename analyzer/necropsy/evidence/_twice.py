"""What the text log and the structured log of one process both tell is counted once.

With TORCH_LOGS and TORCH_TRACE together each graph break, recompilation and symbolic size stands in two inputs. They
are the same where process, compilation and subject are; told three times here and twice there, it happened three times.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, cast

from necropsy_parsers.messages.cache_bypass import CacheBypass
from necropsy_parsers.messages.compile_step import CompileStep
from necropsy_parsers.messages.cudagraph import CudagraphSkip
from necropsy_parsers.messages.frame_skipped import FrameSkip
from necropsy_parsers.messages.graph_break import GraphBreak
from necropsy_parsers.messages.recompile import Recompile
from necropsy_parsers.messages.recompile_limit import RecompileLimit
from necropsy_parsers.messages.symbolic_shape import SymbolicShape
from necropsy_parsers.records import Record

STREAM: Final = "TORCH_TRACE"  # `Origin.stream` of structured logs; their reader is not loaded for it


def _break(r: GraphBreak) -> tuple[Hashable, ...] | None:
    return (r.file, r.line) if r.form in ("break", "copy") else None


def _recompile(r: Recompile) -> tuple[Hashable, ...] | None:
    return None if r.refused else ("",)


def _shape(r: SymbolicShape) -> tuple[Hashable, ...]:
    return r.kind, r.symbol, r.value if r.kind == "constant" else r.source, "" if r.kind == "constant" else r.expression


def _step(r: CompileStep) -> tuple[Hashable, ...] | None:
    return (r.step,) if r.step == "trace" else None


def _bypass(r: CacheBypass) -> tuple[Hashable, ...]:
    return (r.cache,)


def _skip(r: FrameSkip) -> tuple[Hashable, ...]:
    return r.function, r.file, r.line


def _limit(r: RecompileLimit) -> tuple[Hashable, ...] | None:
    return (r.function, r.file, r.line) if r.form == "warning" else None


def _cudagraph(r: CudagraphSkip) -> tuple[Hashable, ...]:
    return r.kind, r.reason[:80]


_SUBJECTS: Final = cast(
    "dict[type[Record], Callable[[Record], tuple[Hashable, ...] | None]]",
    {
        GraphBreak: _break,
        Recompile: _recompile,
        SymbolicShape: _shape,
        CompileStep: _step,
        CacheBypass: _bypass,
        FrameSkip: _skip,
        RecompileLimit: _limit,
        CudagraphSkip: _cudagraph,
    },
)


class Twice:
    """How often each thing was told by text logs, and how often by structured ones."""

    def __init__(self) -> None:
        self._told: dict[Hashable, list[int]] = {}

    def again(self, record: Record) -> bool:
        """Whether the other kind of log of that process has told it already."""
        subject = _SUBJECTS.get(type(record))
        origin = record.origin
        if subject is None or origin.pid is None or not origin.compile_id:
            return False
        what = subject(record)
        if what is None:
            return False
        told = self._told.setdefault((type(record), origin.pid, origin.compile_id, *what), [0, 0])
        own = origin.stream == STREAM
        told[own] += 1
        return told[own] <= told[not own]
