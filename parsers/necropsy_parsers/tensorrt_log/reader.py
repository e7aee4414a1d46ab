"""TensorRT's messages in the chunks of a log, whatever else stands in it.

One search for all literals marks the lines that say something; tables of tactics go to `timing` whole. Alike messages
are folded: the first stands for all, with a count and the names in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from necropsy_parsers.grammars import layer_name
from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor, Origin, Record
from necropsy_parsers.tensorrt.records import Engine, EngineLayer
from necropsy_parsers.tensorrt_log import builds, layers
from necropsy_parsers.tensorrt_log.collect import (
    NODE_LITERALS,
    Collector,
    ErrorParts,
    NodeCollector,
    closed,
    collector_for,
    error_parts,
)
from necropsy_parsers.tensorrt_log.heads import read_head, segments
from necropsy_parsers.tensorrt_log.kinds import Kind
from necropsy_parsers.tensorrt_log.profile import Profiles
from necropsy_parsers.tensorrt_log.records import TrtMessage, TrtTimings
from necropsy_parsers.tensorrt_log.search import LIST, PLANS, RANGE, alike, hits, kind_of
from necropsy_parsers.tensorrt_log.timing import Timings

Whose = Callable[[bytes, int], tuple[str, Origin, int]]

MAX_SUBJECTS: Final = 200  # names kept of alike messages
MAX_SHAPES: Final = 5_000  # different messages kept of an input
MAX_LAYERS: Final = 100_000
NEAR: Final = 25  # lines between the name of an engine's file and an error about it
_PLAN: Final = re.compile(rb"(?:[A-Za-z]:\\|[\w./\\@+~-])[\w./\\:@+-]*(?<=[\w-])\.(?:engine|plan|trt)\b")
_ABOUT_PLANS: Final = ("plan-", "load-failed")


class _Held(Struct):
    """A message and those like it."""

    record: TrtMessage
    subjects: dict[str, None] = field(default_factory=dict)
    count: int = 1
    last: int = 0


class _Places:
    """Line numbers of positions in a chunk, asked for in rising order."""

    def __init__(self, chunk: bytes, line: int) -> None:
        self._chunk, self._at, self._line = chunk, 0, line

    def number(self, position: int) -> int:
        """The 1-based number of the line that begins at `position`."""
        if position >= self._at:
            self._line += self._chunk.count(b"\n", self._at, position)
            self._at = position
        return self._line + 1


class TensorrtReader:
    """Reads one input; `records` are given at its end."""

    def __init__(self, name: str, first_seq: int, whose: Whose, issues: Issues | None = None) -> None:
        self._name, self._seq, self._whose, self._issues = name, first_seq, whose, issues
        self._timings = Timings(name, first_seq, issues)
        self._profiles = Profiles(name, first_seq)
        self._builds: list[builds.Open] = []
        self._begun: list[int] = []  # byte offsets at which they begin
        self._held: dict[tuple[object, ...], _Held] = {}
        self._others: list[Record] = []  # memory
        self._reformats: list[tuple[str, int, Anchor]] = []
        self._layers: list[EngineLayer] = []
        self._engines: list[Engine] = []
        self._listing = False
        self._collector: Collector | None = None
        self._open: tuple[Kind | None, str, Anchor, int] | None = None  # of the message that is collected
        self._ranges: dict[int, int] = {}
        self._verbose: set[int] = set()
        self._end = (0, 0)  # bytes and lines read
        self._plan = ("", 0)  # the engine's file that was named last, and where
        self._weights: _Held | None = None  # what the next list of weights belongs to

    # -- reading ---------------------------------------------------------------------------

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take a chunk at byte `start` behind `line` lines."""
        if start != self._end[0]:  # chunks that say nothing of TensorRT are left out
            self._timings.finish(*self._end, self._begun)
        places = _Places(chunk, line)
        upto = self._continue(chunk, 0, start, places)
        for position in sorted(hits(chunk)):
            begin = chunk.rfind(b"\n", 0, position) + 1
            if begin < upto:
                continue
            if chunk.startswith(RANGE, position):
                self._ranges[len(self._builds) - 1] = self._ranges.get(len(self._builds) - 1, 0) + 1
                continue
            stop = chunk.find(b"\n", position)
            end = len(chunk) if stop < 0 else stop
            upto = end + 1
            self._line(chunk[begin:end], start + begin, places.number(begin))
            if self._collector is not None or self._listing:
                upto = self._continue(chunk, upto, start, places)
        self._timings.feed(chunk, start, line, self._begun)
        self._profiles.feed(chunk, start, line)
        self._end = start + len(chunk), line + chunk.count(b"\n")

    def _continue(self, chunk: bytes, at: int, start: int, places: _Places) -> int:
        """Takes the lines from `at` on that go on with what is open; where they end."""
        while (self._collector is not None or self._listing) and at < len(chunk):
            stop = chunk.find(b"\n", at)
            end = len(chunk) if stop < 0 else stop
            text = segments(chunk[at:end])[0]
            if self._listing:
                if not self._layer(text, start + at, start + end, places.number(at)):
                    break
            elif self._collector is not None:
                taken = self._collector.feed(text)
                if self._collector.done or not taken:
                    self._finish_message(start + end)
                if not taken:
                    break
            at = end + 1
        return at

    def _line(self, data: bytes, at: int, number: int) -> None:
        if any(suffix in data for suffix in PLANS) and (m := _PLAN.search(data)) is not None:
            self._plan = (m[0].decode("utf-8", "replace"), number)
        for text in segments(data):
            anchor = Anchor(self._name, at, at + len(data), number, text.strip()[:400])
            self._segment(text, data, anchor)
            if self._collector is not None:
                break

    def _segment(self, text: str, data: bytes, anchor: Anchor) -> None:
        for fact in builds.FACTS:
            if fact.literal in text and (m := fact.pattern.search(text)) is not None:
                b = self._build(anchor, fact.starts)
                fact.take(b, m)
                if fact.measures and b.run_anchor is None:
                    b.run_anchor = anchor
                if fact.starts == "cache":
                    b.cached = True
                if fact.literal.startswith("[Quant") or fact.starts:
                    break
        if any(literal in text for literal in builds.MEMORY_LITERALS):
            self._others += builds.memory(text, self._build(anchor).number, anchor, self._seq + anchor.start)
        elif builds.REFORMAT_LITERAL in text:
            self._reformats.append((text, self._build(anchor).number, anchor))
        elif any(literal in text for literal in LIST):
            self._listing = True
            self._engine(anchor)
        else:
            self._message(text, data, anchor)

    # -- messages ----------------------------------------------------------------------------

    def _message(self, text: str, data: bytes, anchor: Anchor) -> None:
        node = any(literal in text for literal in NODE_LITERALS)
        found = None if node else kind_of(text)
        if node:
            self._begin(None, "node-failed", text, anchor, more=0, node=True)
        elif found is not None:
            self._begin(found, found.name, text, anchor, more=found.more, node=False)
        elif (head := read_head(text)).level in ("E", "F", "W") and (head.own or "Error Code" in text):
            kind = "warning" if head.level == "W" else "error"
            self._begin(None, kind, text, anchor, more=0 if kind == "warning" else 2, node=False)

    def _begin(self, kind: Kind | None, name: str, text: str, anchor: Anchor, *, more: int, node: bool) -> None:
        self._open = (kind, name, anchor, self._build(anchor).number)
        self._collector = collector_for(text, more, node=node)
        if not node and more == 0:
            self._finish_message(anchor.end)

    def _finish_message(self, end: int) -> None:
        collector, opened = self._collector, self._open
        self._collector = self._open = None
        if collector is None or opened is None:
            return
        kind, name, anchor, build = opened
        stop = max(anchor.end, min(end, anchor.start + 65536))
        anchor = Anchor(anchor.input, anchor.start, stop, anchor.line, anchor.text)
        head = read_head(collector.lines[0])
        text = "\n".join([head.text, *collector.lines[1:]])
        parts = error_parts(text)
        m = kind.regex.search(text) if kind is not None else None
        words = {k: closed(v) for k, v in m.groupdict().items() if v} if m is not None else {}
        subject = words.get(kind.subject, "") if kind is not None and kind.subject else ""
        if name == "affected-weights":
            self._affected(words.get("weights", ""))
        if name in ("affected-weights", "preamble"):
            return
        if name.startswith(_ABOUT_PLANS) and self._plan[0] and 0 <= anchor.line - self._plan[1] <= NEAR:
            words["file"] = self._plan[0]
        key = alike(name, words, parts.text, build)
        held = self._held.get(key)
        if held is None:
            if len(self._held) >= MAX_SHAPES:
                if self._issues is not None:
                    self._issues.add("text/repeats-folded", self._name, unit="messages")
                return
            level = head.level or (kind.level if kind is not None else "")
            held = self._held[key] = _Held(self._record(collector, name, level, parts, words, anchor, build))
        else:
            held.count += 1
        if subject and len(held.subjects) < MAX_SUBJECTS:
            held.subjects[subject] = None
        held.last = anchor.start
        self._weights = held if name == "weights-converted" else self._weights
        if name in _FAILED and self._builds:
            self._builds[-1].told["failed"] = True

    def _record(
        self,
        collector: Collector,
        name: str,
        level: str,
        parts: ErrorParts,
        words: dict[str, str],
        anchor: Anchor,
        build: int,
    ) -> TrtMessage:
        _, origin, attempt = self._whose(collector.lines[0].encode("utf-8", "replace"), anchor.start)
        node = None
        if isinstance(collector, NodeCollector):
            node = collector.node()
            words = {"assertion": collector.reason(), "function": collector.function, "source": collector.source}
        return TrtMessage(
            anchor,
            name,
            level,
            parts.text[:4000],
            parts.code,
            parts.category,
            parts.api,
            parts.source,
            words,
            build=build,
            node=node,
            origin=origin,
            seq=self._seq + anchor.start,
            attempt=attempt,
        )

    def _affected(self, weights: str) -> None:
        """A list of weights belongs to the warning before it."""
        if self._weights is not None:
            for name in re.split(r", (?=\S)", weights.rstrip(" .\u2026,")):
                if len(self._weights.subjects) < MAX_SUBJECTS:
                    self._weights.subjects[name] = None
            self._weights = None

    # -- builds and layers ---------------------------------------------------------------------

    def _build(self, anchor: Anchor, starts: str = "") -> builds.Open:
        """The build at hand; a new one where `starts` says that one may begin."""
        b = self._builds[-1] if self._builds else None
        new = b is None or (starts == "always" and (b.told.get("tool") or b.over or b.told.get("model")))
        if b is not None and not new and starts:
            new = bool(
                (
                    starts == "model"
                    and (b.told.get("model") or b.over)
                    and not (b.told.get("tool") and not b.told.get("model"))
                )
                or (starts == "builder" and b.over and not b.told.get("tool"))
                or (starts == "cache" and b.cached and not b.told.get("tool"))
            )
        if new or b is None:
            earlier = b
            b = builds.Open(len(self._builds), anchor, self._seq + anchor.start)
            if earlier is not None and not earlier.told.get("tool"):  # one process has one TensorRT
                b.release = earlier.release
            self._builds.append(b)
            self._begun.append(anchor.start)
        b.last = max(b.last, anchor.line)
        return b

    def _engine(self, anchor: Anchor) -> None:
        b = self._build(anchor)
        number = len(self._engines)
        key = self._name if not number else f"{self._name}#{number + 1}"
        self._engines.append(Engine(anchor, key, 0, "", b.release, seq=self._seq + anchor.start))

    def _layer(self, line: str, at: int, end: int, number: int) -> bool:
        """Whether a line goes on with the list of layers; 7.x puts a head before each."""
        text = line if layers.is_layer(line) else read_head(line).text
        if not text.strip():
            return True
        if not layers.is_layer(text) or len(self._layers) >= MAX_LAYERS:
            self._listing = False
            return False
        engine = self._engines[-1]
        anchor = Anchor(self._name, at, end, number, text[:400])
        row = layers.layer(text, engine.engine, engine.layers, anchor, self._seq + at)
        if row is not None:
            self._layers.append(row)
            self._engines[-1] = replace(engine, layers=engine.layers + 1, detail=row.detail)
        return True

    # -- what was read ---------------------------------------------------------------------------

    def records(self) -> Iterator[Record]:
        """Everything, builds first."""
        self._finish_message(0)
        self._timings.finish(*self._end, self._begun)
        if not self._builds and len(self._timings.blocks):  # a piece of a log, with tactics alone
            first = next(iter(self._timings.blocks))
            self._builds.append(builds.Open(0, first.anchor, first.seq, last=self._end[1]))
        for b in self._builds:
            timed = self._timings.timed.get(b.number, [0, 0])
            last = b is self._builds[-1] and bool(timed[0]) and not b.over
            verbose = timed[0] > 0 or bool(b.told.get("optimised") and self._layers)
            yield from builds.closed(b, timed, timing=last, ranges=self._ranges.get(b.number, 0), verbose=verbose)
        for held in self._held.values():
            yield replace(held.record, subjects=tuple(held.subjects), count=held.count)
        if len(self._timings.blocks):
            first = next(iter(self._timings.blocks))
            yield TrtTimings(first.anchor, self._timings.blocks, seq=first.seq)
        told = [
            builds.reformat(text, number, anchor, self._seq + anchor.start, self._timings.reformat_ms)
            for text, number, anchor in self._reformats
        ]
        reformats = [row for row in told if row is not None]
        yield from reformats
        yield from self._others
        yield from (e for e in self._engines if e.layers)
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
        rows = [r for r in self._timings.blocks.of_layer(layer.name) if r.fastest == layer.tactic_value]
        inputs, outputs = layer.inputs, layer.outputs
        for row in sorted(rows, key=lambda r: not r.chosen):
            taken, given = layers.with_formats(inputs, row.inputs), layers.with_formats(outputs, row.outputs)
            if taken is not None and given is not None:
                return replace(layer, inputs=taken, outputs=given, tactic=row.fastest_name)
        return replace(layer, tactic=next((r.fastest_name for r in rows if r.fastest_name), ""))


_FAILED: Final = frozenset(
    {"engine-null", "no-implementation", "network-invalid", "no-profile", "node-failed", "tool-failed", "mixed-types"}
)
