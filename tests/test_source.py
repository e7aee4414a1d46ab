"""Paths to sources: files, folders, patterns, pipes, and what cannot be opened."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from necropsy_parsers.issues import Issues
from necropsy_parsers.source import Limits, Source, open_sources
from necropsy_parsers.source.notes import shown
from necropsy_parsers.source.stream import ByteStream

LOG = b"".join(b"step %d loss=%.3f\n" % (i, 1 / (i + 1)) for i in range(5000))

Rows = list[tuple[str, str]]


def read(*paths: str | Path, limits: Limits | None = None) -> tuple[dict[str, bytes], Rows]:
    """Every source by name, read in order, and the issues as (kind, input)."""
    issues = Issues()
    found: dict[str, bytes] = {}
    for source in open_sources([str(p) for p in paths], issues, limits or Limits()):
        assert source.name not in found
        found[source.name] = b"".join(source.chunks())
    return found, [(row.kind, row.input) for row in issues.rows()]


def detail(path: str | Path, limits: Limits | None = None) -> str:
    """The detail of the only issue that `path` makes."""
    issues = Issues()
    for source in open_sources([str(path)], issues, limits or Limits()):
        b"".join(source.chunks())
    (row,) = issues.rows()
    return row.detail


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file(here: Path) -> None:
    Path("run.log").write_bytes(LOG)
    issues = Issues()
    (source,) = open_sources(["run.log"], issues)
    assert (source.name, source.path, source.size) == ("run.log", Path("run.log"), len(LOG))
    assert (source.consumed, source.read) == (0, 0)
    assert source.head(100) == LOG[:100]
    assert source.head() == LOG[:65536]
    chunks = list(source.chunks(1000))
    assert b"".join(chunks) == LOG
    assert {len(chunk) for chunk in chunks[:-1]} == {1000}
    assert (source.consumed, source.read) == (len(LOG), len(LOG))
    assert b"".join(source.chunks()) == LOG
    assert issues.rows() == []


def test_counters_follow_the_reading(here: Path) -> None:
    Path("run.log").write_bytes(LOG)
    (source,) = open_sources(["run.log"], Issues())
    chunks = source.chunks(10)
    next(chunks)
    next(chunks)
    assert (source.consumed, source.read) == (20, 20)


def test_an_empty_file(here: Path) -> None:
    Path("run.log").touch()
    issues = Issues()
    (source,) = open_sources(["run.log"], issues)
    assert issues.rows() == []
    assert source.head() == b""
    assert list(source.chunks()) == []
    assert [(row.kind, row.input, row.count) for row in issues.rows()] == [("source/empty", "run.log", 1)]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("missing.log", "no such file or folder"),
        ("", "no such file or folder"),
        ("nothing-*.log", "no such file, and nothing matches it as a pattern"),
        ("empty", "a folder without files"),
        ("bad\0name", "embedded null byte"),
        ("loop", "too many levels of symbolic links"),
        ("run.log/x", "not a directory"),
    ],
)
def test_what_cannot_be_opened(here: Path, path: str, why: str) -> None:
    Path("empty").mkdir()
    Path("run.log").touch()
    Path("loop").symlink_to("loop")
    found, rows = read(path)
    assert (found, [kind for kind, _ in rows]) == ({}, ["source/unreadable"])
    assert why in detail(path)


def test_permission_denied(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("run.log").write_bytes(LOG)

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert read("run.log") == ({}, [("source/unreadable", "run.log")])
    assert detail("run.log") == "permission denied"


def test_a_disk_that_fails_while_it_is_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("run.log").write_bytes(LOG)

    class Failing:
        def __init__(self, *_: object) -> None:
            self.parts = [LOG[:1000]]

        def read(self, _: int) -> bytes:
            if not self.parts:
                raise OSError(errno.EIO, "Input/output error")
            return self.parts.pop()

        def close(self) -> None:
            pass

    issues = Issues()
    (source,) = open_sources(["run.log"], issues)
    monkeypatch.setattr("necropsy_parsers.source.stream.open_regular", Failing)
    assert b"".join(source.chunks()) == LOG[:1000]
    (row,) = issues.rows()
    assert (row.kind, row.detail) == ("source/unreadable", "reading failed after 1,000 bytes: Input/output error")


def test_a_file_that_becomes_a_fifo_is_not_waited_for(here: Path) -> None:
    Path("run.log").write_bytes(LOG)
    issues = Issues()
    (source,) = open_sources(["run.log"], issues)
    Path("run.log").unlink()
    os.mkfifo("run.log")
    assert b"".join(source.chunks()) == b""
    assert [row.detail for row in issues.rows()] == ["not a regular file any more"]


def make(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(path.encode())


def test_a_folder_is_walked_in_order(here: Path) -> None:
    make("run/b.log", "run/a/2.log", "run/a/1.log", "run/c.log")
    found, rows = read("run")
    assert list(found) == ["run/a/1.log", "run/a/2.log", "run/b.log", "run/c.log"]
    assert (found["run/a/2.log"], rows) == (b"run/a/2.log", [])
    assert list(read(".")[0]) == ["./run/a/1.log", "./run/a/2.log", "./run/b.log", "./run/c.log"]


def test_folders_that_hold_no_evidence_are_passed_over(here: Path) -> None:
    make("run/.git/config", "run/.necropsy/report.json", "run/node_modules/x.js", "run/__pycache__/x.pyc")
    make("run/env/pyvenv.cfg", "run/env/lib/site.py", "run/.hidden", "run/train.log")
    assert read("run") == ({"run/train.log": b"run/train.log"}, [])
    # Named, they are read.
    assert list(read("run/.git", "run/.hidden")[0]) == ["run/.git/config", "run/.hidden"]
    assert list(read("run/env")[0]) == ["run/env/lib/site.py", "run/env/pyvenv.cfg"]


def test_links_are_followed_but_not_in_circles(here: Path) -> None:
    make("run/a/x.log", "elsewhere/y.log")
    Path("run/a/up").symlink_to("..")
    Path("run/a/self").symlink_to("self")
    Path("run/latest.log").symlink_to("a/x.log")
    Path("run/nothing.log").symlink_to("missing")
    Path("run/more").symlink_to(here / "elsewhere")
    found, rows = read("run")
    assert list(found) == ["run/a/x.log", "run/more/y.log"]
    assert rows == [("source/skipped-member", "run")]  # the same file again, a link to itself, a link to nothing


def test_a_link_into_the_pseudo_files_is_not_followed(here: Path) -> None:
    make("run/train.log")
    Path("run/environment").symlink_to("/proc/self/environ")
    Path("run/devices").symlink_to("/dev/fd")
    assert read("run") == ({"run/train.log": b"run/train.log"}, [("source/skipped-member", "run")])


def test_a_file_given_twice_is_read_once(here: Path) -> None:
    make("run/train.log")
    assert read("run", "run/train.log", "run/../run/train.log") == (
        {"run/train.log": b"run/train.log"},
        [("source/skipped-member", "run/train.log"), ("source/skipped-member", "run/../run/train.log")],
    )


def test_only_regular_files_of_a_folder_are_opened(here: Path) -> None:
    make("run/train.log")
    os.mkfifo("run/pipe.log")  # opening it would wait for ever
    assert read("run") == ({"run/train.log": b"run/train.log"}, [])
    assert list(read("run/*.log")[0]) == ["run/train.log"]


def test_too_many_files(here: Path) -> None:
    make(*(f"run/{i}.log" for i in range(5)))
    limits = Limits(files=3)
    found, rows = read("run", limits=limits)
    assert (len(found), rows) == (3, [("source/limit", "run")])
    found, rows = read("run/*.log", limits=limits)
    assert (len(found), rows) == (3, [("source/limit", "run/*.log")])


def test_patterns(here: Path) -> None:
    make("run/rank1.log", "run/rank0.log", "run/rank0.txt", "run/deep/rank2.log", "odd[1].log")
    assert list(read("run/rank*.log")[0]) == ["run/rank0.log", "run/rank1.log"]
    assert list(read("run/**/*.log")[0]) == ["run/deep/rank2.log", "run/rank0.log", "run/rank1.log"]
    assert list(read("r*")[0]) == ["run/deep/rank2.log", "run/rank0.log", "run/rank0.txt", "run/rank1.log"]
    assert list(read("odd[1].log")[0]) == ["odd[1].log"]  # a file of that name comes first


def test_names_are_safe_to_print(here: Path) -> None:
    name = os.fsdecode(b"a\x1b[31m\xff.log")
    Path(name).write_bytes(LOG)
    issues = Issues()
    (source,) = open_sources(["."], issues)
    assert source.name == "./a\\x1b[31m\\udcff.log"
    assert source.path == Path(name)
    assert b"".join(source.chunks()) == LOG
    assert shown("run\u202egol.txt\u2028") == "run\\u202egol.txt\\u2028"
    assert shown("träin 失败.log") == "träin 失败.log"


READER = """
import sys
from necropsy_parsers.issues import Issues
from necropsy_parsers.source import open_sources
issues = Issues()
for source in open_sources(sys.argv[1:], issues):
    head = source.head(10)
    data = b"".join(source.chunks(1000))
    assert data.startswith(head)
    print(source.name, source.path, source.size, len(data), source.consumed, sum(data))
    print(len(b"".join(source.chunks())))
print([(row.kind, row.input) for row in issues.rows()])
"""


def piped(data: bytes, *paths: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", READER, *paths], input=data, capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_standard_input(path: str) -> None:
    assert piped(LOG, path) == [
        f"{path} None None {len(LOG)} {len(LOG)} {sum(LOG)}",
        "0",  # it can be read once
        f"[('source/unreadable', '{path}')]",
    ]


def test_standard_input_twice() -> None:
    assert piped(b"x", "-", "-")[-1] == "[('source/unreadable', '-'), ('source/skipped-member', '-')]"


def test_empty_standard_input() -> None:
    assert piped(b"", "-")[-1].startswith("[('source/empty', '-')")


def test_standard_input_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(LOG)
    with path.open("rb") as file:
        command = [sys.executable, "-c", READER, "-"]
        lines = subprocess.run(command, stdin=file, capture_output=True, check=True).stdout.decode().splitlines()
    assert lines[0] == f"- None None {len(LOG)} {len(LOG)} {sum(LOG)}"


def test_a_non_blocking_pipe_is_waited_for() -> None:
    reader, writer = os.pipe()

    def late() -> None:
        os.write(writer, b"late")
        os.close(writer)

    os.set_blocking(reader, False)
    with subprocess.Popen([sys.executable, "-c", READER, "-"], stdin=reader, stdout=subprocess.PIPE) as process:
        os.close(reader)
        assert process.stdout
        threading.Timer(0.3, late).start()
        assert process.stdout.readline() == f"- None None 4 4 {sum(b'late')}\n".encode()


def test_standard_input_replaced_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(LOG)))
    assert read("-") == ({"-": LOG}, [])
    monkeypatch.setattr(sys, "stdin", None)
    assert read("-") == ({}, [("source/unreadable", "-")])


def test_a_named_pipe(here: Path) -> None:
    os.mkfifo("pipe.log")
    writer = threading.Thread(target=lambda: Path("pipe.log").write_bytes(LOG))
    writer.start()
    assert read("pipe.log") == ({"pipe.log": LOG}, [])
    writer.join()


def test_the_null_device() -> None:
    assert read("/dev/null") == ({"/dev/null": b""}, [("source/empty", "/dev/null")])


def test_sources_can_be_collected_and_read_later(here: Path) -> None:
    make(*(f"run/{i}.log" for i in range(20)))
    sources: list[Source] = list(open_sources(["run"], Issues()))
    assert [s.head(3) for s in reversed(sources)] == [b"run"] * 20
    assert [b"".join(s.chunks()).decode() for s in sources] == [s.name for s in sources]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_exact_reads_over_blocks_of_any_size(size: int) -> None:
    data = bytes(range(50))

    def stream() -> ByteStream:
        return ByteStream(data[i : i + size] for i in range(0, 50, size))

    for count in range(1, 52):
        parts = stream()
        assert parts.peek(count) == parts.peek(count) == data[:count]
        assert (parts.position, parts.read(count), parts.position) == (0, data[:count], min(count, 50))
        parts.unread(data[:count])
        parts.skip(5)
        assert (parts.position, parts.read(100)) == (5, data[5:])
        parts.skip(1000)
        assert (parts.position, parts.read(1)) == (50, b"")
