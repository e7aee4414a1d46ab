"""Tar and zip archives: members in order, from files and pipes, cut, damaged, forged, too large."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from necropsy_parsers.issues import Issues
from necropsy_parsers.source import Limits, Source, open_sources

LOG = b"".join(b"step %d loss=%.3f\n" % (i, 1 / (i + 1)) for i in range(3000))
NOISE = random.Random(3).randbytes(20_000)
MEMBERS = {
    "run/rank0.log": LOG,
    "run/empty.log": b"",
    "run/rank1.log.gz": gzip.compress(LOG, mtime=0),
    "run/noise.bin": NOISE,
    "run/block.log": LOG[:1024],  # a multiple of tar's blocks
    "run/rank2.log": LOG[::-1],
}
TEXTS = {**MEMBERS, "run/rank1.log.gz": LOG}

Rows = list[tuple[str, str]]


def tar(members: dict[str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


class Unseekable(io.RawIOBase):
    """A pipe: makes `zipfile` write sizes and checksums behind the members."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        self.data += bytes(data)
        return len(data)


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def zip_to_pipe(members: dict[str, bytes]) -> bytes:
    file = Unseekable()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.data


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
    "tar.zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
ARCHIVES = {
    **{name: pack(tar(MEMBERS)) for name, pack in PACKERS.items()},
    "gnu tar": tar(MEMBERS, format=tarfile.GNU_FORMAT),
    "old tar": tar(MEMBERS, format=tarfile.USTAR_FORMAT),
    "zip": zipped(MEMBERS),
    "stored zip": zipped(MEMBERS, zipfile.ZIP_STORED),
    "bzip2 zip": zipped(MEMBERS, zipfile.ZIP_BZIP2),
    "streamed zip": zip_to_pipe(MEMBERS),
}
every = pytest.mark.parametrize("data", ARCHIVES.values(), ids=ARCHIVES)


def sources(path: Path, issues: Issues, limits: Limits | None = None) -> dict[str, Source]:
    """The sources by member name, none of them read."""
    return {s.name.removeprefix(f"{path}!"): s for s in open_sources([str(path)], issues, limits or Limits())}


def read(path: Path, limits: Limits | None = None) -> tuple[dict[str, bytes], Rows]:
    """Each member's bytes, read in order, and the issues as (kind, member or "")."""
    issues = Issues()
    found = {}
    for source in open_sources([str(path)], issues, limits or Limits()):
        head = source.head(100)
        found[source.name.removeprefix(f"{path}!")] = data = b"".join(source.chunks(7000))
        assert data.startswith(head)
    return found, [(row.kind, row.input.removeprefix(str(path)).removeprefix("!")) for row in issues.rows()]


def write(folder: Path, data: bytes) -> Path:
    path = folder / "bundle"
    path.write_bytes(data)
    return path


@every
def test_members_are_sources(data: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, data)
    found, rows = read(path)
    assert found == TEXTS
    assert list(found) == list(TEXTS)
    assert rows == [("source/empty", "run/empty.log")]
    for source in open_sources([str(path)], Issues()):
        assert source.path == path
        for _ in source.chunks(1000):
            assert source.size is None or 0 < source.consumed <= source.size
        assert source.size in (None, source.consumed)


@every
def test_members_read_out_of_order(data: bytes, tmp_path: Path) -> None:
    """Slow for compressed tars, but right."""
    found = sources(write(tmp_path, data), Issues())
    for name in reversed(TEXTS):
        assert found[name].head(10) == TEXTS[name][:10]
        assert b"".join(found[name].chunks()) == TEXTS[name]
        assert b"".join(found[name].chunks()) == TEXTS[name]


@every
def test_members_left_unread_or_half_read(data: bytes, tmp_path: Path) -> None:
    names = []
    for number, source in enumerate(open_sources([str(write(tmp_path, data))], Issues())):
        names.append(source.name.split("!")[1])
        if number % 3 == 1:
            source.head(10)
        elif number % 3 == 2:
            next(source.chunks(5), None)
    assert names == list(TEXTS)


READER = """
import sys, zlib
from necropsy_parsers.issues import Issues
from necropsy_parsers.source import open_sources
issues = Issues()
for number, source in enumerate(open_sources(["-"], issues)):
    if number % 2 == int(sys.argv[1]):
        print(source.name, source.path, zlib.crc32(b"".join(source.chunks())))
for row in issues.rows():
    print(row.kind, row.input)
"""


@every
@pytest.mark.parametrize("first", [0, 1])
def test_archives_on_standard_input(data: bytes, first: int) -> None:
    command = [sys.executable, "-c", READER, str(first)]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    expected = [f"-!{n} None {zlib.crc32(t)}" for i, (n, t) in enumerate(TEXTS.items()) if i % 2 == first]
    if first == 1:
        expected.append("source/empty -!run/empty.log")
    assert (done.stdout.decode().splitlines(), done.stderr) == (expected, b"")


def test_a_member_kept_for_too_long_does_not_give_other_bytes(tmp_path: Path) -> None:
    """Reading on after the next member was asked for ends with an issue."""
    path = write(tmp_path, gzip.compress(tar({"a": NOISE * 100, "b": LOG, "c": LOG})))
    issues = Issues()
    walk = open_sources([str(path)], issues)
    chunks = next(walk).chunks(1000)
    data = next(chunks)
    assert next(walk).name.endswith("!b")
    data += b"".join(chunks)
    assert (NOISE * 100).startswith(data)
    assert [row.kind for row in issues.rows()] == ["source/unreadable"]


def test_what_is_no_regular_file_is_passed_over(tmp_path: Path) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, kind in (("run", tarfile.DIRTYPE), ("link", tarfile.SYMTYPE), ("pipe", tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(name)
            info.type = kind
            info.linkname = "/etc/hostname"
            archive.addfile(info)
        archive.addfile(tarfile.TarInfo("x"))
    expected = [("source/skipped-member", ""), ("source/empty", "x")]
    assert read(write(tmp_path, file.getvalue())) == ({"x": b""}, expected)
    link = zipfile.ZipInfo("link")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as bundle:
        bundle.writestr(link, "/etc/hostname")
        bundle.writestr("run/", "")
        bundle.writestr("x", LOG)
    assert read(write(tmp_path, packed.getvalue())) == ({"x": LOG}, [("source/skipped-member", "")])


@pytest.mark.parametrize("make", [tar, zipped, zip_to_pipe])
def test_hostile_names_are_only_names(make: Callable[[dict[str, bytes]], bytes], tmp_path: Path) -> None:
    shown = {"a\x1b]0;x\x07.log": "a\\x1b]0;x\\x07.log", "x\u202egol.txt": "x\\u202egol.txt"}
    names = ["../../etc/passwd", "/etc/passwd", *shown, "träin.log", "n" * 5000]
    found, rows = read(write(tmp_path, make(dict.fromkeys(names, LOG))))
    assert (list(found), rows) == ([shown.get(name, name) for name in names], [])
    assert set(found.values()) == {LOG}
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]  # nothing was unpacked


def test_members_of_one_name_are_told_apart(tmp_path: Path) -> None:
    data = tar({"a.log": b"one"})[:1024] + tar({"a.log": b"two"})
    assert read(write(tmp_path, data))[0] == {"a.log": b"one", "a.log#2": b"two"}


@pytest.mark.parametrize("inner", [tar({"x": LOG}), zipped({"x": LOG}), gzip.compress(tar({"x": LOG}))])
def test_an_archive_in_an_archive_is_reported(inner: bytes, tmp_path: Path) -> None:
    found, rows = read(write(tmp_path, tar({"inner": inner})))
    assert list(found) == ["inner"]
    assert rows == [("source/skipped-member", "inner")]


@pytest.mark.parametrize("name", ["model/data.pkl", "archive/data.pkl", "model/archive_format", "scale.npy"])
def test_a_checkpoint_is_one_source(name: str, tmp_path: Path) -> None:
    data = zipped({name: NOISE, "model/data/0": NOISE}, zipfile.ZIP_STORED)
    path = write(tmp_path, data)
    assert read(path) == ({str(path): data}, [])


def test_an_empty_archive(tmp_path: Path) -> None:
    assert read(write(tmp_path, zipped({}))) == ({}, [("source/empty", "")])


def test_sparse_files_get_their_holes_back(tmp_path: Path) -> None:
    parts = [(0, 512), (1 << 20, 512)]
    header = tarfile.TarInfo("sparse.log")
    header.size, header.type = 1024, tarfile.GNUTYPE_SPARSE
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    for i, (offset, length) in enumerate(parts):
        block[386 + 24 * i : 410 + 24 * i] = b"%011o\0%011o\0" % (offset, length)
    block[482:495] = b"\0%011o\0" % (parts[-1][0] + 512)
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + 256 + sum(block[156:512]))
    data = bytes(block) + LOG[:1024] + tar({"next": LOG})
    text = LOG[:512] + bytes((1 << 20) - 512) + LOG[512:1024]
    assert read(write(tmp_path, data)) == ({"sparse.log": text, "next": LOG}, [])
    found, rows = read(write(tmp_path, data), Limits(ratio_free_bytes=10_000, expansion_ratio=10))
    assert (len(found["sparse.log"]), rows) == (10_000 + 10 * 1024, [("source/limit", "sparse.log")])


@every
def test_a_cut_archive_gives_all_that_is_there(data: bytes, tmp_path: Path) -> None:
    for at in (*random.Random(4).sample(range(600, len(data) - 1), 25), 600, len(data) * 9 // 10):
        found, rows = read(write(tmp_path, data[:at]))
        kinds = {kind for kind, _ in rows} - {"source/empty"}
        if found == {str(tmp_path / "bundle"): b""}:  # not even one block decodes
            assert kinds == {"source/truncated"}
            continue
        *whole, last = list(found.items()) or [("", b"")]
        assert [name for name, _ in whole] == list(TEXTS)[: len(whole)]
        assert all(text == TEXTS[name] for name, text in whole)
        assert not last[0] or TEXTS[last[0]].startswith(last[1])
        end_of_tar_only = len(found) == len(TEXTS) and last[1] == TEXTS[last[0]]
        assert end_of_tar_only or kinds == {"source/truncated"}


@every
def test_a_damaged_archive_never_raises(data: bytes, tmp_path: Path) -> None:
    chance = random.Random(5)
    for _ in range(25):
        wrong = bytearray(data)
        for at in chance.sample(range(len(data)), chance.choice([1, 3, 30])):
            wrong[at] = chance.randrange(256)
        found, rows = read(write(tmp_path, bytes(wrong)))
        # Only the headers of a plain tar have checksums; of a zip, only the data.
        unchecked = data[257:262] == b"ustar" or wrong[:10] != data[:10]
        intact = list(found.values()) == list(TEXTS.values())
        assert intact or unchecked or {kind for kind, _ in rows} - {"source/empty"}


def test_members_behind_a_damaged_tar_header_are_found(tmp_path: Path) -> None:
    data = bytearray(tar(MEMBERS))
    at = bytes(data).index(b"run/noise.bin")
    data[at : at + 13] = b"XXXXXXXXXXXXX"
    found, rows = read(write(tmp_path, bytes(data)))
    assert found == {name: text for name, text in TEXTS.items() if name != "run/noise.bin"}
    assert rows[-1] == ("source/corrupt", "")


def test_members_behind_damage_in_a_zip_without_directory_are_found(tmp_path: Path) -> None:
    data = zipped(MEMBERS, zipfile.ZIP_STORED)
    at = data.index(b"PK\x03\x04", 200)  # run/empty.log
    cut = data[: at + 1] + b"X" + data[at + 2 : data.index(b"PK\x01\x02")]
    found, rows = read(write(tmp_path, cut))
    assert list(found) == [name for name in TEXTS if name != "run/empty.log"]
    assert rows == [("source/corrupt", ""), ("source/truncated", "")]


def test_a_wrong_checksum_in_a_zip_withholds_nothing(tmp_path: Path) -> None:
    data = bytearray(zipped({"a": LOG, "b": LOG}, zipfile.ZIP_STORED))
    data[100] ^= 1
    found, rows = read(write(tmp_path, bytes(data)))
    assert found["b"] == LOG
    assert len(found["a"]) == len(LOG)
    assert rows == [("source/corrupt", "a")]


def test_encrypted_and_foreign_members_are_named(tmp_path: Path) -> None:
    data = bytearray(zipped({"secret": LOG, "lzma": LOG, "plain": LOG}))
    for name, at, value in ((b"secret", 8, 1), (b"lzma", 10, 98)):
        data[data.rindex(name) - 46 + at] = value  # in the directory
        data[data.index(name) - 30 + at - 2] = value  # in the member's header
    for cut in (len(data), data.index(b"PK\x01\x02")):
        found, rows = read(write(tmp_path, bytes(data[:cut])))
        assert found == {"plain": LOG}
        assert rows[0] == ("source/skipped-member", "")


@pytest.mark.parametrize("name", ["tar", "tar.gz", "zip", "streamed zip"])
def test_too_many_members(name: str, tmp_path: Path) -> None:
    found, rows = read(write(tmp_path, ARCHIVES[name]), Limits(members=2))
    assert list(found) == list(TEXTS)[:2]
    assert ("source/limit", "") in rows


@pytest.mark.parametrize("name", ["tar.gz", "zip", "streamed zip"])
def test_a_bomb_in_an_archive_is_stopped(name: str, tmp_path: Path) -> None:
    members = {"a": LOG, "bomb": bytes(5_000_000), "b": LOG}
    data = {"tar.gz": gzip.compress(tar(members)), "zip": zipped(members), "streamed zip": zip_to_pipe(members)}[name]
    found, rows = read(write(tmp_path, data), Limits(expanded_bytes=1_000_000))
    assert found["a"] == LOG
    assert 900_000 < len(found["bomb"]) <= 1_000_000
    assert {("source/limit", "bomb"), ("source/limit", "")} <= set(rows)
    # Members that are small each, and too much together.
    many = {str(i): bytes(100_000) for i in range(100)}
    found, rows = read(write(tmp_path, zipped(many)), Limits(ratio_free_bytes=150_000, expansion_ratio=50))
    assert sum(map(len, found.values())) <= 150_000 + 50 * len(zipped(many))
    assert rows[-1] == ("source/limit", "")


def test_overlapping_members_share_one_budget(tmp_path: Path) -> None:
    """A directory of many entries that all point at the same compressed bytes."""
    data = zipped({"kernel": bytes(1_000_000)})
    start = data.index(b"PK\x01\x02")
    entry = data[start : data.index(b"PK\x05\x06")]
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1000, 1000, 1000 * len(entry), start, 0)
    found, rows = read(write(tmp_path, data[:start] + entry * 1000 + end), Limits(expanded_bytes=3_500_000))
    assert sum(map(len, found.values())) == 3_500_000
    assert {kind for kind, _ in rows} == {"source/limit"}


def test_a_directory_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    data = zipped({str(i): LOG[:100] for i in range(3000)})
    found, rows = read(write(tmp_path, data), Limits(members=500))
    assert len(found) == 500
    assert ("source/limit", "") in rows


@pytest.mark.parametrize(
    ("kind", "size"), [(b"x", b"77777777777\0"), (b"L", b"77777777777\0"), (b"0", b"\xff" * 12), (b"x", b"\xff" * 12)]
)
def test_forged_sizes_in_tar_headers(kind: bytes, size: bytes, tmp_path: Path) -> None:
    """Sizes of 8 GiB and below zero, of files and of extended headers."""
    block = bytearray(tar({"forged": LOG}))
    block[124:136], block[156:157] = size, kind
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + 256 + sum(block[156:512]))
    found, rows = read(write(tmp_path, tar({"before": LOG})[: 512 + len(LOG) + -len(LOG) % 512] + bytes(block)))
    assert found["before"] == LOG
    assert {kind for kind, _ in rows} & {"source/corrupt", "source/truncated"}


def test_a_chain_of_extended_headers(tmp_path: Path) -> None:
    """Each is read within the one before; `tarfile` recurses."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 512
    data = (header.tobuf(tarfile.USTAR_FORMAT) + bytes(512)) * 3000
    found, rows = read(write(tmp_path, data + tar({"after": LOG})))
    assert found in ({}, {"after": LOG})
    assert ("source/corrupt", "") in rows


def test_digits_without_end_in_an_extended_header(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 512 * 1024
    data = header.tobuf(tarfile.USTAR_FORMAT) + b"1" * header.size + tar({"after": LOG})
    assert read(write(tmp_path, data)) == ({"after": LOG}, [("source/corrupt", "")])
