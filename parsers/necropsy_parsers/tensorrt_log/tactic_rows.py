"""What is kept of the runners that were timed, and the rows that are made of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.records import UNKNOWN, Anchor, Origin
from necropsy_parsers.tensorrt_log.records import TrtTactic

_RESULT: Final = re.compile(r"Fastest Tactic: (\S+) Time: (\S+)")
_SHORT: Final = re.compile(rb"(?:on requested size of|Scratch requested:) ?(\d{1,18})\b")
_GLUED_HEAD: Final = re.compile(r"\[\d\d/\d\d/\d{4}-|\[TRT\]|\[[VIWE]\] ")
_SENTINEL: Final = "0xd15ea5edd15ea5ed"  # "no tactic", since 8.5
_OPENING: Final = b"Timing Runner: "


class Block(Struct, gc=False):
    """What is kept of a runner: where it stands, and stretches of the text.

    Without the garbage collector: a hundred thousand of them, none of which can refer to itself.
    """

    at: int
    end: int  # both of the line that names it
    line: int
    build: int  # the number of its build among those of its reader
    formats: bytes
    first: bytes
    times: bytes
    result: bytes  # the line's end that tells the fastest, or, if nothing was timed, what was said instead
    name: bytes
    count: int
    chosen: bool = False


class Blocks:
    """The runners that were timed in one input, or by one of its ranks; rows are made on demand."""

    def __init__(self, name: str, first_seq: int) -> None:
        self.name, self.seq = name, first_seq
        self.kept: list[Block] = []
        self.builds: list[int] = []  # numbers of its builds in the input
        self.origin: Origin = UNKNOWN
        self._layers: dict[bytes, list[Block]] | None = None  # by name, made when the first is asked for

    def __len__(self) -> int:
        return len(self.kept)

    def __iter__(self) -> Iterator[TrtTactic]:
        return map(self._row, self.kept)

    def __repr__(self) -> str:
        """The rows: what two readings of one text must agree in."""
        return f"Blocks({list(self)!r})"

    def last(self) -> TrtTactic | None:
        """The row of the runner that was timed last."""
        return self._row(self.kept[-1]) if self.kept else None

    def of_layer(self, layer: str) -> list[TrtTactic]:
        """The rows of one layer."""
        return [self._row(b) for b in self._of(layer)]

    def with_fastest(self, layer: str, tactic: str) -> list[TrtTactic]:
        """Those of a layer whose fastest kernel has that number."""
        sought = tactic.encode()
        rows = [self._row(b) for b in self._of(layer) if sought in b.result]
        return [row for row in rows if row.fastest == tactic]

    def _of(self, layer: str) -> list[Block]:
        if self._layers is None:
            self._layers = {}
            for b in self.kept:
                self._layers.setdefault(b.first[: b.first.rfind(b" (")], []).append(b)
        return self._layers.get(layer.encode("utf-8", "replace"), [])

    def _row(self, b: Block) -> TrtTactic:
        layer, runner = layer_of(b.first)
        times = _times(b.times)
        fastest, fastest_ms, infinite = "", None, False
        if (m := _RESULT.match(_text(b.result))) is not None:
            fastest, fastest_ms = m[1], number(m[2])
            infinite = fastest_ms is None or fastest == _SENTINEL
        elif times:  # cut before the result, or 7.x without one
            fastest_ms = min(times)
        skipped, shortage = _skipped(b.result)
        source, _, target = b.formats.partition(b":")[2].strip(b" *\r").partition(b" -> ")
        anchor = Anchor(self.name, b.at, b.end, b.line, _text(_OPENING + b.first)[:400])
        build = self.builds[b.build] if b.build < len(self.builds) else b.build
        return TrtTactic(
            anchor, build, layer, runner, _text(source), _text(target), b.count, times, fastest, _text(b.name),
            None if infinite else fastest_ms, infinite, b.chosen, "" if times and skipped != "memory" else skipped,
            shortage, origin=self.origin, seq=self.seq + b.at,
        )  # fmt: skip


def layer_of(first: bytes) -> tuple[str, str]:
    """Layer and runner of a line `LAYER (RUNNER[0x80000009])`."""
    opened = first.rfind(b" (")
    layer = _text(first[:opened] if opened > 0 else first)
    if (glued := _GLUED_HEAD.search(layer)) is not None:
        layer = layer[: glued.start()]
    return layer, _text(first[opened + 2 :].split(b"[", 1)[0].rstrip(b")\r ")) if opened > 0 else ""


def number(text: bytes | str) -> float | None:
    """A time as printed, None for `inf` and what is no number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value < 1e12 else None


def _skipped(said: bytes) -> tuple[str, str]:
    """Why nothing was timed, or something was left out; and the largest request that was refused."""
    if short := [m[1] for m in _SHORT.finditer(said)]:
        return "memory", _text(max(short, key=int))
    if b"has no valid tactics" in said:
        return "no valid tactics", ""
    return ("error", "") if b"Skipping tactic" in said else ("", "")


def _times(found: bytes) -> tuple[float, ...]:
    return tuple(t for raw in found.split() if (t := number(raw)) is not None)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()
