"""Compressed inputs: every format, members in a row, cut and damaged data, limits."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from necropsy_parsers.issues import Issues
from necropsy_parsers.source import Limits, open_sources
from necropsy_parsers.source.codec import GZIP
from necropsy_parsers.source.decompress import Expander
from necropsy_parsers.source.stream import ByteStream

LINES = [b"step %d loss=%.3f tokens=%d\n" % (i, 1 / (i + 1), i * i % 8191) for i in range(12_000)]
LOG = b"".join(LINES)
ONCE = gzip.compress(LOG)


def blocks_of_gzip(data: bytes) -> bytes:
    """Many small members, as `bgzip` writes."""
    return b"".join(gzip.compress(data[i : i + 20_000]) for i in range(0, len(data), 20_000))


def named_gzip(data: bytes) -> bytes:
    """A header with every optional field: extra, name, comment, header checksum."""
    head = b"\x1f\x8b\x08\x1e\x00\x00\x00\x00\x00\x03" + b"\x04\x00ABCD" + b"run.log\0" + b"a comment\0"
    plain = gzip.compress(data)
    return head + (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") + plain[10:]


def old_lzma(data: bytes) -> bytes:
    return lzma.compress(data, format=lzma.FORMAT_ALONE)


def zstd_stream(data: bytes) -> bytes:
    """A frame without its size and with a checksum, behind a skippable frame."""
    packer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip" + packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bgzip": blocks_of_gzip,
    "named gzip": named_gzip,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": old_lzma,
    "zstd": zstandard.compress,
    "zstd stream": zstd_stream,
}
DECODERS: dict[Callable[[bytes], bytes], Callable[[], Any]] = {
    bz2.compress: bz2.BZ2Decompressor,
    lzma.compress: lzma.LZMADecompressor,
    old_lzma: lzma.LZMADecompressor,
    zstandard.compress: lambda: zstandard.ZstdDecompressor().decompressobj(),
    zstd_stream: lambda: zstandard.ZstdDecompressor().decompressobj(),
}
packed = pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
# `isal` may keep back a symbol or two at a cut, which `zlib` gives.
LAST_SYMBOLS = 4


def read(path: Path, limits: Limits | None = None) -> tuple[bytes, list[tuple[str, str]]]:
    """The bytes of the one source in `path`, and the issues as (kind, detail)."""
    issues = Issues()
    (source,) = open_sources([str(path)], issues, limits or Limits())
    data = b"".join(source.chunks(70_001))
    assert source.read == len(data)
    assert source.head(50) == data[:50]
    assert all(row.count == 1 and row.input == str(path) for row in issues.rows())
    return data, [(row.kind, row.detail) for row in issues.rows()]


def write(folder: Path, data: bytes) -> Path:
    path = folder / "run.log"  # never a telling suffix: the bytes decide
    path.write_bytes(data)
    return path


@packed
def test_every_format_is_known_by_its_bytes(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = write(tmp_path, pack(LOG))
    assert read(path) == (LOG, [])
    (source,) = open_sources([str(path)], Issues())
    for _ in source.chunks():
        assert source.consumed > 0
    assert source.consumed == source.size == path.stat().st_size


@packed
def test_an_empty_member(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    assert read(write(tmp_path, pack(b""))) == (b"", [("source/empty", "")])


@packed
def test_members_in_a_row_are_read_as_one(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    one, two = LOG[:100_000], LOG[100_000:]
    if pack is old_lzma:
        return  # that format has no notion of a second stream; a cut shows as trailing bytes
    assert read(write(tmp_path, pack(one) + pack(b"") + pack(two))) == (LOG, [])


def test_a_second_old_lzma_stream_is_read_too(tmp_path: Path) -> None:
    assert read(write(tmp_path, old_lzma(b"one\n") + old_lzma(b"two\n"))) == (b"one\ntwo\n", [])


@packed
@pytest.mark.parametrize("padding", [1, 512, 300_000])
def test_padding_after_the_last_member(pack: Callable[[bytes], bytes], padding: int, tmp_path: Path) -> None:
    assert read(write(tmp_path, pack(LOG) + bytes(padding))) == (LOG, [])


@packed
def test_what_follows_the_last_member_is_reported(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    data = pack(LOG)
    text, rows = read(write(tmp_path, data + b"plain text\n"))
    assert text == LOG
    assert [kind for kind, _ in rows] == ["source/corrupt"]
    assert f"what follows byte {len(data):,} is not" in rows[0][1]


def reference(pack: Callable[[bytes], bytes], data: bytes) -> tuple[bytes, bool]:
    """What the standard library (for zstd: its library) makes of cut data; whether it ended with a member."""
    text = b""
    ended = False
    while data:
        decoder = DECODERS.get(pack, lambda: zlib.decompressobj(31))()
        text += decoder.decompress(data)
        data, ended = decoder.unused_data, decoder.eof
    return text, ended


@packed
def test_a_cut_file_gives_all_that_decodes(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    data = pack(LOG)
    lengths = []
    for at in (*range(16, 60), *random.Random(1).sample(range(60, len(data)), 25), len(data) - 1):
        text, rows = read(write(tmp_path, data[:at]))
        expected, ended = reference(pack, data[:at])
        assert text == expected[: len(text)]
        assert len(expected) - len(text) <= LAST_SYMBOLS
        assert [kind for kind, _ in rows] == ([] if ended else ["source/truncated"])
        lengths.append(len(text))
    assert len(set(lengths)) > 1


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


@packed
def test_damage_never_raises_and_never_goes_unnoticed(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    data = pack(LOG)
    for at in random.Random(2).sample(range(20, len(data)), 15):
        text, rows = read(write(tmp_path, flip(data, at)))
        if text != LOG:
            # These two carry no checksum.
            assert rows or pack in (old_lzma, zstandard.compress)


def test_all_before_the_damage_is_delivered(tmp_path: Path) -> None:
    """Also what the decoder had decoded in the call that failed."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    good = packer.compress(LOG) + packer.flush(zlib.Z_FULL_FLUSH)
    text, rows = read(write(tmp_path, good + b"\xff" * 20))  # a block type that does not exist
    assert text == LOG
    assert [kind for kind, _ in rows] == ["source/corrupt"]


def test_a_wrong_checksum_withholds_nothing(tmp_path: Path) -> None:
    data = gzip.compress(LOG)
    text, rows = read(write(tmp_path, flip(data, len(data) - 6)))
    assert text == LOG
    assert [kind for kind, _ in rows] == ["source/corrupt"]


def test_an_end_of_nuls_is_not_decoded(tmp_path: Path) -> None:
    """After a power cut a file can be as long as it should be, its last blocks never written."""
    data = gzip.compress(LOG)
    text, rows = read(write(tmp_path, data[:30_000] + bytes(40_000)))
    assert text == reference(gzip.compress, data[:30_000])[0][: len(text)]
    assert len(text) > 100_000
    ((kind, detail),) = rows
    assert (kind, detail.endswith("the last 40,000 bytes are NUL")) == ("source/truncated", True)


@pytest.mark.parametrize("count", [64, 5000, 1 << 20])
def test_nuls_within_compressed_data_are_data(count: int, tmp_path: Path) -> None:
    stored = zlib.compressobj(0, zlib.DEFLATED, 31)
    text = LOG[:1000] + bytes(count)
    assert read(write(tmp_path, stored.compress(text) + stored.flush())) == (text, [])
    assert read(write(tmp_path, zstandard.ZstdCompressor(write_checksum=False).compress(text))) == (text, [])


@pytest.mark.parametrize("name", ["gzip", "bzip2", "xz", "zstd"])
def test_a_member_appended_to_a_half_written_one_is_found(name: str, tmp_path: Path) -> None:
    """A job is killed, restarted, and appends to its own log."""
    first, second = b"first attempt\n" + LOG, b"second attempt\n" + LOG
    pack = PACKERS[name]
    text, rows = read(write(tmp_path, pack(first)[:-200] + pack(second)))
    assert text.endswith(b"\n" + second if name != "bzip2" else second)
    assert text.startswith(b"first attempt\n") or name == "bzip2"
    ((kind, detail),) = rows
    assert kind == "source/corrupt"
    assert "reading went on at byte" in detail


def test_a_damaged_block_of_many_costs_only_itself(tmp_path: Path) -> None:
    blocks = [gzip.compress(LOG[i : i + 20_000]) for i in range(0, 200_000, 20_000)]
    blocks[4] = blocks[4][:1000] + b"\xff" * 1000 + blocks[4][2000:]
    text, rows = read(write(tmp_path, b"".join(blocks)))
    assert text.startswith(LOG[:80_000])
    assert text.endswith(LOG[100_000:200_000])
    assert [kind for kind, _ in rows] == ["source/corrupt"]


def test_data_made_of_nothing_but_beginnings_ends(tmp_path: Path) -> None:
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff"
    text, rows = read(write(tmp_path, head * 20_000))
    assert (text, [kind for kind, _ in rows]) == (b"", ["source/corrupt"])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_a_bomb_is_stopped(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = write(tmp_path, pack(bytes(10_000_000)))
    text, rows = read(path, Limits(expanded_bytes=1_000_000))
    assert (len(text), rows) == (1_000_000, [("source/limit", "more than 1,000,000 bytes when decompressed")])
    limits = Limits(ratio_free_bytes=2_000_000, expansion_ratio=10)
    text, rows = read(path, limits)
    assert 2_000_000 <= len(text) <= 2_000_000 + 10 * path.stat().st_size
    assert rows == [("source/limit", "expands more than 10-fold")]
    assert read(path) == (bytes(10_000_000), [])


def test_a_forged_need_for_memory_is_refused(tmp_path: Path) -> None:
    data = bytearray(old_lzma(LOG))
    data[1:5] = (1 << 31).to_bytes(4, "little")  # the dictionary's size
    text, rows = read(write(tmp_path, bytes(data)))
    assert (text, [kind for kind, _ in rows]) == (b"", ["source/limit"])


@pytest.mark.parametrize(
    "data",
    [
        b"\x1f\x8b",
        b"BZh9 is how this line begins\n",
        b"BZh",
        b"]\0\0 is no header",
        b"\xfd7zXY",
        b"\x28\xb5\x2f",
        LOG,
    ],
)
def test_what_only_looks_compressed_is_plain(data: bytes, tmp_path: Path) -> None:
    assert read(write(tmp_path, data)) == (data, [])


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (gzip.compress(ONCE), "compressed twice"),
        (b"7z\xbc\xaf\x27\x1c" + bytes(20), "7-Zip"),
        (b"Rar!\x1a\x07\x01\x00" + bytes(20), "RAR"),
        (b"\x04\x22\x4d\x18" + bytes(20), "LZ4"),
    ],
)
def test_what_is_not_opened_says_so(data: bytes, what: str, tmp_path: Path) -> None:
    text, rows = read(write(tmp_path, data))
    assert text == (ONCE if what == "compressed twice" else data)
    ((kind, detail),) = rows
    assert kind == "source/skipped-member"
    assert what in detail


@pytest.mark.parametrize("place", [42, 44, 45])  # of the member's offset in its directory entry
@pytest.mark.parametrize("prefix", [0, 9])
def test_a_zip_directory_with_impossible_offsets(place: int, prefix: int, tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", LOG)
        archive.writestr("b", LOG)
    data = bytearray(file.getvalue())
    data[data.index(b"PK\x01\x02") + place] = 0xFF
    end = data.index(b"PK\x05\x06")
    start = int.from_bytes(data[end + 16 : end + 20], "little") + prefix
    data[end + 16 : end + 20] = start.to_bytes(4, "little")  # beyond the truth: offsets then count from before the file
    issues = Issues()
    found = {s.name[-1]: b"".join(s.chunks()) for s in open_sources([str(write(tmp_path, bytes(data)))], issues)}
    assert found == {"a": b"", "b": LOG if not prefix else b""}
    assert {row.kind for row in issues.rows()} == {"source/corrupt"}


def test_a_forged_tar_header_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    path = write(tmp_path, info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    asked: list[int] = []
    read_exactly = ByteStream.read

    def spy(stream: ByteStream, count: int) -> bytes:
        asked.append(count)
        return read_exactly(stream, count)

    monkeypatch.setattr(ByteStream, "read", spy)
    issues = Issues()
    assert list(open_sources([str(path)], issues)) == []
    assert [row.kind for row in issues.rows()] == ["source/corrupt"]
    assert max(asked) <= 1 << 20


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=5),
    st.integers(1, 50),
    st.integers(0, 400),
    st.booleans(),
)
def test_a_pipe_gives_the_same_as_a_file(texts: list[bytes], step: int, cut: int, replay: bool) -> None:
    """Blocks of any size, with or without a second look at the data, cut anywhere."""
    data = b"".join(map(gzip.compress, texts))[: 400 - cut]

    def expanded(size: int) -> tuple[bytes, list[str]]:
        notes: list[str] = []
        stream = ByteStream(data[i : i + size] for i in range(0, len(data), size))
        expander = Expander(
            GZIP,
            stream,
            lambda kind, _: notes.append(kind),
            replay=(lambda at: ByteStream([data[at:]])) if replay else None,
        )
        return b"".join(expander.blocks()), notes

    assert expanded(step) == expanded(1000)
    assert b"".join(texts).startswith(expanded(step)[0])
