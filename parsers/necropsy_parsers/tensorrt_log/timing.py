"""The tables of tactics: which kernels were timed for each layer, what they took, and which won.

    *************** Autotuning format combination: Half(100352,1:2,448,2) -> Half(401408,1:2,3584,32) ***************
    --------------- Timing Runner: /conv/Conv + /Relu (CaskConvolution[0x80000009])
    Tactic Name: sm80_xmma_fprop_... Tactic: 0x72c5a15b17fc333a Time: 0.0356297
    /conv/Conv + /Relu (CaskConvolution[0x80000009]) profiling completed in 0.04 s. Fastest Tactic: 0x72... Time: 0.03
    --------------- Timing Runner: /conv/Conv + /Relu (CaskFlattenConvolution[0x80000036])
    CaskFlattenConvolution has no valid tactics for this config, skipping
    >>>>>>>>>>>>>>> Chose Runner Type: CaskConvolution Tactic: 0x72c5a15b17fc333a

Nine lines of ten of a verbose log. They are cut at `Timing Runner: ` and searched with a few `find`s each, whatever the
heads; of reformats, the most of them, only the time of each pair of formats is kept. What is kept of a runner is bytes
(see `tactic_rows`): rows are made when somebody asks. 7.x writes `time` for `Time:` and signed decimals for the numbers
of tactics.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from operator import methodcaller
from typing import Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.tensorrt_log.places import Places
from necropsy_parsers.tensorrt_log.tactic_rows import Block, Blocks, number

CUT: Final = b"Timing Runner: "
_CUT: Final = len(CUT)
FASTEST: Final = b"Fastest Tactic: "
_CHOSE: Final = b"Chose Runner Type: "
_FORMATS: Final = b"Autotuning "
MAX_BLOCKS: Final = 100_000  # runners kept of an input; a build of a large model times some ten thousand
MAX_TIMES: Final = 16 << 20  # bytes of times kept of an input
MAX_REST: Final = 1 << 20
_MAX_SAID: Final = 2000
_SHORT_TEXT: Final = 4096  # bytes in which to search backwards is as quick as to ask first
# ` Time: 0.25`, up to 7.x ` time 0.25`; a pattern that begins with a literal is searched twice as fast.
_times: Final = re.compile(rb"ime(?<= [Tt]ime):? (\S+)").findall
_line_feeds: Final = methodcaller("count", b"\n")
_SHORT: Final = re.compile(rb"(?:on requested size of|Scratch requested:) ?\d{1,18}\b")
_NOTHING_FITS: Final = b"has no valid tactics"


class Timings:
    """Reads the tables of one input, or of one of the ranks that write into it."""

    def __init__(self, name: str, first_seq: int, issues: Issues | None = None) -> None:
        self._name, self._issues = name, issues
        self._rest = b""  # the last piece of the chunk before: it may go on
        self._rest_place = (0, 0, 0)  # of it: where its line begins, where it does, the line's number
        self._formats = b""
        self._of_reformat = False  # whether these are a reformat's
        self._combination = 0  # the first block of the combination of formats at hand
        self._times = 0
        self._short = False  # some request for memory may have been refused in the chunk at hand
        self._same: dict[bytes, bytes] = {}  # one object for equal stretches
        self.blocks = Blocks(name, first_seq)
        self.reformats: dict[bytes, bytes] = {}  # "A -> B" -> milliseconds, as printed
        self._by_formats: dict[bytes, bytes] | None = None
        self.timed: dict[int, list[int]] = {}  # build, by its place in `begun` -> runners timed, reformats among them

    # -- pieces ----------------------------------------------------------------------------

    def feed(self, chunk: bytes, places: Places, begun: Sequence[int], *, short: bool = True) -> None:
        """Take a chunk; builds begin at the offsets `begun` of the input; `short`: some memory was refused in it."""
        rest = self._rest
        if not rest and CUT not in chunk:
            self._tail(chunk)
            return
        text = rest + chunk if rest else chunk
        pieces = text.split(CUT)
        last = pieces.pop()
        self._short = short
        self._rest = b""
        self._tail(pieces[0])
        self._read(pieces, text, places, begun, len(rest))
        self._rest = CUT + last
        if len(last) >= MAX_REST:
            self.finish(begun)

    def finish(self, begun: Sequence[int]) -> None:
        """What is open ends here."""
        if self._rest:
            piece, place = self._rest[_CUT:], self._rest_place
            self._rest = b""
            build = _build_at(place[1], begun)
            reformat = self._of_reformat
            self._count(build, 1, int(reformat))
            told = piece.find(FASTEST)
            if reformat:
                self._reformat(piece, told)
            else:
                self._runner(piece, told, place, build)

    def _read(self, pieces: list[bytes], text: bytes, places: Places, begun: Sequence[int], held: int) -> None:
        """Take all pieces but the first, which is before any `CUT`, and keep where the next `CUT` stands.

        The first `held` bytes of `text` are of the chunk before.
        """
        position, place = len(pieces[0]), self._place
        lines = list(accumulate(map(_line_feeds, pieces), initial=-text.count(b"\n", 0, held)))
        build = _build_at(place(text, position, lines[1], places, held)[1], begun)
        following = begun[build + 1] if build + 1 < len(begun) else 0
        runners = reformats = 0
        for piece, line in zip(pieces[1:], lines[1:], strict=False):
            if following and position >= held and places.offset(position - held) >= following:
                self._count(build, runners, reformats)
                runners = reformats = 0
                build = _build_at(places.offset(position - held), begun)
                following = begun[build + 1] if build + 1 < len(begun) else 0
            told = piece.find(FASTEST)
            runners += 1
            if self._of_reformat:
                reformats += 1
                self._reformat(piece, told)
            else:
                self._runner(piece, told, place(text, position, line, places, held), build)
            position += _CUT + len(piece)
        self._count(build, runners, reformats)
        self._rest_place = place(text, position, lines[-1], places, held)

    def _place(self, text: bytes, position: int, line: int, places: Places, held: int) -> tuple[int, int, int]:
        """Of a `CUT` behind `line` line feeds of the chunk: offset of its line, its own, the number of the line.

        Two writers may share a line: it begins behind the last line feed. `held` bytes of `text` are of chunks before.
        """
        if position < held:
            return self._rest_place
        begin = text.rfind(b"\n", 0, position) + 1
        own = places.offset(position - held)
        if begin >= held:
            return places.offset(begin - held), own, places.line(line)
        before, at, count = self._rest_place  # a line longer than a chunk
        return (at + begin, own, count + text.count(b"\n", 0, begin)) if begin else (before, own, count)

    def _count(self, build: int, runners: int, reformats: int) -> None:
        if runners:
            counted = self.timed.setdefault(build, [0, 0])
            counted[0] += runners
            counted[1] += reformats

    def _reformat(self, piece: bytes, told: int) -> None:
        """Keeps the time of a pair of formats; the most frequent of all, so with few searches."""
        if told < 0:
            self._tail(piece)
            return
        time = piece.find(b"ime: ", told) + 5
        if len(self.reformats) < MAX_BLOCKS:
            self.reformats[self._formats] = piece[time : piece.find(b"\n", time)]
        at = piece.rfind(_FORMATS, time)  # pairs that need no timing may stand before it
        if at >= 0:
            self._begin(piece, at)

    def _runner(self, piece: bytes, told: int, place: tuple[int, int, int], build: int) -> None:
        if len(self.blocks.kept) >= MAX_BLOCKS:
            if self._issues is not None:
                self._issues.add("tensorrt/many-tactics", self._name, unit="runners")
        elif told >= 0:
            self._timed(piece, told, place, build)
        else:
            self._untimed(piece, place, build)
        self._tail(piece[told:] if told >= 0 else piece)

    def _timed(self, piece: bytes, told: int, place: tuple[int, int, int], build: int) -> None:
        """Keeps a runner whose kernels were timed."""
        end = piece.find(b"\n", told)
        result = piece[told : end if end >= 0 else len(piece)]
        where = piece.find(result[16 : result.find(b" ", 16)], 0, told)
        named = piece.rfind(b"Name: ", max(0, where - 499), where) if where > 0 else -1
        # `numSplitK: 1` may follow
        name = piece[named + 6 : where].partition(b" ")[0] if named > 0 else b""
        if self._short and b"equested" in piece:
            result += b"\n" + b"\n".join(_SHORT.findall(piece))
        self._keep(piece, _times(piece, 0, told), result, name, place, build)

    def _untimed(self, piece: bytes, place: tuple[int, int, int], build: int) -> None:
        """Keeps a runner of which no result is told: nothing fits, it failed, the log ends, or the release is old."""
        if found := _times(piece):
            said = b""
        elif self._short or b"Tactic: 0x" in piece or _NOTHING_FITS not in piece:
            said = piece[:_MAX_SAID]
        else:
            said = _NOTHING_FITS
        self._keep(piece, found, said, b"", place, build)

    def _keep(
        self,
        piece: bytes,
        found: list[bytes],
        result: bytes,
        name: bytes,
        place: tuple[int, int, int],
        build: int,
    ) -> None:
        end = piece.find(b"\n")
        first = piece[:end] if end >= 0 else piece
        times = b""
        if found and self._times < MAX_TIMES:
            times = b" ".join(found)
            self._times += len(times)
        same = self._same.setdefault
        first, name = same(first, first), same(name, name)
        line, at, count = place
        self.blocks.kept.append(
            Block(line, at + _CUT + len(first), count, build, self._formats, first, times, result, name, len(found))
        )

    # -- what stands between runners ---------------------------------------------------------

    def _tail(self, text: bytes) -> None:
        """The choice among the runners of a combination, and the formats that are tried next."""
        if _CHOSE in text:
            self._choose(text, text.find(_CHOSE) + len(_CHOSE))
        at = text.rfind(_FORMATS) if len(text) < _SHORT_TEXT or _FORMATS in text else -1
        if at >= 0:
            self._begin(text, at)

    def _choose(self, text: bytes, at: int) -> None:
        end = text.find(b"\n", at)
        runner, _, tactic = text[at : end if end >= 0 else len(text)].strip().partition(b" Tactic: ")
        kept, sought = self.blocks.kept, b" (" + runner
        for index in range(self._combination, len(kept)):
            block = kept[index]
            if sought in block.first and (tactic in block.result or not block.result):
                block.chosen = True
                break
        self._combination = len(kept)

    def _begin(self, text: bytes, at: int) -> None:
        """Another combination of formats is tried."""
        end = text.find(b"\n", at)
        self._formats = formats = text[at + 11 : end if end >= 0 else len(text)]
        self._of_reformat = formats.startswith(b"Reformat")
        self._combination = len(self.blocks.kept)

    def reformat_ms(self, source: str, target: str) -> float | None:
        """The time of a reformat between two formats, or None."""
        if self._by_formats is None:
            self._by_formats = {k[8:].strip(b": *\r"): v for k, v in self.reformats.items()}
        told = self._by_formats.get(f"{source} -> {target}".encode())
        return None if told is None else number(told)


def _build_at(offset: int, begun: Sequence[int]) -> int:
    return max(0, sum(b <= offset for b in begun) - 1)
