"""Messages, and those like them: the first stands for all, with a count and the names in them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor, Origin
from necropsy_parsers.tensorrt_log.collect import (
    Collector,
    ErrorParts,
    NodeCollector,
    closed,
    collector_for,
    error_parts,
)
from necropsy_parsers.tensorrt_log.heads import read_head
from necropsy_parsers.tensorrt_log.kinds import Kind
from necropsy_parsers.tensorrt_log.records import TrtMessage
from necropsy_parsers.tensorrt_log.search import Marks, alike, kind_of

Whose = Callable[[bytes, int], tuple[str, Origin, int]]

MAX_SUBJECTS: Final = 200  # names kept of alike messages
MAX_SHAPES: Final = 5_000  # different messages kept of an input
NEAR: Final = 25  # lines between the name of an engine's file and an error about it
_PLAN: Final = re.compile(rb"(?:[A-Za-z]:\\|[\w./\\@+~-])[\w./\\:@+-]*(?<=[\w-])\.(?:engine|plan|trt)\b")
_ABOUT_PLANS: Final = ("plan-", "load-failed")
_FAILED: Final = frozenset(
    {"engine-null", "no-implementation", "network-invalid", "no-profile", "node-failed", "tool-failed", "mixed-types"}
)


class _Held(Struct):
    """A message and those like it."""

    record: TrtMessage
    subjects: dict[str, None] = field(default_factory=dict)
    count: int = 1


class _Opened(Struct, frozen=True):
    """The message that is collected."""

    kind: Kind | None
    name: str
    anchor: Anchor
    build: int
    collector: Collector
    starts: list[int]  # of its lines, in the input


class Messages:
    """Collects and folds the messages of one reader; `failed` is told when one says that the build came to nothing."""

    def __init__(self, name: str, seq: int, whose: Whose, failed: Callable[[], None], issues: Issues | None) -> None:
        self._name, self._seq, self._whose, self._failed, self._issues = name, seq, whose, failed, issues
        self._held: dict[tuple[object, ...], _Held] = {}
        self._opened: _Opened | None = None
        self.explained = array("q")  # offsets of lines marked as errors that were read
        self._plan = ("", 0)  # the engine's file that was named last, and where
        self._weights: _Held | None = None  # what the next list of weights belongs to

    @property
    def open(self) -> bool:
        """Whether further lines may belong to the last message."""
        return self._opened is not None

    def plan(self, data: bytes, line: int) -> None:
        """A line that may name an engine's file."""
        if (m := _PLAN.search(data)) is not None:
            self._plan = (m[0].decode("utf-8", "replace"), line)

    def begin(self, text: str, anchor: Anchor, marks: Marks, build: Callable[[Anchor], int]) -> None:
        """A line that may be a message; `build` numbers the build that it belongs to."""
        if marks.node and "While parsing node number " in text:
            self._begin(None, "node-failed", text, anchor, build(anchor), more=0, node=True)
        elif (kind := kind_of(text, marks)) is not None:
            self._begin(kind, kind.name, text, anchor, build(anchor), more=kind.more, node=False)
        elif (head := read_head(text)).level in ("E", "F", "W") and (head.own or "Error Code" in text):
            name, more = ("warning", 0) if head.level == "W" else ("error", 2)
            self._begin(None, name, text, anchor, build(anchor), more=more, node=False)

    def _begin(
        self, kind: Kind | None, name: str, text: str, anchor: Anchor, build: int, *, more: int, node: bool
    ) -> None:
        self._opened = _Opened(kind, name, anchor, build, collector_for(text, more, node=node), [anchor.start])
        if not node and more == 0:
            self.finish(anchor.end)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While another message is read, the open one waits."""
        waiting, self._opened = self._opened, None
        yield
        self.finish(0)
        self._opened = waiting

    def foreign(self, text: str) -> bool:
        """Whether a line is another's, in the midst of the open message."""
        collector = self._opened.collector if self._opened is not None else None
        return isinstance(collector, NodeCollector) and collector.foreign(text)

    def feed(self, text: str, start: int, end: int) -> bool:
        """Whether a further line, from byte `start` to `end`, belongs to the open message."""
        assert self._opened is not None
        collector = self._opened.collector
        taken = collector.feed(text)
        if taken:
            self._opened.starts.append(start)
        if collector.done or not taken:
            self.finish(end)
        return taken

    def finish(self, end: int) -> None:
        """The open message ends at byte `end` of the input."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        name, anchor = opened.name, opened.anchor
        stop = max(anchor.end, min(end, anchor.start + 65536))
        anchor = Anchor(anchor.input, anchor.start, stop, anchor.line, anchor.text)
        head = read_head(opened.collector.lines[0])
        text = "\n".join([head.text, *opened.collector.lines[1:]])
        parts = error_parts(text)
        kind = opened.kind
        level = head.level or (kind.level if kind is not None else "")
        if level in ("E", "F") or isinstance(opened.collector, NodeCollector):
            self.explained.extend(opened.starts)
        m = kind.regex.search(text) if kind is not None else None
        words = {k: closed(v) for k, v in m.groupdict().items() if v} if m is not None else {}
        if name == "affected-weights":
            self._affected(words.get("weights", ""))
        if name in ("affected-weights", "preamble"):
            return
        if name.startswith(_ABOUT_PLANS) and self._plan[0] and 0 <= anchor.line - self._plan[1] <= NEAR:
            words["file"] = self._plan[0]
        held = self._fold(opened, level, parts, words, anchor)
        if held is None:
            return
        subject = words.get(kind.subject, "") if kind is not None and kind.subject else ""
        if subject and len(held.subjects) < MAX_SUBJECTS:
            held.subjects[subject] = None
        self._weights = held if name == "weights-converted" else self._weights
        if name in _FAILED:
            self._failed()

    def _fold(
        self, opened: _Opened, level: str, parts: ErrorParts, words: dict[str, str], anchor: Anchor
    ) -> _Held | None:
        """The message, or that like it; None where there are too many."""
        key = alike(opened.name, words, parts.text, opened.build)
        held = self._held.get(key)
        if held is not None:
            held.count += 1
            return held
        if len(self._held) >= MAX_SHAPES:
            if self._issues is not None:
                self._issues.add("text/repeats-folded", self._name, unit="messages")
            return None
        held = self._held[key] = _Held(self._record(opened, level, parts, words, anchor))
        return held

    def _record(
        self, opened: _Opened, level: str, parts: ErrorParts, words: dict[str, str], anchor: Anchor
    ) -> TrtMessage:
        collector, node = opened.collector, None
        _, origin, attempt = self._whose(collector.lines[0].encode("utf-8", "replace"), anchor.start)
        if isinstance(collector, NodeCollector):
            node = collector.node()
            words = {"assertion": collector.reason(), "function": collector.function, "source": collector.source}
        return TrtMessage(
            anchor, opened.name, level, parts.text[:4000], parts.code, parts.category, parts.api, parts.source, words,
            build=opened.build, node=node, origin=origin, seq=self._seq + anchor.start, attempt=attempt,
        )  # fmt: skip

    def _affected(self, weights: str) -> None:
        """A list of weights belongs to the warning before it."""
        if self._weights is not None:
            for name in re.split(r", (?=\S)", weights.rstrip(" .\u2026,")):
                if len(self._weights.subjects) < MAX_SUBJECTS:
                    self._weights.subjects[name] = None
            self._weights = None

    def records(self) -> Iterator[TrtMessage]:
        """Each once, with how often it came and the names in it."""
        for held in self._held.values():
            yield replace(held.record, subjects=tuple(held.subjects), count=held.count)
