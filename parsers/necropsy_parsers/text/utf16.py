"""8-bit text with stretches of UTF-16 in it -> UTF-8, one stretch after the other.

Two readings take turns. *8-bit* drops NULs until a stretch begins that has one in
every second byte; *UTF-16* converts until the text stops making sense as UTF-16 but
would as ASCII: appended 8-bit text reads as rare Han characters whose two bytes are
both ASCII letters, a lost byte turns `a` (U+0061) into U+6100.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

# A NUL, then three more units of the pattern; or a byte-order mark and one unit.
_ENTER: Final = re.compile(rb"\x00(?=(?:[^\x00]\x00){3})|\xff\xfe(?=[^\x00]\x00)")
_HOLE: Final = b"\0" * 64
_FEW: Final = 2_000  # places looked at one by one: the pattern, which looks at every byte, reads 110 MB a second
_NULS: Final = re.compile(rb"\x00+")
_LOOKAHEAD: Final = 6  # bytes that `_ENTER` needs behind a NUL
_LOOKAHEAD_MARK: Final = 3  # and behind 0xFF

_WINDOW: Final = 1 << 10  # bytes looked at after a change of reading; doubled at each step without one
_WINDOW_MOST: Final = 4 << 20
_TAIL_RUN: Final = 23  # characters: one more would be a run


@cache  # compiled only for inputs that hold UTF-16
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A run, and the unfinished run at the end, of units that are ASCII pairs or shifted ASCII."""
    text = (0x09, 0x0A, 0x0D, *range(0x20, 0x7F))
    pairs = "".join(chr(h << 8 | low) if low else "-" for h in text for low in (9, 10, 13, 32, 0, 126))
    shifted = "".join(chr(h << 8) for h in text)
    return re.compile(f"[{pairs}]{{24}}|[{shifted}]{{8}}"), re.compile(f"(?:[{pairs}]+|[{shifted}]+)\\Z")


class Converter:
    """Feed it blocks of bytes, get UTF-8 back; `nuls` counts the NUL bytes dropped, `hole`: a run of them."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.nuls = 0
        self.hole = False
        self._encoding = encoding  # utf-8 (8-bit, whatever it is), utf-16-le or utf-16-be
        self._held = b""  # not decidable before more bytes come
        self._window = _WINDOW
        self._last = 0x0A  # the byte before `_held`

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Convert `data`; up to about 50 of its last bytes may wait for the next call."""
        return self._run(data, final=False)

    def finish(self) -> Iterator[bytes]:
        """Convert what still waits: no more bytes will come."""
        return self._run(b"", final=True)

    def _run(self, data: bytes, *, final: bool) -> Iterator[bytes]:
        if not self._held and self._encoding == "utf-8" and _plain(data):
            if data:
                self._last = data[-1]
                yield data
            return
        at = 0
        while at < len(data) or (final and self._held):
            piece = self._held + data[at : at + self._window]
            self._held = b""
            at += self._window
            step = self._eight_bit if self._encoding == "utf-8" else self._sixteen_bit
            out, rest = step(piece, final and at >= len(data))
            if out:
                yield out
            if rest:  # the other reading goes on there, and looks at little first: it may be short
                self._window = _WINDOW
                at = min(at, len(data)) - len(rest)
                if at < 0:
                    self._held, at = rest[:-at], 0
            else:
                self._window = min(2 * self._window, _WINDOW_MOST)

    def _eight_bit(self, data: bytes, final: bool) -> tuple[bytes, bytes]:
        """Converted bytes, and the rest from where UTF-16 begins."""
        enter = None if _plain(data) else _search_enter(data)
        if enter is None:
            if not final:
                data = self._hold(data)
            if data:
                self._last = data[-1]
            return self._without_nuls(data), b""
        at = enter.start()
        before = data[at - 1] if at else self._last
        if data[at] == 0xFF:
            self._encoding, start = "utf-16-le", at + 2
        elif before == 0x0A:
            self._encoding, start = "utf-16-be", at
        else:
            # The NUL is the upper half of the character before it, which has passed already:
            # the same byte in UTF-8. After another NUL it is just a hole's last byte.
            self._encoding, start = "utf-16-le", at + 1
            self.nuls += before == 0
        return self._without_nuls(data[:at]), data[start:]

    def _hold(self, data: bytes) -> bytes:
        """Keep back a NUL or 0xFF too near to the end to be judged, and what follows it."""
        near = (
            data.find(b"\0", max(0, len(data) - _LOOKAHEAD)),
            data.find(b"\xff", max(0, len(data) - _LOOKAHEAD_MARK)),
        )
        cut = min((i for i in near if i >= 0), default=len(data))
        self._held = data[cut:]
        return data[:cut]

    def _without_nuls(self, data: bytes) -> bytes:
        parts = data.split(b"\0", _FEW)  # of few the quickest: `count` and `translate` look at every byte
        if len(parts) <= _FEW:
            self.nuls += len(parts) - 1
            self.hole = self.hole or _HOLE in data
            return b"".join(parts) if len(parts) > 1 else data
        self.nuls, self.hole = self.nuls + data.count(b"\0"), True
        return data.translate(None, b"\0")

    def _sixteen_bit(self, data: bytes, final: bool) -> tuple[bytes, bytes]:
        """Converted bytes, and the rest from where 8-bit text begins."""
        even = len(data) & ~1
        if not final and even and 0xD8 <= data[even - (1 if self._encoding == "utf-16-le" else 2)] <= 0xDB:
            even -= 2  # the first half of a surrogate pair
        text = data[:even].decode(self._encoding, "replace")
        cut, leave = (len(text), False) if text.isascii() else _where_it_stops(text, data[-1:], final)
        # Lone surrogates became U+FFFD, which is as long, so the length in bytes still fits.
        used = even if cut == len(text) else len(text[:cut].encode(self._encoding))
        if leave:
            self._encoding, self._last = "utf-8", 0x0A
            return self._clean(text[:cut]), data[used:]
        if not final:
            self._held = data[used:]
            return self._clean(text[:cut]), b""
        odd = data[even:] if data[even:] < b"\x80" else "\N{REPLACEMENT CHARACTER}".encode()
        return self._clean(text) + odd, b""

    def _clean(self, text: str) -> bytes:
        if holes := text.count("\0"):
            self.nuls += 2 * holes
            text = text.replace("\0", "")
        return text.replace("\N{ZERO WIDTH NO-BREAK SPACE}", "").encode()


def _plain(data: bytes) -> bool:
    return data.find(b"\0") < 0 and data.find(b"\xff") < 0


def _search_enter(data: bytes) -> re.Match[bytes] | None:
    """The first match of `_ENTER`, stepping over text and holes at the speed of memory.

    torch's compiler logs pickled settings (`autograd_config: ...`, 2.5 and later), so that text may hold a few NULs.
    """
    mark = data.find(b"\xff")
    at = data.find(b"\0")
    for _ in range(_FEW if mark < 0 else 0):
        if at < 0:
            return None
        if enter := _ENTER.match(data, at):
            return enter
        at = data.find(b"\0", at + 1)
    at = max(at, 0) if mark < 0 else 0
    while (hole := data.find(_HOLE, at)) >= 0:
        if enter := _ENTER.search(data, at, hole + _LOOKAHEAD + 1):
            return enter
        nuls = _NULS.match(data, hole)
        at = nuls.end() - 1 if nuls else hole + 1
    return _ENTER.search(data, at)


def _where_it_stops(text: str, last: bytes, final: bool) -> tuple[int, bool]:
    """How much of `text` is sure to be UTF-16, and whether 8-bit text follows it.

    `last` is the input's last byte, which need not be part of `text`.
    """
    run_of, tail_of = _patterns()
    done = 0
    for run in run_of.finditer(text):
        if _like_ascii(run[0]):
            return run.start(), True
        done = run.end()
    tail = tail_of.search(text, max(done, len(text) - _TAIL_RUN))
    if tail is None:
        return len(text), False
    if not final:
        return tail.start(), False
    ends = last == b"\n" and len(tail[0]) > 1  # `echo done >> log` of another shell
    if _like_ascii(tail[0]) and (ends or len(tail[0]) > 8):
        return tail.start(), True
    return len(text), False


def _like_ascii(run: str) -> bool:
    """Are a fifth of the upper halves lower-case letters? Rules in UTF-16 (U+2500, U+2550) have none."""
    return 5 * sum("\u6100" <= c < "\u7b00" for c in run) >= len(run)
