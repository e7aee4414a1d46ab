"""The tables of tactics: which kernels were timed for each layer, what they took, and which won.

    *************** Autotuning format combination: Half(100352,1:2,448,2) -> Half(401408,1:2,3584,32) ***************
    --------------- Timing Runner: /conv/Conv + /Relu (CaskConvolution[0x80000009])
    Tactic Name: sm80_xmma_fprop_... Tactic: 0x72c5a15b17fc333a Time: 0.0356297
    /conv/Conv + /Relu (CaskConvolution[0x80000009]) profiling completed in 0.04 s. Fastest Tactic: 0x72... Time: 0.03
    --------------- Timing Runner: /conv/Conv + /Relu (CaskFlattenConvolution[0x80000036])
    CaskFlattenConvolution has no valid tactics for this config, skipping
    >>>>>>>>>>>>>>> Chose Runner Type: CaskConvolution Tactic: 0x72c5a15b17fc333a

Nine lines of ten of a verbose log. They are cut at `Timing Runner: ` and searched with a few `find`s each, whatever the
heads; of reformats, the most of them, only the time of each pair of formats is kept. What is kept of a runner is bytes:
rows are made when somebody asks. 7.x writes `time` for `Time:` and signed decimals for the numbers of tactics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt_log.records import TrtTactic

CUT: Final = b"Timing Runner: "
MAX_BLOCKS: Final = 100_000  # runners kept of an input; a build of a large model times some ten thousand
MAX_TIMES: Final = 16 << 20  # bytes of times kept of an input
MAX_REST: Final = 1 << 20
_TIME: Final = re.compile(rb" [Tt]ime:? (\S+)")
_RESULT: Final = re.compile(r"Fastest Tactic: (\S+) Time: (\S+)")
_SHORT: Final = re.compile(rb"(?:on requested size of|Scratch requested:) ?(\d{1,18})\b")
_GLUED_HEAD: Final = re.compile(r"\[\d\d/\d\d/\d{4}-|\[TRT\]|\[[VIWE]\] ")
_SENTINEL: Final = "0xd15ea5edd15ea5ed"  # "no tactic", since 8.5


class _Block(Struct):
    """What is kept of a runner: where it stands, and stretches of the text."""

    at: int
    end: int  # both of the line that names it
    line: int
    build: int
    formats: bytes
    first: bytes
    times: bytes
    result: bytes  # the line's end that tells the fastest, or, if nothing was timed, what was said instead
    name: bytes
    count: int
    chosen: bool = False


class Blocks:
    """The runners that were timed in one input; rows are made on demand."""

    def __init__(self, name: str, first_seq: int) -> None:
        self.name, self.seq = name, first_seq
        self.kept: list[_Block] = []
        self._layers: dict[bytes, list[_Block]] | None = None  # by name, made when the first is asked for

    def __len__(self) -> int:
        return len(self.kept)

    def __iter__(self) -> Iterator[TrtTactic]:
        return map(self._row, self.kept)

    def __repr__(self) -> str:
        """The rows: what two readings of one text must agree in."""
        return f"Blocks({list(self)!r})"

    def of_layer(self, layer: str) -> list[TrtTactic]:
        """The rows of one layer."""
        if self._layers is None:
            self._layers = {}
            for b in self.kept:
                self._layers.setdefault(b.first[: b.first.rfind(b" (")], []).append(b)
        return [self._row(b) for b in self._layers.get(layer.encode("utf-8", "replace"), ())]

    def _row(self, b: _Block) -> TrtTactic:
        layer, runner = layer_of(b.first)
        times = _times(b.times)
        fastest, fastest_ms, infinite = "", None, False
        if (m := _RESULT.match(_text(b.result))) is not None:
            fastest, fastest_ms = m[1], _number(m[2])
            infinite = fastest_ms is None or fastest == _SENTINEL
        elif times:  # cut before the result, or 7.x without one
            fastest_ms = min(times)
        skipped, shortage = _skipped(b.result)
        source, _, target = b.formats.partition(b":")[2].strip(b" *\r").partition(b" -> ")
        anchor = Anchor(self.name, b.at, b.end, b.line, _text(CUT + b.first)[:400])
        return TrtTactic(
            anchor, b.build, layer, runner, _text(source), _text(target), b.count, times, fastest, _text(b.name),
            None if infinite else fastest_ms, infinite, b.chosen, "" if times and skipped != "memory" else skipped,
            shortage, seq=self.seq + b.at,
        )  # fmt: skip


class Timings:
    """Reads the tables of one input."""

    def __init__(self, name: str, first_seq: int, issues: Issues | None = None) -> None:
        self._name, self._issues = name, issues
        self._rest = b""
        self._lead = 0  # bytes of its line before the `Timing Runner: ` of the piece at hand
        self._formats = b""
        self._combination = 0  # the first block of the combination of formats at hand
        self._times = 0
        self._short = False  # some request for memory was refused in the chunk at hand
        self._same: dict[bytes, bytes] = {}  # one object for equal stretches
        self.blocks = Blocks(name, first_seq)
        self.reformats: dict[bytes, bytes] = {}  # "A -> B" -> milliseconds, as printed
        self._by_formats: dict[bytes, bytes] | None = None
        self.timed: dict[int, list[int]] = {}  # build -> runners timed, reformats among them

    def feed(self, chunk: bytes, start: int, line: int, begun: Sequence[int]) -> None:
        """Take a chunk at byte `start` behind `line` lines; builds begin at the offsets `begun`."""
        rest = self._rest
        if not rest and CUT not in chunk:
            self._tail(chunk)
            return
        text = rest + chunk if rest else chunk
        at, number = start - len(rest), line - rest.count(b"\n")
        pieces = text.split(CUT)
        self._short = b"equested" in text
        self._tail(pieces[0])
        self._rest = b""
        at += len(pieces[0])
        if not rest:  # else its line's begin was seen before
            self._lead = len(pieces[0]) - pieces[0].rfind(b"\n") - 1
        number += pieces[0].count(b"\n")
        build = max(0, sum(b <= at for b in begun) - 1)
        following = begun[build + 1] if build + 1 < len(begun) else 1 << 62
        counted = self.timed.setdefault(build, [0, 0])
        for piece in pieces[1:-1]:
            if at >= following:
                build = sum(b <= at for b in begun) - 1
                following = begun[build + 1] if build + 1 < len(begun) else 1 << 62
                counted = self.timed.setdefault(build, [0, 0])
            counted[0] += 1
            if self._formats[:8] == b"Reformat":
                counted[1] += 1
                self._reformat(piece)
            else:
                self._runner(piece, at, number + 1, build)
            at += len(CUT) + len(piece)
            self._leads(piece)
            number += piece.count(b"\n")
        last = pieces[-1]
        if len(pieces) > 1 and len(last) < MAX_REST:
            self._rest = CUT + last  # it may go on
        elif len(pieces) > 1:
            self._piece(last, at, number + 1, max(0, sum(b <= at for b in begun) - 1))

    def finish(self, end: int, lines: int, begun: Sequence[int]) -> None:
        """What was open at the end: byte `end`, behind `lines` lines."""
        if self._rest:
            at, number = end - len(self._rest), lines - self._rest.count(b"\n")
            self._piece(self._rest[len(CUT) :], at, number + 1, max(0, sum(b <= at for b in begun) - 1))
            self._rest = b""

    def _leads(self, piece: bytes) -> None:
        """Two writers may share a line: what leads to the next `Timing Runner: ` is all since the last line feed."""
        ended = piece.rfind(b"\n")
        self._lead = len(piece) - ended - 1 if ended >= 0 else self._lead + len(CUT) + len(piece)

    def _piece(self, piece: bytes, at: int, line: int, build: int) -> None:
        counted = self.timed.setdefault(build, [0, 0])
        counted[0] += 1
        if self._formats.startswith(b"Reformat"):
            counted[1] += 1
            self._reformat(piece)
        else:
            self._runner(piece, at, line, build)

    def _reformat(self, piece: bytes) -> None:
        """Keeps the time of a pair of formats; the most frequent of all, so with few searches."""
        told = piece.find(b"Fastest Tactic: ")
        if told < 0:
            self._tail(piece)
            return
        time = piece.find(b"ime: ", told) + 5
        if len(self.reformats) < MAX_BLOCKS:
            self.reformats[self._formats] = piece[time : piece.find(b"\n", time)]
        at = piece.find(b"Autotuning ", time)
        if at >= 0:
            if piece.find(b"Autotuning ", at + 1) >= 0:  # pairs that need no timing
                at = piece.rfind(b"Autotuning ")
            end = piece.find(b"\n", at)
            self._formats = piece[at + 11 : end if end >= 0 else len(piece)]
            self._combination = len(self.blocks.kept)

    def _runner(self, piece: bytes, at: int, line: int, build: int) -> None:
        told = piece.find(b"Fastest Tactic: ")
        if len(self.blocks.kept) < MAX_BLOCKS:
            self._keep(piece, told, at, line, build)
        elif self._issues is not None:
            self._issues.add("tensorrt/many-tactics", self._name, unit="runners")
        self._tail(piece[told:] if told >= 0 else piece)

    def _keep(self, piece: bytes, told: int, at: int, line: int, build: int) -> None:
        end = piece.find(b"\n")
        first = piece[:end] if end >= 0 else piece
        found = _TIME.findall(piece, 0, told if told >= 0 else len(piece))
        times, name = b"", b""
        if found and self._times < MAX_TIMES:
            times = b" ".join(found)
            self._times += len(times)
        if told >= 0:
            end = piece.find(b"\n", told)
            result = piece[told : end if end >= 0 else len(piece)]
            tactic = result[16 : result.find(b" ", 16)]
            where = piece.find(tactic, 0, told)
            named = piece.rfind(b"Name: ", 0, where) if where > 0 else -1
            if named > 0 and where - named < 500:
                name = piece[named + 6 : where].partition(b" ")[0]  # `numSplitK: 1` may follow
            if self._short and b"equested" in piece:
                result += b"\n" + b"\n".join(m[0] for m in _SHORT.finditer(piece))
        else:
            result = piece[:2000] if not found else b""
        same = self._same.setdefault
        first, name = same(first, first), same(name, name)
        begin, stop = at - self._lead, at + len(CUT) + len(first)
        self.blocks.kept.append(_Block(begin, stop, line, build, self._formats, first, times, result, name, len(found)))

    def _tail(self, text: bytes) -> None:
        """The choice among the runners of a combination, and the formats that are tried next."""
        at = text.find(b"Chose Runner Type: ")
        if at >= 0:
            end = text.find(b"\n", at)
            runner, _, tactic = text[at + 19 : end if end >= 0 else len(text)].strip().partition(b" Tactic: ")
            kept = self.blocks.kept
            for index in range(self._combination, len(kept)):
                block = kept[index]
                if (b" (" + runner) in block.first and (tactic in block.result or not block.result):
                    block.chosen = True
                    break
            self._combination = len(kept)
        at = text.rfind(b"Autotuning ")
        if at >= 0:
            end = text.find(b"\n", at)
            self._formats = text[at + 11 : end if end >= 0 else len(text)]
            self._combination = len(self.blocks.kept)

    def reformat_ms(self, source: str, target: str) -> float | None:
        """The time of a reformat between two formats, or None."""
        if self._by_formats is None:
            self._by_formats = {k[8:].strip(b": *\r"): v for k, v in self.reformats.items()}
        told = self._by_formats.get(f"{source} -> {target}".encode())
        return None if told is None else _number(told)


def layer_of(first: bytes) -> tuple[str, str]:
    """Layer and runner of a line `LAYER (RUNNER[0x80000009])`."""
    opened = first.rfind(b" (")
    layer = _text(first[:opened] if opened > 0 else first)
    if (glued := _GLUED_HEAD.search(layer)) is not None:
        layer = layer[: glued.start()]
    return layer, _text(first[opened + 2 :].split(b"[", 1)[0].rstrip(b")\r ")) if opened > 0 else ""


def _skipped(said: bytes) -> tuple[str, str]:
    """Why nothing was timed, or something was left out; and the largest request that was refused."""
    if short := [m[1] for m in _SHORT.finditer(said)]:
        return "memory", _text(max(short, key=int))
    if b"has no valid tactics" in said:
        return "no valid tactics", ""
    return ("error", "") if b"Skipping tactic" in said else ("", "")


def _times(found: bytes) -> tuple[float, ...]:
    return tuple(t for raw in found.split() if (t := _number(raw)) is not None)


def _number(text: bytes | str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value < 1e12 else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()
