"""Fusion log of Inductor's scheduler: which pairs of nodes it refused to fuse, why, and from which lines they come.

[0/0] [__fusion] ===== attempting fusion (1/10): 143 nodes =====
[0/0] [__fusion]   SchedulerNode(name='op0'), Pointwise(['[4, 512]', 'stack_traces = {', '  File "a.py", line 5, in f',
[0/0] [__fusion] cannot fuse op0 with op35: intermediate nodes between node1 & node2
[0/0] [__fusion] fusing op0 with op3
[0/0] [__fusion] cannot fuse (benchmark): fusing OrderedSet(['buf0']) with OrderedSet(['buf1']) cause 1.208x slowdown

`TORCH_LOGS=fusion`, since torch 2.2 (`torch._inductor.scheduler.__fusion: [DEBUG] ` before 2.3). The stacks stand in
the lists of candidates of recent releases; with older ones the lines stay unknown. A model of 150 nodes prints
thousands of lines a graph, hence a tally. Node names begin anew with each graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.records import Anchor, Frame, Origin, Record
from necropsy_parsers.tallies import Found, places
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.text.torch_head import frames_at, origin_of
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "fusion"
TITLE: Final = "Inductor's fusion log"
_FUSION: Final = b"__fusion"
LITERALS: Final = (_FUSION,)
PLACED: Final = (_FUSION,)
MAX_BYTES: Final = 0
READS: Final = (
    Reads("fusion", "2.2", "refusals with reason, also of fusions measured as slower, pairs fused, graphs; stacks"),
)

_LINE: Final = re.compile(
    rb"__fusion(?:\]|: \[\w+\]) (?:cannot fuse (?P<first>\S+) with (?P<second>\S+): (?P<reason>[^\n]+)"
    rb"|(?P<fused>fusing )|===== attempting fusion \((?P<round>\d+)/)"
)
# The same for counting only: why, `fusing `, or the round. Candidates stand behind two more blanks.
_SAID: Final = re.compile(
    rb"__fusion(?:\]|: \[\w+\]) (?:cannot fuse \S+ with \S+: |(?=fusing |=====))"
    rb"(fusing |===== attempting fusion \(\d+/|[^\n]+)"
)
# Fusions tried out and measured (`benchmark_fusion`, templates); names are sets, the number may be coloured.
_MEASURED: Final = re.compile(
    rb"__fusion(?:\]|: \[\w+\]) cannot fuse \(benchmark\): (?:fusing (?P<first>[^\n]{1,400}?) with "
    rb"(?P<second>[^\n]{1,400}?) (?=causes? ))?(?P<reason>(?:causes? |register spilling)[^\n]{1,200})"
)
_TRIED: Final = b" fuse (benchmark): "
_ANSI: Final = re.compile(r"\x1b\[[\d;]*m")
_NAME: Final = re.compile(rb"\w+(?=')")
_FIRST_ROUND: Final = b"===== attempting fusion (1/"
_FUSED: Final = b"fusing "
_HEAD_END: Final = b"__fusion] "
_CANDIDATE: Final = b"__fusion]   "
_REFUSED: Final = b"__fusion] cannot fuse "
_OLDER_HEAD: Final = b"__fusion: ["
PIECE: Final = 32 * 1024  # bytes that are counted at once; most hold refusals for few reasons
USUAL: Final = 8  # reasons seen first
# What is true of most pairs in any graph and nothing to act on (WhyNoFuse, torch/_inductor/scheduler.py 2.2 to 2.13).
_TRIVIAL: Final = re.compile(
    r"no shared data$|intermediate nodes between|node[12] (?:is|must)|will create cycle|grouped node|templates? "
    r"|candidate (?:producer|consumer)|foreach do not|prologue fusion|epilogue fusion"
)
_NUMBERS: Final = re.compile(r"(?<![a-zA-Z])\d+|\((?=[\d(s])(?:[^()]|\([^()]*\))*\)(?:, )?")  # of sizes
MAX_PAIRS: Final = 5_000  # distinct (reason, line, line) kept an input; further ones are only counted by reason
# Refusals that are taken one by one. Of further ones those for a trivial reason are counted by their words, which takes
# a tenth of the time; whose they are is then asked of some in each chunk.
ONE_BY_ONE: Final = 4_000
ASKED: Final = 200
SLOWER: Final = "slowdown when fused"  # of those that were measured

Stack = tuple[Frame, ...]  # outermost first


class FusionRefusal(Record, frozen=True):
    """Refusals for one `reason` between two lines; `first` and `second` are stacks, empty where none is told.

    `detail` is the reason as printed for the first such pair, `nodes` that pair; `trivial` ones say nothing about
    the program and are counted over all lines; behind the first `ONE_BY_ONE` refusals of an input their `ranks` and
    `compile_ids` are those of a sample.
    """

    reason: str
    detail: str
    trivial: bool
    count: int
    nodes: tuple[str, str]
    first: Stack
    second: Stack
    ranks: tuple[int, ...]
    compile_ids: tuple[str, ...]


class FusionSummary(Record, frozen=True):
    """What the scheduler did in one input: graphs, pairs fused, pairs refused."""

    graphs: int
    fused: int
    refused: int


class _Pair(Struct):
    detail: str
    trivial: bool
    nodes: tuple[str, str]
    first: Stack
    second: Stack
    anchor: Anchor
    origin: Origin
    count: int = 0
    ranks: set[int] = field(default_factory=set)
    compile_ids: set[str] = field(default_factory=set)
    heads: set[bytes] = field(default_factory=set)


class Tally:
    """Counts refusals by reason and pair of lines.

    Of most lines only the reason is looked at. The node's stacks are searched for when a pair is told: the list of
    candidates stands before it, in this chunk or in the one before.
    """

    found: Found = staticmethod(places)

    def __init__(self, name: str, first_seq: int) -> None:
        self._name = name
        self._seq = first_seq
        self._reasons: dict[bytes, tuple[str, bool]] = {}
        self._pairs: dict[tuple[str, object, object], _Pair] = {}
        self._before = b""
        self._line = 0  # lines before this chunk
        self._graphs = self._fused = self._refused = 0

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Count the lines of a chunk."""
        self._line = line
        if self._refused < ONE_BY_ONE:
            lines = (at for at in self.found(chunk, _FUSION) if not chunk.startswith(_CANDIDATE, at))
            for m in filter(None, (_LINE.match(chunk, at) for at in lines)):
                if m.lastgroup == "reason":
                    self._refuse(chunk, m, start)
                elif m.lastgroup == "fused":
                    self._fused += 1
                elif m["round"] == b"1":
                    self._graphs += 1
        else:
            self._feed_many(chunk, start)
        if _TRIED in chunk:
            for m in _MEASURED.finditer(chunk):
                self._refuse(chunk, m, start)
        self._before = chunk

    def _feed_many(self, chunk: bytes, start: int) -> None:
        """Count by words, piece by piece; refusals that are new or not trivial are taken one by one."""
        usual = list(islice((r for r, (_, trivial) in self._reasons.items() if trivial), USUAL))
        asked = ASKED
        for begin, end in _pieces(chunk):
            counted: set[bytes] = set()
            others: set[bytes] = set()
            for reason, count in _said(chunk, begin, end, usual).items():
                if reason == _FUSED:
                    self._fused += count
                elif reason == _FIRST_ROUND:
                    self._graphs += count
                elif (pair := self._trivial_pair(reason)) is not None:
                    counted.add(reason)
                    pair.count += count
                    self._refused += count
                elif not reason.startswith(b"====="):
                    others.add(reason)
            if not others and (asked <= 0 or not counted):
                continue
            for m in _LINE.finditer(chunk, begin, end):
                if m.lastgroup == "reason" and m["reason"] in others:
                    self._refuse(chunk, m, start)
                elif asked > 0 and m["reason"] in counted and (pair := self._trivial_pair(m["reason"])) is not None:
                    head = chunk.rfind(b"\n", begin, m.start()) + 1 or begin
                    _writers(pair, chunk[head : head + min(m.start() - head, 200)])
                asked -= 1

    def _trivial_pair(self, reason: bytes) -> _Pair | None:
        """What is counted for this trivial reason, if it was seen before."""
        name, trivial = self._reasons.get(reason, ("", False))
        return self._pairs.get((name, (), ())) if trivial else None

    def records(self) -> Iterator[Record]:
        """One record a reason and pair of lines, and a summary."""
        for number, ((reason, _, _), p) in enumerate(self._pairs.items()):
            yield FusionRefusal(
                p.anchor, reason, p.detail, p.trivial, p.count, p.nodes, p.first, p.second, tuple(sorted(p.ranks)),
                tuple(sorted(p.compile_ids)), origin=p.origin, seq=self._seq + p.anchor.start,
            )  # fmt: skip
            if number == 0:
                yield FusionSummary(
                    p.anchor, self._graphs, self._fused, self._refused, origin=p.origin, seq=self._seq + p.anchor.start
                )

    # -- lines ------------------------------------------------------------------

    def _refuse(self, chunk: bytes, m: re.Match[bytes], start: int) -> None:
        self._refused += 1
        begin = chunk.rfind(b"\n", 0, m.start()) + 1
        known = self._reasons.get(m["reason"])
        if known is None:
            detail = _words(m["reason"])
            reason = SLOWER if detail.endswith("slowdown") else _NUMBERS.sub("", detail).strip(" ,.:")
            known = (reason, _TRIVIAL.match(reason) is not None)
            if len(self._reasons) < MAX_PAIRS:
                self._reasons[m["reason"]] = known
        reason, trivial = known
        head = chunk[begin : m.start()]
        if trivial and (pair := self._pairs.get((reason, (), ()))) is not None:
            pair.count += 1
            _writers(pair, head[:200])
            return
        first, second = ((), ()) if trivial else (self._stack(chunk, m, head, n) for n in ("first", "second"))
        # Without a stack the names tell pairs apart; they begin anew with each graph.
        one, two = ((), ()) if trivial else ((self._graphs, m[n]) for n in ("first", "second"))
        key: tuple[str, object, object] = (reason, first or one, second or two)
        if key not in self._pairs and len(self._pairs) >= MAX_PAIRS:
            key = (reason, (), ())
        pair = self._pairs.get(key)
        if pair is None:
            quoted = chunk[m.end() - len(m[0]) : m.end()].split(b" ", 1)[1].decode("utf-8", "replace")[:400]
            number = self._line + lines_before(chunk, begin) + 1
            anchor = Anchor(self._name, start + begin, start + m.end(), number, quoted)
            names = (_node(m["first"]), _node(m["second"]))
            pair = self._pairs[key] = _Pair(
                _words(m["reason"]), trivial, names, first, second, anchor, origin_of(head, NAME)
            )
        pair.count += 1
        _writers(pair, head[:200])

    def _stack(self, chunk: bytes, m: re.Match[bytes], head: bytes, side: str) -> Stack:
        """Stack of a node; of a fused one (`op3_op4`) that of its first member with one."""
        for name in re.split(rb"_(?=op\d|buf\d)", m[side] or b""):
            node = b"(name='" + name + b"')"
            for text, end in ((chunk, m.start()), (self._before, len(self._before))):
                position = text.rfind(node, 0, end)
                while position >= 0 and not _same_writer(text, position, head):
                    position = text.rfind(node, 0, position)
                if position >= 0:
                    if found := frames_at(text, position):
                        return found
                    break
        return ()


def _words(reason: bytes) -> str:
    """A reason without colours."""
    return _ANSI.sub("", reason.decode("utf-8", "replace")).strip()


def _node(name: bytes | None) -> str:
    """A node's name; of a set of buffers (`OrderedSet(['buf0', 'buf1'])`) all of them."""
    return "_".join(n.decode("utf-8", "replace") for n in _NAME.findall(name or b"") or [name or b"?"])


def _pieces(chunk: bytes) -> Iterator[tuple[int, int]]:
    """Stretches of whole lines, the first of which is the scheduler's."""
    end = 0
    while (mark := chunk.find(_FUSION, end)) >= 0:
        begin = chunk.rfind(b"\n", end, mark) + 1 or end
        end = chunk.find(b"\n", begin + PIECE) + 1 or len(chunk)
        yield begin, end


def _said(chunk: bytes, begin: int, end: int, usual: Iterable[bytes]) -> dict[bytes, int]:
    """How often each reason, `fusing ` and a first round stand there.

    To count the `usual` reasons is ten times as fast as to look at each line; where their sum is less than the refusals
    there are others among them.
    """
    refused = chunk.count(_REFUSED, begin, end)
    said = {r: chunk.count(b": " + r + b"\n", begin, end) for r in usual} if refused else {}
    if sum(said.values()) != refused or chunk.find(_OLDER_HEAD, begin, end) >= 0:
        return Counter(_SAID.findall(chunk, begin, end))
    said[_FUSED] = chunk.count(_HEAD_END + _FUSED, begin, end)
    said[_FIRST_ROUND] = chunk.count(_HEAD_END + _FIRST_ROUND, begin, end)
    return {words: count for words, count in said.items() if count}


def _same_writer(text: bytes, position: int, head: bytes) -> bool:
    begin = text.rfind(b"\n", 0, position) + 1
    mark = text.find(_FUSION, begin, position)
    return mark >= 0 and _writer(origin_of(text[begin:mark], NAME)) == _writer(origin_of(head, NAME))


def _writers(pair: _Pair, head: bytes) -> None:
    """Notes the rank and the compile id of a head; all of one process and compilation are alike but for the clock."""
    parts = head.split(b" ", 2)
    key = parts[0] + parts[-1]
    if key in pair.heads:
        return
    if len(pair.heads) < 10_000:
        pair.heads.add(key)
    origin = origin_of(head, NAME)
    if origin.rank is not None:
        pair.ranks.add(origin.rank)
    if origin.compile_id and len(pair.compile_ids) < 100:
        pair.compile_ids.add(origin.compile_id)


def _writer(origin: Origin) -> tuple[int | None, int | None, str]:
    return (origin.rank, origin.pid, origin.compile_id)
