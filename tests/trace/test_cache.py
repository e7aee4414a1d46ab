"""Traces that are kept: the second reading tells the same, and anything odd means reading again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.tracing import TraceBuilder

from necropsy_parsers.formats import kineto
from necropsy_parsers.trace.model import Trace

from necropsy import trace_cache
from necropsy.api import Loaded
from necropsy.config import Config
from necropsy.evidence.traces import Traces


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache's folder; small traces are kept, too."""
    monkeypatch.setenv("NECROPSY_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(trace_cache, "EVENTS", 100)
    monkeypatch.setattr(trace_cache, "SMALLEST", 100)
    monkeypatch.setattr(trace_cache, "_END", 50)
    return tmp_path / "kept"


def script(steps: int = 60) -> str:
    t = TraceBuilder()
    for n in range(steps):
        with t.step(n), t.frame("train.py(4): main"), t.op("aten::mm", dims=[[8, 8], [8, n % 5]]):
            t.launch(f"k{n % 9}", 11.5)
    return t.text()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A trace whose name tells its rank, with an event that has to be repaired."""
    path = tmp_path / "rank3.json"
    path.write_text(script().replace('"dur": 11.5', '"dur": nan', 1), encoding="utf-8")
    return path


def read(*paths: Path, **settings: Any) -> tuple[list[Any], Any]:
    """All that the traces say, and the issues."""
    loaded = Loaded([str(p) for p in paths], Config(**settings))
    told = [
        (t.anchor, t.origin, t.seq, t.meta, t.names, t.texts, t.processes, t.threads, t.losses, t.events, columns_of(t))
        for t in loaded.evidence.get(Traces).traces
    ]
    return told, [(i.kind, i.input, i.count) for i in loaded.issues.rows()]


def columns_of(trace: Trace) -> dict[str, dict[str, list[int]]]:
    return {kind: {name: a.tolist() for name, a in c.arrays.items()} for kind, c in trace.kinds.items()}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the traces that were decoded."""
    names: list[str] = []
    parse = kineto.parse

    def counting(source: Any, *rest: Any) -> Iterator[Any]:
        names.append(Path(source.name).name)
        return parse(source, *rest)

    monkeypatch.setattr(kineto, "parse", counting)
    return names


def test_the_second_reading_is_the_same_and_decodes_nothing(kept: Path, file: Path, decoded: list[str]) -> None:
    first = read(file)
    assert first[0][0][1].rank == 3
    assert [kind for kind, _, _ in first[1]] == ["trace/repaired"]
    assert read(file) == first
    assert decoded == ["rank3.json"]
    assert [p.suffix for p in kept.iterdir()] == [".trace"]


def test_several_processes_share_it(kept: Path, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "rank4.json"
    other.write_text(script(70), encoding="utf-8")
    first = read(file, other, jobs=2)
    assert len(list(kept.iterdir())) == 2
    assert read(file, other) == first == read(file, other, jobs=2)


def test_a_trace_under_another_name_is_its_own(kept: Path, file: Path, tmp_path: Path, decoded: list[str]) -> None:
    read(file)
    moved = file.rename(tmp_path / "rank5.json")
    assert read(moved)[0][0][1].rank == 5
    assert decoded == ["rank3.json", "rank5.json"]


def test_what_changed_is_read_again(kept: Path, file: Path, decoded: list[str]) -> None:
    state = file.stat()
    read(file)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("aten::mm", "aten::bm", 1), encoding="utf-8")
    assert "aten::bm" in read(file)[0][0][4]
    file.write_text(text.replace('"schemaVersion": 1', '"schemaVersion": 2'), encoding="utf-8")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))  # as copying with times does: only its begin tells
    assert read(file)[0][0][3].schema == 2
    assert len(decoded) == 3


def test_another_reader_reads_again(
    kept: Path, file: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read(file)
    monkeypatch.setattr(trace_cache, "_reader", lambda: "of another release")
    read(file)
    assert len(decoded) == 2


@pytest.mark.parametrize("place", [0, 9, 30, 200, 0.3, 0.6, 0.9, -6, -1])
def test_a_damaged_one_is_read_again(kept: Path, file: Path, decoded: list[str], place: float) -> None:
    first = read(file)
    (entry,) = kept.iterdir()
    data = bytearray(entry.read_bytes())
    data[int(place * len(data)) if isinstance(place, float) else place] ^= 0x41
    entry.write_bytes(data)
    assert read(file) == first
    assert len(decoded) == 2
    assert read(file) == first
    assert len(decoded) == 2


@pytest.mark.parametrize("size", [0, 5, 40, 2000, -1])
def test_a_cut_one_is_read_again(kept: Path, file: Path, decoded: list[str], size: int) -> None:
    first = read(file)
    (entry,) = kept.iterdir()
    entry.write_bytes(entry.read_bytes()[:size])
    assert read(file) == first
    assert len(decoded) == 2


@pytest.mark.skipif(os.name != "posix", reason="files have owners on POSIX")
def test_a_file_of_another_user_is_not_believed(
    kept: Path, file: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read(file)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert read(file) == first
    assert len(decoded) == 2


@pytest.mark.skipif(os.name != "posix", reason="pipes with names are of POSIX")
def test_a_pipe_is_not_opened_twice(kept: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert trace_cache.key_of(str(tmp_path / "pipe.json")) == ""


def test_it_can_be_switched_off(kept: Path, file: Path, decoded: list[str]) -> None:
    assert read(file, cache=False) == read(file, cache=False)
    assert not kept.exists()
    assert len(decoded) == 2


def test_small_traces_are_not_kept(kept: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_cache, "EVENTS", 100_000)
    read(file)
    assert not kept.exists()


def test_what_was_used_longest_ago_goes_first(
    kept: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(file)
    (first,) = kept.iterdir()
    size = first.stat().st_size
    os.utime(first, (1, 1))
    monkeypatch.setattr(trace_cache, "MOST", int(2.5 * size))
    for n in range(3):
        other = tmp_path / f"other{n}.json"
        other.write_text(script(), encoding="utf-8")
        read(other)
    assert len(list(kept.iterdir())) == 2
    assert not first.exists()


def test_a_folder_that_cannot_be_made_costs_nothing(kept: Path, file: Path, decoded: list[str]) -> None:
    kept.write_text("a file", encoding="utf-8")
    assert read(file) == read(file)
    assert len(decoded) == 2


def test_only_its_owner_may_read_it(kept: Path, file: Path) -> None:
    read(file)
    (entry,) = kept.iterdir()
    if os.name == "posix":
        assert entry.stat().st_mode & 0o077 == kept.stat().st_mode & 0o077 == 0
