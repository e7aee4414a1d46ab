"""Streams of the devices in a trace, and how long each was busy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from necropsy.evidence.traces import Traces

if TYPE_CHECKING:
    import pandas as pd


class StreamRow(Struct, frozen=True):
    """One stream."""

    rank: int
    input: str
    device: int
    stream: int
    kernels: int
    copies: int
    busy: int


class Streams(Traces):
    """One row a stream of a device; `busy` counts time in which anything of the stream ran once."""

    name = "streams"
    row = StreamRow  # type: ignore[assignment]
    columns: ClassVar[dict[str, str]] = {
        "rank": "rank of the process, -1 where neither trace nor name tells",
        "input": "the trace's file",
        "device": "number of the device",
        "stream": "number of the stream, as the trace tells it",
        "kernels": "kernels on it",
        "copies": "copies and memsets on it",
        "busy": "ns in which it ran anything",
    }

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[StreamRow]:  # type: ignore[override]
        for p in self.profiles if self.traces else ():
            rank = -1 if p.origin.rank is None else p.origin.rank
            for s in p.rank.streams:
                yield StreamRow(rank, p.input, *s)

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame with the documented columns."""
        import pandas as pd

        rows = [[getattr(r, c) for c in self.columns] for r in self]
        return pd.DataFrame(rows, columns=list(self.columns))
