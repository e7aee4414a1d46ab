"""Memory snapshots to records: every release's layout, cut, damaged and hostile; the peak against a plain recount."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from tests.support.snapshot import ADAM, MODULE, MOVE, Allocator, cases, training

from necropsy_parsers.formats import memory_snapshot
from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Frame
from necropsy_parsers.safepickle import MAX_BYTES
from necropsy_parsers.snapshot.model import MemorySnapshot
from necropsy_parsers.source import open_sources

from necropsy.api import Loaded, analyze
from necropsy.config import Config
from necropsy.evidence.live_memory import LiveMemories
from necropsy.evidence.memory_history import MemoryHistory
from necropsy.evidence.memory_segments import MemorySegments
from necropsy.evidence.memory_snapshots import MemorySnapshots
from necropsy.provenance.holders import BACKWARD, FORWARD, NO_STACK, OPTIMIZER, WEIGHTS, part_of, user_frame


def read(path: Path) -> tuple[list[MemorySnapshot], list[str]]:
    """The devices of a file, and the kinds of issues."""
    issues = Issues()
    found: list[MemorySnapshot] = []
    for source in open_sources([str(path)], issues):
        found += [r for r in memory_snapshot.parse(source, issues, 0) if isinstance(r, MemorySnapshot)]
    return found, [i.kind for i in issues.rows()]


@pytest.mark.parametrize("form", ["list", "history", "earlier", "2.11"])
@pytest.mark.parametrize("name", ["s.pickle", "s.json"])
def test_every_layout(tmp_path: Path, form: str, name: str) -> None:
    a = training(Allocator(form=form), 3, keeps=True)
    a.write(tmp_path / name)
    (s,), issues = read(tmp_path / name)
    assert issues == []
    assert memory_snapshot.sniff((tmp_path / name).read_bytes()[:8192], name)
    assert s.allocated == sum(size for size, _ in a.live.values())
    assert sum(h.blocks for h in s.live) == len(a.live)
    held = {s.stacks[h.stack][0].line if h.stack else 0: h.bytes >> 20 for h in s.live}
    assert held == {1370: 64, 178: 128, 18: 24}
    assert len(s.history) == (0 if form == "list" else len(a.events))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(tmp_path: Path, protocol: int) -> None:
    a = training(Allocator(), 2, keeps=False)
    a.write(tmp_path / "s.pickle", protocol)
    (s,), issues = read(tmp_path / "s.pickle")
    assert (issues, s.whole, len(s.history)) == ([], True, len(a.events))


def test_devices_and_ranks(tmp_path: Path) -> None:
    training(Allocator(2), 2, keeps=False).write(tmp_path / "memory-oom-rank3-712.pickle")
    (s,), _ = read(tmp_path / "memory-oom-rank3-712.pickle")
    assert (s.device, s.origin.rank) == (2, 3)


@pytest.mark.parametrize("seed", range(6))
def test_the_peak_is_that_of_a_recount(tmp_path: Path, seed: int) -> None:
    """Undoing the history from its end gives what counting forward gives, by stack, too; also where it begins late."""
    r = random.Random(seed)
    a = Allocator()
    now: dict[int, tuple[int, int]] = {}
    best: tuple[int, dict[int, tuple[int, int]]] = (0, {})
    begin = r.choice([0, 40])
    for n in range(200):
        if now and r.random() < 0.48:
            address = r.choice(sorted(now))
            a.free(address)
            del now[address]
        else:
            size, line = r.randrange(1, 1 << 20), r.randrange(1, 6)
            now[a.alloc(size, f"fit.py({line}): f")] = (size, line)
        if n == begin:
            del a.events[:]
        total = sum(size for size, _ in now.values())
        if n >= begin and total > best[0]:
            best = (total, dict(now))
    a.write(tmp_path / "s.pickle")
    ((s,), _) = read(tmp_path / "s.pickle")
    assert s.peak is not None
    assert s.peak.bytes == best[0]
    told = {s.stacks[h.stack][0].line: h.bytes for h in s.peak.holdings if h.stack}
    assert sum(h.bytes for h in s.peak.holdings) == best[0]
    sums: dict[int, int] = {}
    for size, line in best[1].values():
        sums[line] = sums.get(line, 0) + size
    if begin == 0:
        assert told == sums
    assert all(n <= sums[line or 0] for line, n in told.items())


def test_a_pickle_that_asks_for_more_is_refused(tmp_path: Path) -> None:
    class Call:
        def __reduce__(self) -> Any:
            return (print, ("never",))

    value = Allocator().snapshot() | {"more": Call()}
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(value))
    assert read(tmp_path / "s.pickle") == ([], ["pickle/refused"])


def test_cut_and_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Live blocks stand first, so that they are known of what is read of a file."""
    a = training(Allocator(), 40, keeps=True)
    data = pickle.dumps(a.snapshot(), 4)
    (tmp_path / "s.pickle").write_bytes(data[: len(data) // 2])
    (s,), issues = read(tmp_path / "s.pickle")
    assert issues == ["snapshot/cut"]
    assert s.allocated == sum(size for size, _ in a.live.values())
    assert (s.peak, s.whole) == (None, False)
    monkeypatch.setattr(memory_snapshot, "MAX_BYTES", len(data) // 2)
    (tmp_path / "s.pickle").write_bytes(data)
    (s,), issues = read(tmp_path / "s.pickle")
    assert (issues, s.whole) == (["snapshot/large"], False)
    assert s.allocated == sum(size for size, _ in a.live.values())
    assert MAX_BYTES >= 32 << 20


@pytest.mark.parametrize("seed", range(8))
def test_damaged_values_raise_nothing(tmp_path: Path, seed: int) -> None:
    """Any field may hold anything."""
    r = random.Random(seed)
    junk: list[Any] = [None, -1, 1 << 61, "x", [], {}, [[]], {"a": 1}, True, 0.5, ["frames"], "\x1b[31m"]

    def broken(value: Any, depth: int = 0) -> Any:
        if depth and r.random() < 0.05:
            return r.choice(junk)
        if isinstance(value, dict):
            return {k: broken(v, depth + 1) for k, v in value.items() if r.random() > 0.02}
        if isinstance(value, list):
            return [broken(v, depth + 1) for v in value]
        return value

    value = json.loads(json.dumps(training(Allocator(), 2, keeps=True).snapshot()))
    (tmp_path / "s.json").write_text(json.dumps(broken(value)), encoding="utf-8")
    found, _ = read(tmp_path / "s.json")
    for s in found:
        assert all("\x1b" not in f.file for stack in s.stacks for f in stack)
    analyze([str(tmp_path / "s.json")])


def test_other_files_are_not_claimed(tmp_path: Path) -> None:
    for name, data in {
        "a.pickle": pickle.dumps({"segments": [1, 2]}), "b.json": b'{"segments": [], "total": 1}',
        "c.pickle": pickle.dumps({"pg_config": {}, "entries": [], "version": "2.10"}),
    }.items():  # fmt: skip
        assert memory_snapshot.sniff(data, name) is None


def test_tables(tmp_path: Path) -> None:
    a = cases()["fires-kept-results"]
    a.write(tmp_path / "s.pickle")
    evidence = Loaded([str(tmp_path / "s.pickle")], Config()).evidence
    (row,) = evidence.get(MemorySnapshots)
    assert (row.device, row.refused, row.events, row.peak) == (0, 1, len(a.events), (672 + 5 * 8 + 64) << 20)
    live = [r for r in evidence.get(LiveMemories) if r.when == "end"]
    assert [(r.bytes >> 20, r.part, r.line) for r in live] == [
        (480, FORWARD, 18),
        (128, OPTIMIZER, 41),
        (64, WEIGHTS, 51),
    ]
    assert sum(r.bytes for r in live) == row.allocated
    events = list(evidence.get(MemoryHistory))
    assert (len(events), events[0].action, events[-1].action) == (len(a.events), "alloc", "oom")
    assert sum(s.total for s in evidence.get(MemorySegments)) == row.reserved


def stack(*names: str) -> tuple[Frame, ...]:
    """Frames as a snapshot has them."""
    a = Allocator()
    return tuple(Frame(f["filename"], f["line"], f["name"]) for f in a._stack(names))


@pytest.mark.parametrize(
    ("names", "part"),
    [
        ((*MOVE, "fit.py(51): build"), WEIGHTS),
        (("torch/nn/modules/linear.py(106): __init__", "fit.py(9): __init__"), WEIGHTS),
        ((*ADAM, "fit.py(41): run_step"), OPTIMIZER),
        (("fit.py(18): forward", MODULE, "fit.py(38): run_step"), FORWARD),
        (("torch/nn/modules/linear.py(125): forward", MODULE, "fit.py(3): <module>"), FORWARD),
        (("at::empty_cuda", "torch::autograd::Engine::thread_main(std::shared_ptr<GraphTask>)"), BACKWARD),
        ((), NO_STACK),
        (("fit.py(7): load",), ""),
    ],
)
def test_what_stacks_say(names: tuple[str, ...], part: str) -> None:
    assert part_of(stack(*names)) == part


def test_the_innermost_frame_of_the_user() -> None:
    found = user_frame(stack("torch/nn/functional.py(9): relu", "fit.py(18): forward", MODULE, "fit.py(38): run_step"))
    assert found is not None
    assert (found.line, found.function) == (18, "forward")
    assert user_frame(stack("torch/nn/functional.py(9): relu", "at::relu")) is None


def test_a_log_of_another_refusal_is_another_story(tmp_path: Path) -> None:
    cases()["fires-kept-results"].write(tmp_path / "s.pickle")
    text = (
        "Traceback (most recent call last):\n"
        '  File "fit.py", line 18, in forward\n    return x + self.down(hidden)\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of 79.15 GiB of "
        "which 1.00 MiB is free. Including non-PyTorch memory, this process has 79.00 GiB memory in use. Of the "
        "allocated memory 78.00 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.\n"
    )
    (tmp_path / "run.log").write_text(text.format("64.00 MiB"), encoding="utf-8")
    one = {f.rule: f for f in analyze([str(tmp_path)]).findings}
    assert one["OOM009"].explained_by == one["OOM005"].fingerprint
    assert "fit.py:18 in forward" in one["OOM005"].message
    (tmp_path / "run.log").write_text(text.format("2.00 GiB"), encoding="utf-8")
    two = {f.rule: f for f in analyze([str(tmp_path)]).findings}
    assert two["OOM009"].explained_by == ""
    assert "held" not in two["OOM005"].message


def test_fixtures_are_as_made() -> None:
    """The committed cases are what the builder makes."""
    folder = Path(__file__).resolve().parents[1] / "fixtures" / "rules" / "OOM009"
    for name, a in cases().items():
        issues = Issues()
        (source,) = open_sources([str(folder / name / "input.pickle.xz")], issues)
        assert pickle.loads(b"".join(source.chunks())) == a.snapshot()
