"""Ranks of one job: clocks, matched collectives, who is waited for; against plain loops over the events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.trace_cases.ranks import Job, computes_more, data_parallel, gradient_loop, logs_alone
from tests.support.tracing import TraceBuilder

import necropsy
from necropsy.evidence.traces import Traces
from necropsy.trace.collectives import Signature, bus_bandwidth, collectives_of, spoken, width_of
from necropsy.trace.fleet import Fleet
from necropsy.trace.overlap import communication_of, held_up
from necropsy.trace.straggler import accused, latecomers, waits_for


def fleet_of(place: Path, files: dict[str, TraceBuilder]) -> Fleet:
    for name, trace in files.items():
        trace.write(place / name)
    traces = necropsy.load(str(place / "input.d"))
    (fleet,) = traces.get(Traces).fleets
    return fleet


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all-reduce"),
        ("_allgather_base", "all-gather"),
        ("_reduce_scatter_base", "reduce-scatter"),
        ("gloo:all_reduce", "all-reduce"),
        ("alltoall_base", "all-to-all"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "send/receive"),
        ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)", "all-reduce"),
        ("gloo:barrier", "barrier"),
    ],
)
def test_names(name: str, said: str) -> None:
    assert spoken(name) == said


def test_bus_bandwidth_follows_nccl_tests() -> None:
    # nccl-tests, PERFORMANCE.md: all-reduce 2 (n - 1) / n, all-gather (n - 1) / n of the bytes over time.
    reduce = Signature("all-reduce", "0", "", 1 << 20, 1 << 20, "BFloat16", 8)
    gather = Signature("all-gather", "0", "", 1 << 17, 1 << 20, "Float", 8)
    assert bus_bandwidth(reduce, np.array([1000]))[0] == pytest.approx((1 << 21) * 1.75 / 1000)
    assert bus_bandwidth(gather, np.array([1000]))[0] == pytest.approx((1 << 22) * 0.875 / 1000)
    assert np.isnan(bus_bandwidth(reduce, np.array([0]))[0])
    assert width_of("c10::Float8_e4m3fn") == 1 and width_of("float") == 4 and width_of("Quark") == 0


@pytest.mark.parametrize("seq", [True, False])
def test_clocks_are_put_right(tmp_path: Path, seq: bool) -> None:
    fleet = fleet_of(tmp_path, data_parallel(Job(3, skew=(0.0, 41_000.0, -7_000.0), seq=seq), computes_more))
    assert fleet.offset == [0, -41_000_000, 7_000_000]
    assert fleet.residual == 0 and fleet.trusted
    (meeting,) = fleet.meetings
    assert len(meeting) == 10 and (meeting.end == meeting.end[:, :1]).all()
    assert {fleet.profiles[meeting.members[k]].origin.rank for k in meeting.last} == {1}


@pytest.mark.parametrize("seq", [True, False])
def test_recordings_that_begin_apart(tmp_path: Path, seq: bool) -> None:
    """One rank's trace lacks the first step and a half."""
    files = data_parallel(Job(2, skew=(0.0, 300.0), seq=seq), logs_alone)
    late = files["input.d/rank1.json"]
    starts = sorted(e["ts"] for e in late.events if e["name"].startswith("ProfilerStep"))
    cut = (starts[1] + starts[2]) / 2
    late.events = [e for e in late.events if e["ts"] >= cut]
    fleet = fleet_of(tmp_path, files)
    (meeting,) = fleet.meetings
    assert fleet.offset == [0, -300_000] and fleet.trusted
    assert (meeting.end == meeting.end[:, :1]).all()


def waited_by_loops(fleet: Fleet, waiting: int, suspect: int) -> int:
    """Nanoseconds one by one would take too long: interval arithmetic on sets of microsecond ticks instead."""
    p = fleet.profiles[waiting]
    kernels = p.rank.kernels
    busy = set()
    for row in range(len(kernels)):
        if not p.rank.collective[row]:
            busy |= set(range(int(kernels["start"][row]) // 1000, int(kernels["end"][row]) // 1000))
    found = set()
    for m in fleet.meetings:
        for row in range(len(m)):
            if m.start[row].argmax() == suspect:
                low, high = int(m.start[row, waiting]), int(m.start[row, suspect])
                found |= set(range(low // 1000, high // 1000))
    steps = set()
    for start, end in zip(p.steps.start, p.steps.end, strict=True):
        steps |= set(range(int(start) // 1000, int(end) // 1000))
    return len((found - busy) & steps) * 1000


def test_waiting_is_what_loops_find(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, data_parallel(Job(3), computes_more))
    for waiting in (0, 2):
        p = fleet.profiles[waiting]
        got = int(waits_for(fleet, waiting, 1).within(p.steps.start, p.steps.end).sum())
        assert got == pytest.approx(waited_by_loops(fleet, waiting, 1), abs=40_000)
    late, cause = accused(fleet)[0]
    assert late.profile.origin.rank == 1 and cause.bucket == "compute"
    assert cause.ns == 5 * 7_000_000  # five steps of 7 ms
    assert [x.profile.origin.rank for x in latecomers(fleet)] == [1]


def test_what_is_exposed_is_not_hidden(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, gradient_loop(Job(2)))
    for p in fleet.profiles:
        c = communication_of(p)
        assert c.total == 4 * 10 * 250_000 and c.hidden == 0.0
        assert held_up(p).within(p.steps.start, p.steps.end).sum() == c.exposed
        assert len(collectives_of(p)) == 40


def test_traces_of_one_rank_are_no_fleet(tmp_path: Path) -> None:
    files = data_parallel(Job(2))
    for name in ("rank0.json", "again/rank0.json"):
        files["input.d/rank0.json"].write(tmp_path / "input.d" / name)
    assert necropsy.load(str(tmp_path / "input.d")).get(Traces).fleets == []


def test_table(tmp_path: Path) -> None:
    for name, trace in data_parallel(Job(2), computes_more).items():
        trace.write(tmp_path / name)
    frame = necropsy.load(str(tmp_path)).collectives
    assert len(frame) == 20 and set(frame["match"]) == set(range(10))
    assert (frame[frame["rank"] == 1]["waited"] == 0).all() and (frame[frame["rank"] == 0]["waited"] > 0).all()
    assert set(frame["bytes"]) == {2 << 24, (2 << 24) + 2}
    by_match = frame.assign(end=frame["start"] + frame["duration"]).groupby("match")["end"]
    assert (by_match.max() == by_match.min()).all()
