"""What TensorRT says in the chunks of a log, whatever else stands in it.

One search for all literals marks the lines that say something; tables of tactics go to `timing` whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.grammars import layer_name
from necropsy_parsers.issues import Issues
from necropsy_parsers.records import UNKNOWN, Anchor, Origin, Record
from necropsy_parsers.tensorrt.records import Engine, EngineLayer
from necropsy_parsers.tensorrt_log import builds, layers
from necropsy_parsers.tensorrt_log.folding import Messages, Whose
from necropsy_parsers.tensorrt_log.heads import may_be_glued, read_head, segments
from necropsy_parsers.tensorrt_log.places import Places, Stretch
from necropsy_parsers.tensorrt_log.profile import Profiles
from necropsy_parsers.tensorrt_log.records import TrtTimings
from necropsy_parsers.tensorrt_log.search import ANY, LIST, Marked, Marks, marked
from necropsy_parsers.tensorrt_log.timing import Timings

MAX_LAYERS: Final = 100_000
_OF_NODE: Final = re.compile(rb"parsing node: |\[QuantizeLinear\] (?:in|out)puts: ")


class Numbers(Struct):
    """Builds and lists of layers found in an input, by all who write into it."""

    builds: int = 0
    engines: int = 0


class TensorrtReader:
    """Reads one input, or what one of its ranks writes; `records` are given at its end."""

    def __init__(
        self,
        name: str,
        first_seq: int,
        whose: Whose,
        issues: Issues | None = None,
        numbers: Numbers | None = None,
        bare: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self._name, self._seq = name, first_seq
        self._numbers = numbers or Numbers()
        self._bare = bare  # a line without what a launcher put before it
        self.origin: Origin = UNKNOWN  # whose it is, where the input has several writers
        self._timings = Timings(name, first_seq, issues)
        self._profiles = Profiles(name, first_seq, bare)
        self._messages = Messages(name, first_seq, whose, self._failed, issues)
        self._builds: list[builds.Open] = []
        self._begun: list[int] = []  # byte offsets at which they begin
        self._ranges: dict[int, int] = {}  # placeholders of ranges, by the place in `_builds`
        self._others: list[Record] = []  # memory
        self._reformats: list[tuple[str, int, Anchor]] = []
        self._layers: list[EngineLayer] = []
        self._engines: list[Engine] = []
        self._listing = False
        self._short = False  # some request for memory was refused in the last chunk
        self._end = (0, 0)  # bytes and lines read

    # -- reading ---------------------------------------------------------------------------

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take a chunk at byte `start` behind `line` lines."""
        if start != self._end[0]:  # chunks that say nothing of TensorRT are left out
            self.interrupt()
        places = Stretch(chunk, start, line)
        self.take(chunk, places)
        self._end = start + len(chunk), self._end[1]

    def interrupt(self) -> None:
        """What follows in the input is not handed over: it says nothing of TensorRT."""
        self._timings.finish(self._begun)

    def take(self, chunk: bytes, places: Places) -> None:
        """Take lines that stand at `places`."""
        upto = self._continue(chunk, 0, places) if self._listing or self._messages.open else 0
        short, profiled = self._short, False
        self._short = False
        for line in marked(chunk):
            if line.begin < upto:
                continue
            if line.ranges:
                at = len(self._builds) - 1
                self._ranges[at] = self._ranges.get(at, 0) + line.ranges
            if line.marks is None:
                continue
            self._short, profiled = self._short or line.marks.short, profiled or line.marks.profile
            upto = line.end + 1
            if line.marks.quantizes and self._known(chunk[line.begin : line.end], line, places):
                continue
            self._line(chunk[line.begin : line.end], line, line.marks, places)
            if self._listing or self._messages.open:
                upto = self._continue(chunk, upto, places)
        self._timings.feed(chunk, places, self._begun, short=short or self._short)
        if profiled or self._profiles.open:
            self._profiles.feed(chunk, places)
        self._end = self._end[0], places.lines

    def _continue(self, chunk: bytes, at: int, places: Places) -> int:
        """Takes the lines from `at` on that go on with what is open; where they end."""
        while (self._listing or self._messages.open) and at < len(chunk):
            stop = chunk.find(b"\n", at)
            end = len(chunk) if stop < 0 else stop
            text = segments(self._bare(chunk[at:end]))[0]
            if self._listing:
                if not self._layer(text, at, end, places):
                    if self._messages.open:  # a list within a dump
                        continue
                    break
            elif self._messages.foreign(text):
                start = places.offset(at)
                with self._messages.aside():
                    self._segment(text, Anchor(self._name, start, start + end - at, places.number(at), text[:400]), ANY)
            elif not self._messages.feed(text, (start := places.offset(at)), start + end - at):
                break
            at = end + 1
        return at

    def _known(self, data: bytes, line: Marked, places: Places) -> bool:
        """Whether a line only names one more node that quantizes; there are four of each, and hundreds of nodes."""
        b = self._builds[-1] if self._builds else None
        if b is None or "quantized" not in b.told or b"\x1b" in data or may_be_glued(data):
            return False
        if b"Parsing node: " in data:
            b.last = max(b.last, places.number(line.begin))
            return True
        return _OF_NODE.search(data) is not None

    def _line(self, data: bytes, line: Marked, marks: Marks, places: Places) -> None:
        at, number = places.offset(line.begin), places.number(line.begin)
        if marks.plan:
            self._messages.plan(data, number)
        texts = segments(data)
        if len(texts) > 1 or b"\x1b" in data:
            marks = ANY
        for text in texts:
            self._segment(text, Anchor(self._name, at, at + len(data), number, text.strip()[:400]), marks)
            if self._messages.open:
                break

    def _segment(self, text: str, anchor: Anchor, marks: Marks) -> None:
        for fact in marks.facts:
            if fact.literal in text and (m := fact.pattern.search(text)) is not None:
                b = self._build(anchor, fact.starts)
                fact.take(b, m)
                if fact.fails:
                    self._messages.explained.append(anchor.start)
                if fact.measures and b.run_anchor is None:
                    b.run_anchor = anchor
                if fact.starts == "cache":
                    b.cached = True
                if fact.literal.startswith("[Quant") or fact.starts:
                    break
        if marks.memory and any(literal in text for literal in builds.MEMORY_LITERALS):
            self._others += builds.memory(text, self._build(anchor).number, anchor, self._seq + anchor.start)
        elif marks.reformat and builds.REFORMAT_LITERAL in text:
            self._reformats.append((text, self._build(anchor).number, anchor))
        elif marks.begins_list and any(literal in text for literal in LIST):
            self._listing = True
            self._engine(anchor)
        else:
            self._messages.begin(text, anchor, marks, lambda a: self._build(a).number)

    @property
    def explained(self) -> Iterable[int]:
        """Offsets of lines marked as errors that were read."""
        return self._messages.explained

    # -- builds and layers ---------------------------------------------------------------------

    def _failed(self) -> None:
        if self._builds:
            self._builds[-1].told["failed"] = True

    def _build(self, anchor: Anchor, starts: str = "") -> builds.Open:
        """The build at hand; a new one where `starts` says that one may begin."""
        b = self._builds[-1] if self._builds else None
        if b is None or builds.begins(b, starts):
            earlier = b
            b = builds.Open(self._numbers.builds, anchor, self._seq + anchor.start)
            self._numbers.builds += 1
            if earlier is not None and not earlier.told.get("tool"):  # one process has one TensorRT
                b.release = earlier.release
            self._builds.append(b)
            self._begun.append(anchor.start)
        b.last = max(b.last, anchor.line)
        return b

    def _engine(self, anchor: Anchor) -> None:
        b = self._build(anchor)
        self._numbers.engines += 1
        key = self._name if self._numbers.engines == 1 else f"{self._name}#{self._numbers.engines}"
        self._engines.append(Engine(anchor, key, 0, "", b.release, seq=self._seq + anchor.start))

    def _layer(self, line: str, at: int, end: int, places: Places) -> bool:
        """Whether a line goes on with the list of layers; 7.x puts a head before each."""
        text = line if layers.is_layer(line) else read_head(line).text
        if not text.strip():
            return True
        if not layers.is_layer(text) or len(self._layers) >= MAX_LAYERS:
            self._listing = False
            return False
        engine, start = self._engines[-1], places.offset(at)
        anchor = Anchor(self._name, start, start + end - at, places.number(at), text[:400])
        row = layers.layer(text, engine.engine, engine.layers, anchor, self._seq + start)
        if row is not None:
            self._layers.append(row)
            self._engines[-1] = replace(engine, layers=engine.layers + 1, detail=row.detail)
        return True

    # -- what was read ---------------------------------------------------------------------------

    def records(self) -> Iterator[Record]:
        """Everything, builds first."""
        self._messages.finish(0)
        timings = self._timings
        timings.finish(self._begun)
        if not self._builds and len(timings.blocks):  # a piece of a log, with tactics alone
            first = next(iter(timings.blocks))
            self._builds.append(builds.Open(self._numbers.builds, first.anchor, first.seq, last=self._end[1]))
            self._numbers.builds += 1
        timings.blocks.builds = [b.number for b in self._builds]
        timings.blocks.origin = self.origin
        for index, b in enumerate(self._builds):
            timed = timings.timed.get(index, [0, 0])
            last = b is self._builds[-1] and bool(timed[0]) and not b.over
            verbose = timed[0] > 0 or bool(b.told.get("optimised") and self._layers)
            told = self._ranges.get(index, 0)
            yield from builds.closed(b, timed, timing=last, ranges=told, verbose=verbose, origin=self.origin)
        yield from self._messages.records()
        if len(timings.blocks):
            first = next(iter(timings.blocks))
            yield TrtTimings(first.anchor, timings.blocks, origin=self.origin, seq=first.seq)
        yield from self._rest()

    def _rest(self) -> Iterator[Record]:
        told = [
            builds.reformat(text, number, anchor, self._seq + anchor.start, self._timings.reformat_ms)
            for text, number, anchor in self._reformats
        ]
        reformats = [row for row in told if row is not None]
        yield from reformats
        yield from self._others
        yield from (replace(e, origin=self.origin) for e in self._engines if e.layers)
        yield from self._profiles.records()
        known = {(r.layer, r.side, r.number): f"{r.source} -> {r.target}" for r in reformats}
        yield from (self._named(layer, known) for layer in self._layers)

    def _named(self, layer: EngineLayer, reformats: dict[tuple[str, str, int], str]) -> EngineLayer:
        """A layer of a list that tells only types and a tactic's number, with what other lines tell of it."""
        if layer.detail != "line" or not layer.tactic_value:
            return layer
        if layer.moves and (name := layer_name.parse(layer.name)).kind == "reformat":
            source, _, target = reformats.get((name.target, name.side, name.index), "").partition(" -> ")
            taken, given = layers.with_formats(layer.inputs, source), layers.with_formats(layer.outputs, target)
            return replace(layer, inputs=taken or layer.inputs, outputs=given or layer.outputs)
        rows = self._timings.blocks.with_fastest(layer.name, layer.tactic_value)
        inputs, outputs = layer.inputs, layer.outputs
        for row in sorted(rows, key=lambda r: not r.chosen):
            taken, given = layers.with_formats(inputs, row.inputs), layers.with_formats(outputs, row.outputs)
            if taken is not None and given is not None:
                return replace(layer, inputs=taken, outputs=given, tactic=row.fastest_name)
        return replace(layer, tactic=next((r.fastest_name for r in rows if r.fastest_name), ""))
