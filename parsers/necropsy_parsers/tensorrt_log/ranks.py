"""Ranks that build engines and write into one log: each has its own reader.

    [rank0]: [01/31/2026-12:00:00] [TRT] [V] --------------- Timing Runner: /a/Conv (CaskConvolution[0x80000009])
    [rank1]: [01/31/2026-12:00:00] [TRT] [V] --------------- Timing Runner: /a/Conv (CaskConvolution[0x80000009])
    [rank0]: [01/31/2026-12:00:00] [TRT] [V] Tactic Name: sm80_xmma_fprop... Tactic: 0x72c5 Time: 0.0356

What belongs together in tables of tactics, lists of layers and messages of several lines stands in lines one after the
other, which another rank's lines part. While one rank alone is seen, chunks are read as they are; from the second on
each rank's lines are gathered. A line that tells no rank goes on with the line above, unless it begins a message.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from operator import methodcaller
from typing import Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Origin, Record
from necropsy_parsers.tensorrt_log.folding import Whose
from necropsy_parsers.tensorrt_log.heads import begins
from necropsy_parsers.tensorrt_log.places import Gathered
from necropsy_parsers.tensorrt_log.reader import Numbers, TensorrtReader

_Key = tuple[int | None, int | None, str | None]  # rank, rank on its host, host

MAX_READERS: Final = 4096  # jobs have thousands of ranks; lines of more go to the reader of no rank
_STEP: Final = 16384  # bytes from one line that is asked for its rank to the next
_WHOLE: Final = 32 * 1024  # of shorter chunks every line is asked
_MAX_WORDS: Final = 65536
_NOBODY: Final[_Key] = (None, None, None)
# What may tell the rank: a line's first brackets or first word, behind clocks.
_HEAD: Final = (
    rb"(?:\[?\d{2,4}[-/]\d\d[-/]\d{2,4}[T -][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)?\]? (?:std(?:out|err) [FP] )?){0,2}"
    rb"([\[(](?![^\])\n]{0,80}\d\d:\d\d)[^\])\n]{1,80}[\])](?:<\w{1,16}>)?:? ?(?:\[rank\d{1,5}\]: ?)?"
    rb"| {0,4}[\w.-]{1,64} ?[:|>] ?)"
)
_FIRST: Final = re.compile(_HEAD)
# Lines behind the same head; what might be more of a head begins another run.
_RUN: Final = re.compile(rb"(" + _HEAD + rb")[^\n]*\n(?:\1(?![ :<]|\[rank\d)[^\n]*\n)*")
_line_feeds: Final = methodcaller("count", b"\n")
_CONTAINER: Final = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?")


class RankedReader:
    """Reads one input for all ranks that write into it."""

    def __init__(self, name: str, first_seq: int, whose: Whose, issues: Issues | None = None) -> None:
        self._name, self._seq, self._whose, self._issues = name, first_seq, whose, issues
        self._numbers = Numbers()
        self._readers: dict[_Key, TensorrtReader] = {}
        self._keys: dict[bytes, _Key] = {}  # of first words
        self._locals: dict[tuple[int, str | None], _Key] = {}  # of ranks on a host, where both are told
        self._first: _Key = _NOBODY  # the first that was seen
        self._woven = False
        self._last: _Key = _NOBODY  # of the line above
        self._end = 0
        self._one = self._reader(_NOBODY)  # whoever wrote while only one did

    def _reader(self, key: _Key) -> TensorrtReader:
        reader = self._readers.get(key)
        if reader is None:
            if len(self._readers) >= MAX_READERS:
                return self._readers[_NOBODY]
            reader = TensorrtReader(self._name, self._seq, self._whose, self._issues, self._numbers, self._bare)
            if key != _NOBODY:
                reader.origin = Origin(rank=key[0], local_rank=key[1], host=key[2])
            self._readers[key] = reader
        return reader

    # -- whose lines -------------------------------------------------------------------------

    def _key(self, line: bytes, start: int) -> _Key:
        """Whose a line is, as its first word tells."""
        m = _FIRST.match(line)
        return _NOBODY if m is None else self._of_word(m[1], start)

    def _of_word(self, word: bytes, start: int) -> _Key:
        """Whose a line is that begins with that word."""
        key = self._keys.get(word)
        if key is None:
            if len(self._keys) >= _MAX_WORDS:
                self._keys.clear()
            key = self._keys[word] = self._told(self._whose(word + b"[V] [TRT] x", start)[1])
        return key

    def _bare(self, line: bytes) -> bytes:
        """A line without what a launcher or container put before it, for lines that go on with others."""
        m = _FIRST.match(line)
        if m is not None and self._key(line, self._end) != _NOBODY and (not m.start(1) or _CONTAINER.match(line)):
            return line[m.end() :]
        m = _CONTAINER.match(line)
        return line[m.end() :] if m is not None else line

    def _told(self, origin: Origin) -> _Key:
        """The key of whoever is told; of `[default3]:[rank3]: x` and `[default3]: y` it is one."""
        rank, local, host = origin.rank, origin.local_rank, origin.host
        if local is None:
            return _NOBODY if rank is None else (rank, None, host)
        if rank is None:
            return self._locals.get((local, host), (None, local, host))
        return self._locals.setdefault((local, host), (rank, None, host))

    def _sampled(self, chunk: bytes, start: int) -> Iterable[_Key]:
        """Whose some lines of a chunk are."""
        step = _STEP if len(chunk) > _WHOLE else 1
        at = 0
        while at < len(chunk):
            end = chunk.find(b"\n", at)
            yield self._key(chunk[at : at + 200 if end < 0 else min(end, at + 200)], start + at)
            if end < 0 or (at := chunk.find(b"\n", max(end, at + step - 1)) + 1) <= 0:
                return

    def _several(self, chunk: bytes, start: int) -> bool:
        """Whether more than one rank wrote into what was read so far."""
        for key in self._sampled(chunk, start):
            if key in (_NOBODY, self._first):
                continue
            if self._first != _NOBODY:
                return True
            self._first = key
        return False

    # -- reading ---------------------------------------------------------------------------

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Take a chunk at byte `start` behind `line` lines."""
        if not self._woven and self._several(chunk, start):
            self._woven = True
            self._readers[self._first] = self._one
            self._readers[_NOBODY] = TensorrtReader(
                self._name, self._seq, self._whose, self._issues, self._numbers, self._bare
            )
            self._one.origin = Origin(rank=self._first[0], local_rank=self._first[1], host=self._first[2])
            self._last = self._first
        if not self._woven:
            self._one.feed(chunk, start, line)
        else:
            if start != self._end:
                for reader in self._readers.values():
                    reader.interrupt()
            for key, (text, places) in self._gathered(chunk, start, line).items():
                self._reader(key).take(text, places)
        self._end = start + len(chunk)

    def _gathered(self, chunk: bytes, start: int, line: int) -> dict[_Key, tuple[bytes, Gathered]]:
        """The lines of each rank."""
        if not chunk.endswith(b"\n"):
            chunk += b"\n"
        keys: list[_Key] = []
        cuts: list[int] = []  # where runs begin
        at, last, size = 0, self._last, len(chunk)
        match, known = _RUN.match, self._keys.get
        while at < size:
            m = match(chunk, at)
            key = _NOBODY if m is None else known(m[2]) or self._of_word(m[2], start + at)
            if m is not None and key != _NOBODY:
                end = m.end()
            else:
                end = chunk.find(b"\n", at) + 1
                if not begins(chunk[at : min(end, at + 80)].decode("utf-8", "replace")):
                    key = last
            if key != last or not cuts:
                keys.append(key)
                cuts.append(at)
            last, at = key, end
        self._last = last
        texts = [chunk[begin:end] for begin, end in pairwise((*cuts, size))]
        numbers = list(accumulate(map(_line_feeds, texts), initial=line + 1))
        runs: dict[_Key, list[int]] = defaultdict(list)
        for index, key in enumerate(keys):
            runs[key].append(index)
        return {key: _together(own, texts, cuts, numbers, start) for key, own in runs.items()}

    def _all(self) -> Iterable[TensorrtReader]:
        return dict.fromkeys((self._one, *self._readers.values()))

    @property
    def explained(self) -> Iterator[int]:
        """Offsets of lines marked as errors that were read."""
        for reader in self._all():
            yield from reader.explained

    def records(self) -> Iterator[Record]:
        """What each of them wrote."""
        for reader in self._all():
            yield from reader.records()


def _together(
    own: list[int], texts: list[bytes], cuts: list[int], numbers: list[int], start: int
) -> tuple[bytes, Gathered]:
    """The runs of one rank among all of a chunk at byte `start` of the input, and where they stand."""
    mine = [texts[i] for i in own]
    begins = list(accumulate(map(len, mine), initial=0))
    feeds = list(accumulate([numbers[i + 1] - numbers[i] for i in own], initial=0))
    text = b"".join(mine)
    return text, Gathered(text, begins[:-1], [start + cuts[i] for i in own], [numbers[i] for i in own], feeds[:-1])
