"""Idle time by its owners: waits, late launches, pauses, loops; nothing is owned twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.support.trace_cases import launch, sync
from tests.support.trace_cases.damage import Absolute, dependent, twice
from tests.support.tracing import TraceBuilder

from necropsy_parsers.formats import kineto
from necropsy_parsers.issues import Issues
from necropsy_parsers.source import open_sources
from necropsy_parsers.trace.model import Trace

from necropsy.trace import bubbles, corrupt, idle, late, repeats, waiting
from necropsy.trace.profile import Profile

Make = Callable[[TraceBuilder], Profile]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """The profile of a built trace."""

    def make(t: TraceBuilder) -> Profile:
        t.write(tmp_path / "trace.json")
        (source,) = open_sources([str(tmp_path / "trace.json")], Issues())
        (trace,) = kineto.parse(source, Issues(), 0)
        assert isinstance(trace, Trace)
        return Profile(trace)

    return make


class TestWaits:
    @pytest.mark.parametrize(
        ("kind", "found"),
        [
            ("item", waiting.ITEM),
            ("branch", waiting.BRANCH),
            ("mask", waiting.SIZE),
            ("cpu", waiting.COPY),
            ("synchronize", waiting.EXPLICIT),
        ],
    )
    def test_kinds(self, made: Make, kind: str, found: int) -> None:
        waits = waiting.waits_of(made(sync.training(kind)))
        assert waits.kind.tolist() == [found] * 4

    @pytest.mark.parametrize("kind", ["upload", "none", "profiler"])
    def test_what_is_no_wait_for_a_result(self, made: Make, kind: str) -> None:
        p = made(sync.training(kind, after=50))
        # One at the very end stands outside operators and is no one's in most steps.
        assert all(not waiting.recurring(p, s) for s in waiting.sites(p, (*waiting.WORDS, waiting.EXPLICIT)))

    def test_a_wait_owns_no_more_of_the_gap_than_it_lasted(self, made: Make) -> None:
        waits = waiting.waits_of(made(sync.training("item", layers=2, us=100, after=50_000)))
        assert (waits.high - waits.low <= waits.end - waits.begin).all()
        assert waits.idle[:-1].min() > 0

    def test_parts_are_disjoint(self, made: Make) -> None:
        waits = waiting.waits_of(made(sync.training("optimizer")))
        order = np.argsort(waits.low, kind="stable")
        assert (waits.low[order][1:] >= waits.high[order][:-1]).all()

    def test_the_optimizers_own_are_not_the_users(self, made: Make) -> None:
        p = made(sync.training("optimizer"))
        assert waiting.sites(p, tuple(waiting.WORDS)) == []
        (site,) = waiting.sites(p, tuple(waiting.WORDS), waiting.OPTIMIZER)
        assert site.count == 16
        assert site.place is not None
        assert site.place.function == "fit"


class TestOwners:
    @pytest.mark.parametrize(
        "t", [sync.training("item"), launch.steps(20, 120), launch.metric(14_000), launch.loading()]
    )
    def test_what_is_owned_adds_up_to_no_more_than_the_idle_time(self, made: Make, t: TraceBuilder) -> None:
        p = made(t)
        owned = waiting.idle_after(p).total + late.late_launches(p).ns + sum(b.ns for b in bubbles.bubbles_of(p))
        assert 0 < owned + p.partition.total("data loading") <= p.partition.idle

    def test_late_launches_are_counted_before_each_kernel(self, made: Make) -> None:
        found = late.late_launches(made(launch.steps(20, 120)))
        assert found.count == 4 * 14 - 1  # nothing ran before the first
        assert found.sites[0].place is not None
        assert found.sites[0].place.function == "forward"
        assert found.remaining > 0.3

    def test_a_busy_device_has_none(self, made: Make) -> None:
        p = made(launch.steps(400, 20))
        assert p.share(late.late_launches(p).ns) < 0.02

    def test_a_pause_is_the_functions(self, made: Make) -> None:
        (group,) = bubbles.bubbles_of(made(launch.metric(14_000)))
        assert group.doing == "argsort"
        assert group.place is not None
        assert group.place.function == "auc"
        assert group.steps == len(group.rows) == 5

    def test_a_wait_for_the_unknown_is_no_launch_delay(self, made: Make) -> None:
        short, long = late.delays(made(launch.slow_way(3_000, us=2_000)))
        assert not len(short.rows)
        assert long.total / len(long.rows) == pytest.approx(3e6, rel=0.02)


class TestJudgeable:
    @pytest.mark.parametrize("t", [launch.replayed(), launch.on_the_cpu()])
    def test_replays_and_cpus_are_not_judged(self, made: Make, t: TraceBuilder) -> None:
        assert not idle.judgeable(made(t))

    def test_two_clocks_are_not_judged(self, made: Make) -> None:
        t = launch.steps(20, 120)
        for event in t.events:
            if event["cat"] == "kernel":
                event["ts"] -= 500
        assert idle.skewed(made(t))
        assert not idle.judgeable(made(t))


class TestLoops:
    def test_a_loop_over_tensors(self, made: Make) -> None:
        (loop,) = repeats.small_kernels(made(launch.averaging("loop")))
        assert (len(loop.kernels), loop.mean) == (120, 2000.0)

    @pytest.mark.parametrize("kind", ["modules", "foreach"])
    def test_layers_and_lists_are_none(self, made: Make, kind: str) -> None:
        assert repeats.small_kernels(made(launch.averaging(kind))) == []

    def test_indexing(self, made: Make) -> None:
        (loop,) = repeats.indexing(made(launch.smoothing(24)))
        assert loop.often == 72
        assert repeats.indexing(made(launch.smoothing(3))) == []


class TestClocks:
    def test_neighbours_that_only_doubles_confuse(self, made: Make) -> None:
        t = Absolute()
        with t.step(0), t.op("aten::mm"):
            for _ in range(20):
                t.launch("gemm", us=30.7, call_us=2.1)
        clock = corrupt.clock_of(made(t))
        assert clock.absolute
        assert clock.rounded > 0
        assert clock.overlaps == 0

    def test_overlaps(self, made: Make) -> None:
        assert corrupt.clock_of(made(twice(-25.5))).overlaps > 0
        assert corrupt.clock_of(made(dependent(4))).overlaps == 0
