"""What the host did, from built traces: compiling, recording, saving, loading, slow steps, other threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.trace_cases.data import training
from tests.support.trace_cases.host import (
    LIMIT,
    PIN,
    ahead,
    beside,
    broken,
    collecting,
    compiled,
    evaluating,
    looped,
    recorded,
    saving,
    work,
    wrapped,
)
from tests.support.tracing import TraceBuilder

from necropsy_parsers.formats import kineto
from necropsy_parsers.issues import Issues
from necropsy_parsers.source import open_sources
from necropsy_parsers.trace.model import Trace

from necropsy.trace import compiling, loading, pauses, threads
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


def per_step(p: Profile, bucket: str) -> list[int]:
    """Milliseconds of a bucket in each step, rounded."""
    return [round(ns / 1e6) for ns in p.partition.buckets[bucket].tolist()]


class TestActivity:
    """The host's buckets."""

    def test_saving_and_collecting_are_buckets_of_their_own(self, made: Make) -> None:
        assert per_step(made(saving([1, 3], 50_000, 4)), "saving") == [0, 50, 0, 50]
        assert per_step(made(collecting([0], 9_000)), "collecting garbage") == [9, 0, 0, 0]

    def test_recording_is_compiling(self, made: Make) -> None:
        p = made(recorded([512, 640, 512], {512}))
        assert per_step(p, "compiling") == [0, 27, 0]

    def test_a_capture_without_frames_is_recording(self, made: Make) -> None:
        def step(t: TraceBuilder, n: int) -> None:
            work(t)
            if n == 2:
                t.call("cudaStreamBeginCapture", 10)
                t.host(12_000)
                t.call("cudaStreamEndCapture", 30)

        assert per_step(made(looped(step)), "compiling") == [0, 0, 12, 0]

    def test_a_capture_that_the_recording_cut_is_none(self, made: Make) -> None:
        def step(t: TraceBuilder, n: int) -> None:
            work(t)
            if n == 3:
                t.call("cudaStreamBeginCapture", 10)
                t.host(12_000)

        assert per_step(made(looped(step)), "compiling") == [0, 0, 0, 0]

    def test_polling_an_event_is_no_wait(self, made: Make) -> None:
        def step(t: TraceBuilder, _: int) -> None:
            work(t)
            t.call("cudaEventQuery", 8_000)

        p = made(looped(step))
        assert per_step(p, "synchronising") == [0, 0, 0, 0]
        assert per_step(p, "dispatching") == [8, 8, 8, 8]

    def test_starting_workers_is_loading(self, made: Make) -> None:
        def step(t: TraceBuilder, n: int) -> None:
            if n == 1:
                with t.frame("torch/utils/data/dataloader.py(484): __iter__"):
                    t.host(70_000)
            work(t)

        assert per_step(made(looped(step)), "data loading") == [0, 70, 0, 0]


class TestCompiling:
    """Compilations, the limit, and graph breaks."""

    def test_the_compiled_function_is_the_one_that_runs_next(self, made: Make) -> None:
        found = compiling.compilations(made(compiled(LIMIT, resumed=True)))
        assert [(c.id, c.step, c.refused) for c in found] == [("3/7", 0, False), ("3/8", 1, True)]
        assert {(c.place.function, c.resumed) for c in found if c.place is not None} == {("forward", 57)}

    def test_the_limit_needs_a_step_behind_it(self, made: Make) -> None:
        p = made(compiled({3: ("3/7", 90_000.0, False), 4: ("3/8", 6_000.0, True)}))
        assert compiling.given_up(p, compiling.compilations(p)) is None

    def test_a_refusal_that_is_tried_again_is_no_limit(self, made: Make) -> None:
        p = made(compiled({1: ("3/8", 6_000.0, True), 2: ("3/8", 90_000.0, False)}))
        assert compiling.given_up(p, compiling.compilations(p)) is None

    def test_a_first_compilation_that_is_refused_is_no_limit(self, made: Make) -> None:
        p = made(compiled({1: ("3/0", 6_000.0, True)}))
        assert compiling.given_up(p, compiling.compilations(p)) is None

    def test_compiling_and_recording_are_split(self, made: Make) -> None:
        p = made(recorded([512, 640, 576], {512}))
        ns, recording = compiling.split(p, compiling.compilations(p))
        assert (ns, round(recording / 1e6)) == (0, 54)
        assert compiling.recorded_sizes(p) == [[8, 640], [8, 576]]

    def test_idle_time_around_a_break_is_that_between_its_graphs(self, made: Make) -> None:
        (found,) = compiling.breaks(made(broken(6_000)))
        assert (found.place.function, found.place.line, found.place.exactness) == ("forward", 57, "line")
        assert (found.count, found.steps, round(found.idle / 4e6)) == (4, 4, 6)


class TestPauses:
    """Slow steps."""

    def test_every_second_step(self, made: Make) -> None:
        slow = pauses.slow_steps(made(evaluating([1, 3, 5], 60_000, 6)))
        assert slow is not None
        assert (slow.steps.tolist(), slow.main, round(slow.ns / 1e6)) == ([1, 3, 5], "Python", 180)

    def test_most_steps_are_not_slow(self, made: Make) -> None:
        assert pauses.slow_steps(made(evaluating([1, 2, 3, 5], 60_000, 6))) is None

    def test_a_host_that_runs_ahead_shows_no_slow_step(self, made: Make) -> None:
        assert pauses.slow_steps(made(ahead())) is None

    def test_the_function_that_only_slow_steps_call(self, made: Make) -> None:
        p = made(evaluating([2, 5], 60_000))
        slow = pauses.slow_steps(p)
        assert slow is not None
        site = pauses.busiest(p, slow.steps)
        assert site is not None
        assert site.place is not None
        assert site.place.function == "score_samples"


class TestLoading:
    """Waits for batches."""

    def test_down_to_the_function_that_holds_the_time(self, made: Make) -> None:
        p = made(training([30_000] * 3, single=True, decode=24_000))
        assert [s.place.function for s in loading.slow_functions(p) if s.place] == ["__getitem__", "read_page"]
        p = made(training([30_000] * 3, single=True, decode=9_000))
        assert [s.place.function for s in loading.slow_functions(p) if s.place] == ["__getitem__"]

    def test_workers_by_range_and_by_frames(self, made: Make) -> None:
        assert loading.workers(made(training([9_000] * 3, single=True))) is False
        assert loading.workers(made(training([9_000] * 3))) is True
        assert loading.workers(made(training([9_000] * 3, single=True, ranges=False))) is False
        assert loading.workers(made(training([9_000] * 3, ranges=False))) is True

    def test_waiting_steps(self, made: Make) -> None:
        assert loading.waiting_steps(made(training([20_000, 300, 300, 20_000]))) == 2


class TestThreads:
    """Other threads that hold up the host."""

    def test_work_in_the_gaps(self, made: Make) -> None:
        busy = threads.coinciding(made(beside(18_000, [PIN])))
        assert busy is not None
        assert (busy.pinning, busy.steps, round(busy.ns / 4e6)) == (True, 4, 18)

    def test_work_elsewhere_and_waits(self, made: Make) -> None:
        assert threads.coinciding(made(beside(18_000, [PIN], during_kernel=True))) is None
        assert threads.coinciding(made(beside(18_000, ["board.py(33): run"], waits=True))) is None


class TestEager:
    """Functions that torch.compile was given and that run without it."""

    def test_pieces_and_reads(self, made: Make) -> None:
        (found,) = compiling.eager_functions(made(wrapped(whole=False)))
        assert (found.place.function, found.steps, found.pieces, found.reads) == ("forward", 4, 2.0, True)
        (found,) = compiling.eager_functions(made(wrapped(whole=False, reads=False)))
        assert not found.reads

    def test_a_region_around_it(self, made: Make) -> None:
        assert compiling.eager_functions(made(wrapped(whole=True))) == []

    def test_a_mixture_says_nothing(self, made: Make) -> None:
        assert compiling.eager_functions(made(compiled(LIMIT))) == []
