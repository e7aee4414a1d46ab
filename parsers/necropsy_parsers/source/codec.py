"""Compressed formats by their magic bytes: how each is recognised and which library decodes it.

Decoders share one interface, that of `bz2.BZ2Decompressor`. The libraries are imported
when their first input shows up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol, cast

from msgspec import Struct

_SLICE: Final = 1 << 10  # bytes given to zstd at once: four bytes can stand for a block of 128 KiB
_XZ_MEMORY: Final = 512 << 20  # bytes; `xz -9` needs 65 MiB, a forged header asks for 4 GiB


class Decoder(Protocol):
    """Decodes one member (gzip), stream (xz, bzip2) or frame (zstd)."""

    @property
    def eof(self) -> bool:
        """The end of the member was reached."""

    @property
    def needs_input(self) -> bool:
        """Nothing more comes out without more input."""

    @property
    def unused_data(self) -> bytes:
        """What was fed beyond the end of the member."""

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        """Feed `data`; at most about `max_length` bytes come out, the rest at the next call."""


class Codec(Struct, frozen=True):
    """One compressed format: `starts` matches the beginning of a member."""

    title: str
    starts: re.Pattern[bytes]
    new: Callable[[], Decoder]
    errors: Callable[[], tuple[type[Exception], ...]]
    holes: bool = False  # NULs decode without an error, and a member cannot end with many of them


def _gzip() -> Decoder:
    from isal import igzip_lib

    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)


def _deflate() -> Decoder:
    from isal import igzip_lib

    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)


def _isal_errors() -> tuple[type[Exception], ...]:
    from isal import igzip_lib

    return (cast(type[Exception], igzip_lib.IsalError), EOFError)  # its stub calls it an instance


def _bzip2() -> Decoder:
    import bz2

    return bz2.BZ2Decompressor()


def _bzip2_errors() -> tuple[type[Exception], ...]:
    return (OSError, EOFError, ValueError)


def _xz() -> Decoder:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_XZ_MEMORY)


def _xz_errors() -> tuple[type[Exception], ...]:
    import lzma

    return (lzma.LZMAError, EOFError, MemoryError)


class _Zstd:
    """A zstd frame behind the common interface: the library's own bounds input, not output."""

    def __init__(self) -> None:
        import zstandard

        self._frame = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
        self._error_type = zstandard.ZstdError
        self._error: Exception | None = None
        self._waiting = b""
        self.eof = False
        self.unused_data = b""

    @property
    def needs_input(self) -> bool:
        return not (self.eof or self._waiting or self._error)

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        if self._error:
            raise self._error
        data = self._waiting + data if self._waiting else data
        parts: list[bytes] = []
        size = at = 0
        while at < len(data) and not self.eof and (max_length < 0 or size < max_length):
            try:
                part = self._frame.decompress(data[at : at + _SLICE])
            except self._error_type as error:
                self._error = error  # raised at the next call: what was decoded goes out first
                break
            at += _SLICE
            parts.append(part)
            size += len(part)
            if self._frame.eof:
                self.eof = True
                self.unused_data = self._frame.unused_data + data[at:]
        self._waiting = b"" if self.eof else data[at:]
        return b"".join(parts)


def _zstd_errors() -> tuple[type[Exception], ...]:
    import zstandard

    return (zstandard.ZstdError, MemoryError)


# Beyond the two magic bytes: method 8, no reserved flags, the values that writers use for XFL and OS.
# Strict, because it is also looked for inside damaged data.
GZIP: Final = Codec(
    "gzip",
    re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL),
    _gzip,
    _isal_errors,
    holes=True,
)
BZIP2: Final = Codec("bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), _bzip2, _bzip2_errors)
XZ: Final = Codec("xz", re.compile(rb"\xfd7zXZ\x00"), _xz, _xz_errors)
# No magic: the usual property byte, a dictionary of 2^n (or 3*2^n) bytes, and a length that is unknown or below 2^40.
LZMA: Final = Codec(
    "lzma",
    re.compile(rb"\x5d\x00\x00(?:[\x01-\xc0]\x00|\x00[\x01-\xc0])(?:\xff{8}|.{5}\x00{3})", re.DOTALL),
    _xz,
    _xz_errors,
)
# The second form is a skippable frame, which parallel and seekable writers put first.
ZSTD: Final = Codec("zstd", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), _Zstd, _zstd_errors)
DEFLATE: Final = Codec("deflate", re.compile(rb"(?!)"), _deflate, _isal_errors)  # inside zip only

_BY_MAGIC: Final = (GZIP, ZSTD, XZ, BZIP2, LZMA)
_MAGIC_ONLY: Final = re.compile(rb"\x1f\x8b\x08")  # gzip cut before its header ended, or with odd flags


def codec_of(head: bytes) -> Codec | None:
    """The compressed format that starts with `head` (some 16 bytes), or None."""
    for codec in _BY_MAGIC:
        if codec.starts.match(head):
            return codec
    return GZIP if _MAGIC_ONLY.match(head) else None
