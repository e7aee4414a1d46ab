"""Finds the lines worth reading in a stream of text, at the speed of a byte search.

One pass a chunk for all literals at once (`search`; the alternation of `re` manages
173 MB/s, a `find` a literal 56) marks the lines that hold a trigger; only those, and
the lines after them for as long as somebody has a record open, become Python objects.
Everything between is counted as a run of plain text, so that every byte of an input is
accounted for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.issues import Issues
from necropsy_parsers.text.held import Held
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.text.marks import Marks

LINE_LIMIT: Final = 64 * 1024  # longer lines are read up to here: no message of interest is longer
TAIL: Final = 4096  # bytes kept of a gap's end: its clock, and what quiet ranks said last


class RawLine(Struct, frozen=True):
    """A line as it stands in the text: byte offsets, 1-based number, bytes without LF.

    `hit` tells whether it holds a trigger; `sampled` that it is one of many of its kind.
    """

    start: int
    end: int
    number: int
    data: bytes
    hit: bool
    sampled: bool = False


class Gap(Struct, frozen=True):
    """Lines that nobody needs to look at: offsets, first line, how many, and the text of the last ones."""

    start: int
    end: int
    number: int
    lines: int
    tail: bytes = b""


class Taken(Gap, frozen=True):
    """Lines that went on with what was open, and were taken at once."""


class Scanner:
    """Yields `RawLine` and `Gap`, in order, covering every byte of the text once.

    The end of a line longer than a chunk comes as a gap.

    `busy` is asked before a line without a trigger is passed over: while it says yes
    (a traceback is open), lines keep coming. `compilers` are the triggers that count in
    lines of torch's compiler (see `quoted`), `number` counts the inputs of the run before this one. `take` is offered
    the chunk, a line's position and the chunk's offset: how far it took lines that go on with what is open, unseen by
    anyone else, and how many. Of the literals `watched` only `held` tells.
    """

    def __init__(
        self,
        triggers: Iterable[bytes],
        name: str,
        issues: Issues,
        busy: Callable[[], bool],
        compilers: Container[bytes] = (),
        number: int = 0,
        take: Callable[[bytes, int, int], tuple[int, int]] | None = None,
        watched: tuple[bytes, ...] = (),
    ) -> None:
        self._marks = Marks(tuple(triggers), compilers, name, issues, number, watched)
        self._name = name
        self._issues = issues
        self._busy = busy
        self._take = take
        self.lines = 0
        self._before = 0  # of them, those before the chunk that is being read
        self.bytes = 0

    @property
    def held(self) -> Held:
        """Which of the `watched` literals the chunk read last holds, and where the words given to `place` stand."""
        return self._marks.held

    def place(self, words: frozenset[bytes]) -> None:
        """Words whose places `held` is to tell from the next chunk on."""
        self._marks.place(words)

    def scan(self, chunks: Iterable[bytes]) -> Iterator[RawLine | Gap]:
        """Scan chunks that end at line ends, as `decode.text_chunks` makes them."""
        open_line = False  # the previous chunk ended inside a (very long) line
        for chunk in chunks:
            base = self.bytes
            self._before = self.lines
            position = 0
            if open_line:
                position = self._rest_of_line(chunk)
                if position and chunk[position - 1 : position] == b"\n":
                    self.lines += 1
                    yield Gap(base, base + position, self.lines, 1)
                else:
                    yield Gap(base, base + position, self.lines + 1, 0)
            starts, sampled = self._marks.find(chunk)
            size = len(chunk)
            while position < size:
                if self._take is not None:
                    end, taken = self._take(chunk, position, base)
                    if taken:
                        yield Taken(base + position, base + end, self.lines + 1, taken)
                        self.lines += taken
                        position = end
                        continue
                index, other = bisect_left(starts, position), bisect_left(sampled, position)
                if not self._busy():
                    target = min(
                        starts[index] if index < len(starts) else size,
                        sampled[other] if other < len(sampled) else size,
                    )
                    begin = size if target == size else chunk.rfind(b"\n", position, target) + 1 or position
                    if begin > position:
                        yield self._gap(chunk, base, position, begin)
                        position = begin
                        continue
                stop = chunk.find(b"\n", position)
                after = size if stop < 0 else stop + 1
                end = size if stop < 0 else stop
                hit = index < len(starts) and starts[index] < after
                soft = not hit and other < len(sampled) and sampled[other] < after
                yield self._line(chunk, base, position, end, hit, soft)
                if stop >= 0:
                    self.lines += 1
                position = after
            open_line = size > 0 and not chunk.endswith(b"\n")
            self.bytes += size
        if open_line:
            self.lines += 1

    def _rest_of_line(self, chunk: bytes) -> int:
        self._issues.add("text/long-line", self._name)
        stop = chunk.find(b"\n")
        return len(chunk) if stop < 0 else stop + 1

    def _gap(self, chunk: bytes, base: int, begin: int, end: int) -> Gap:
        lines = lines_before(chunk, end) - (self.lines - self._before)
        whole = lines + (not chunk.endswith(b"\n", begin, end))
        gap = Gap(base + begin, base + end, self.lines + 1, whole, chunk[max(begin, end - TAIL) : end].rstrip(b"\n"))
        self.lines += lines
        return gap

    def _line(self, chunk: bytes, base: int, begin: int, end: int, hit: bool, soft: bool) -> RawLine:
        if end - begin > LINE_LIMIT:
            self._issues.add("text/long-line", self._name)
        data = chunk[begin : min(end, begin + LINE_LIMIT)]
        return RawLine(base + begin, base + end, self.lines + 1, data, hit or soft, soft)
