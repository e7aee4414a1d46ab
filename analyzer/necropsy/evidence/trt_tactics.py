"""Tactics that TensorRT's builder timed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from necropsy_parsers.tensorrt_log.records import TrtTactic, TrtTimings

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON

if TYPE_CHECKING:
    import pandas as pd


class TrtTactics(Table[TrtTactic]):
    """One row a runner that was timed for a layer in one combination of formats; made when they are asked for.

    A build of a large model times some ten thousand, of which rules look at few.
    """

    name = "trt_tactics"
    row = TrtTactic
    accepts = (TrtTimings,)
    formats = ("log",)
    supply = "a verbose log of a TensorRT build (trtexec --verbose)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "build": "number of the build in its input, from 0",
        "layer": "the layer's name",
        "runner": "CaskConvolution, Myelin, ...",
        "inputs": "types and strides of its inputs",
        "outputs": "types and strides of its outputs",
        "candidates": "kernels that were timed",
        "times": "what they took, in milliseconds",
        "fastest": "number of the fastest, as printed",
        "fastest_name": "its name, where the log tells it",
        "fastest_ms": "its time in milliseconds, None if none ran",
        "infinite": "the log says that the fastest takes `inf`: none can be used",
        "chosen": "the builder took this runner for these formats",
        "skipped": "why nothing was timed: no valid tactics, memory, error",
        "shortage": "largest request for memory that was refused, as printed",
    }

    def __init__(self) -> None:
        super().__init__()
        self._timings: list[TrtTimings] = []

    def add(self, record: Any) -> None:
        """Take the timings of an input."""
        self._timings.append(record)

    def __iter__(self) -> Iterator[TrtTactic]:
        return chain.from_iterable(t.blocks for t in self._timings)

    def __len__(self) -> int:
        return sum(len(t.blocks) for t in self._timings)

    def covered(self, formats: frozenset[str]) -> bool:
        """Only verbose logs tell."""
        return bool(self._timings)

    def of_layer(self, layer: str, input: str, build: int) -> list[TrtTactic]:
        """The rows of a layer in one build."""
        rows = chain.from_iterable(t.blocks.of_layer(layer) for t in self._timings if t.anchor.input == input)
        return [row for row in rows if row.build == build]

    def last(self, input: str, build: int) -> TrtTactic | None:
        """The row that the log of a build ends with."""
        rows = (t.blocks.last() for t in self._timings if t.anchor.input == input)
        return next((row for row in rows if row is not None and row.build == build), None)

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame."""
        self.rows = list(self)
        return super().frame()
