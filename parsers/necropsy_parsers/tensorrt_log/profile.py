"""trtexec's table of times by layer (`--dumpProfile`), as it stands in a log, to the record that its JSON gives.

    [I] === Profile (1155 iterations ) ===
    [I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer
    [I]       11.37       0.0098       0.0098       1.4   Reformatting CopyNode for Input Tensor 0 to Conv_0
    [I]      828.04       0.7169       0.7160     100.0   Total

Since TensorRT 8.5; before, the layer's name comes first, and up to 8.3 there is no median.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from necropsy_parsers.numbers import whole
from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt.measured import EngineProfile, LayerTime
from necropsy_parsers.tensorrt_log.heads import read_head
from necropsy_parsers.tensorrt_log.places import Places
from necropsy_parsers.tensorrt_log.search import PROFILE

MAX_LAYERS: Final = 100_000
_OPENING: Final = re.compile(r"=== Profile \((?P<runs>\d+) iterations? *\) ===")
_HEADER: Final = re.compile(r"\bLayer\b.*\bTime|\bTime.*\bLayer\b")
_NUMBER: Final = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"


class Profiles:
    """Reads tables of a log that comes in chunks of whole lines."""

    def __init__(self, name: str, first_seq: int, bare: Callable[[bytes], bytes] = bytes) -> None:
        self._name = name
        self._bare = bare  # a line without what a launcher put before it
        self._seq = first_seq
        self._found: list[EngineProfile] = []
        self._anchor: Anchor | None = None
        self._runs = 0
        self._row: re.Pattern[str] | None = None
        self._layers: list[LayerTime] = []

    @property
    def open(self) -> bool:
        """Whether a table goes on."""
        return self._anchor is not None

    def feed(self, chunk: bytes, places: Places) -> None:
        """Take a chunk."""
        at = 0 if self._anchor is not None else chunk.find(PROFILE)
        if at < 0:
            return
        at = chunk.rfind(b"\n", 0, at) + 1
        while at < len(chunk):
            if self._anchor is None:
                if (mark := chunk.find(PROFILE, at)) < 0:
                    return
                at = chunk.rfind(b"\n", 0, mark) + 1
            stop = chunk.find(b"\n", at)
            end = len(chunk) if stop < 0 else stop
            text = self._bare(chunk[at:end]).decode("utf-8", "replace").rstrip("\r")
            start = places.offset(at)
            self._line(text, Anchor(self._name, start, start + end - at, places.number(at), text.strip()[:400]))
            at = end + 1

    def _line(self, text: str, anchor: Anchor) -> None:
        if (m := _OPENING.search(text)) is not None:
            self._close()
            self._anchor, self._runs = anchor, whole(m["runs"]) or 0
            return
        if self._anchor is None:
            return
        body = read_head(text).text
        if self._row is None:
            if _HEADER.search(body):
                self._row = _pattern(body)
            elif body.strip():
                self._close()
            return
        m = self._row.fullmatch(body)
        if m is None or len(self._layers) >= MAX_LAYERS or m["name"] == "Total":
            self._close()
            return
        median = m.groupdict().get("median")
        self._layers.append(
            LayerTime(m["name"], float(m["average"]), float(median) if median else None, float(m["share"]) / 100)
        )

    def _close(self) -> None:
        if self._anchor is not None and self._layers:
            row = EngineProfile(self._anchor, self._runs, tuple(self._layers), seq=self._seq + self._anchor.start)
            self._found.append(row)
        self._anchor, self._row, self._layers = None, None, []

    def records(self) -> Iterator[EngineProfile]:
        """The tables, that at the end of a log that was cut off included."""
        self._close()
        yield from self._found


def _pattern(header: str) -> re.Pattern[str]:
    """What a row looks like under this header."""
    names = ["time", "average", *(["median"] if "Median" in header else []), "share"]
    numbers = r"\s+".join(rf"(?P<{n}>{_NUMBER})" for n in names)
    if header.rstrip().endswith("Layer"):
        return re.compile(rf"\s*{numbers}\s+(?P<name>\S.*?)\s*")
    return re.compile(rf"\s*(?P<name>\S.*?)\s+{numbers}\s*")
