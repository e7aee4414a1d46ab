"""Marks of a capture in traces: findings name the marked line, and nothing else of the report changes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from tests.support.tracing import TraceBuilder

from necropsy_parsers.trace.marks import place_of

from necropsy.api import Loaded, analyze
from necropsy.config import Config
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding
from necropsy.trace.profile import Profile

SOURCE = "def fit():\n    out = net(x)\n    log(\n        out.item(),\n    )\n\n\ndef warm():\n    pass\n"


def a_run(*, marks: bool, compiled: bool = False, steps: int = 4) -> TraceBuilder:
    """Steps of `fit` (train.py): line 2 calls the model of net.py, line 4 waits for its result."""
    t = TraceBuilder()

    def at(place: str) -> ExitStack:
        stack = ExitStack()
        if marks:
            stack.enter_context(t.mark(place))
        return stack

    t.events.append({"ph": "X", "cat": "python_function", "name": "train.py(9): <module>", "pid": t.pid, "tid": t.pid,
                     "ts": t.now, "dur": 1e7, "args": {"Python id": 0, "Python parent id": None}})  # fmt: skip
    with t.frame("train.py(8): warm"):
        t.host(5)
    for n in range(steps):
        with t.step(n), t.frame("train.py(1): fit"):
            with at("train.py:2"), t.frame("torch/nn/modules/module.py(1773): _call_impl", "net.py(10): forward"):
                for k in range(13):
                    with ExitStack() as inside:
                        if not compiled:
                            inside.enter_context(at("net.py:11"))
                        inside.enter_context(t.op("aten::mm", sequence=n * 13 + k))
                        t.launch("gemm", us=600)
            with at("train.py:4"), t.op("aten::item"), t.op("aten::_local_scalar_dense"):
                t.copy("DtoH (Device -> Pageable)", 4, 2)
                t.wait()
            with at("train.py:5"):
                t.host(2500)
    return t


def report_of(tmp_path: Path, t: TraceBuilder, source: str = "") -> list[Finding]:
    """The findings about a trace, with sources beside it or none."""
    t.write(tmp_path / "trace.json")
    if source:
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / "train.py").write_text(source, encoding="utf-8")
    config = Config(source=(str(tmp_path / "src"),)) if source else Config()
    return analyze([str(tmp_path / "trace.json")], config=config).findings


def profile_of(tmp_path: Path, t: TraceBuilder) -> Profile:
    """The trace's profile."""
    t.write(tmp_path / "trace.json")
    return Loaded([str(tmp_path / "trace.json")], Config()).evidence.get(Traces).profiles[0]


def waits(found: list[Finding]) -> Finding:
    """The finding about the wait."""
    (finding,) = [f for f in found if f.rule == "SYN002"]
    return finding


def test_a_wait_is_told_by_its_marked_line(tmp_path: Path) -> None:
    place = waits(report_of(tmp_path, a_run(marks=True))).code[0]
    assert (place.file, place.line, place.function, place.exactness) == ("train.py", 4, "fit", "line")
    assert place.how == "marked while it ran"


def test_without_marks_it_is_the_function(tmp_path: Path) -> None:
    place = waits(report_of(tmp_path, a_run(marks=False))).code[0]
    assert (place.line, place.exactness) == (1, "function")


def test_the_text_is_of_the_source_that_ran(tmp_path: Path) -> None:
    assert waits(report_of(tmp_path, a_run(marks=True), SOURCE)).code[0].text == "out.item(),"
    moved = waits(report_of(tmp_path, a_run(marks=True), "\n" + SOURCE)).code[0]
    assert (moved.line, moved.text) == (4, "")


def test_marks_change_no_step_no_link_and_no_bucket(tmp_path: Path) -> None:
    with_marks, plain = (profile_of(tmp_path, a_run(marks=m)) for m in (True, False))
    assert len(with_marks.steps) == len(plain.steps)
    assert with_marks.rank.main_thread == plain.rank.main_thread
    assert [with_marks.rank.named(with_marks.rank.ops, i) for i in range(len(with_marks.rank.ops))] == [
        plain.rank.named(plain.rank.ops, i) for i in range(len(plain.rank.ops))
    ]
    assert not with_marks.rank.where(with_marks.rank.annotations, "necropsy:").any()
    assert np.array_equal(with_marks.rank.op_of(with_marks.rank.kernels), plain.rank.op_of(plain.rank.kernels))
    # The only difference is the time that the marks themselves take on the host.
    for bucket, ns in plain.partition.buckets.items():
        assert abs(int(with_marks.partition.buckets[bucket].sum()) - int(ns.sum())) < 0.01 * plain.judged


def test_a_call_without_marks_is_not_given_its_callers(tmp_path: Path) -> None:
    """Lines of compiled functions are not marked; the caller's mark is open around all that they do."""
    from necropsy.trace.marks import marked_lines

    p = profile_of(tmp_path, a_run(marks=True, compiled=True))
    sites = p.work_sites(p.rank.kernels, np.ones(len(p.rank.kernels), np.bool_))
    assert [s.place.function for s in sites if s.place is not None] == ["forward"]
    assert marked_lines(sites[0].place.rests) == []  # type: ignore[union-attr, arg-type]
    marked = profile_of(tmp_path, a_run(marks=True))
    site = marked.work_sites(marked.rank.kernels, np.ones(len(marked.rank.kernels), np.bool_))[0]
    assert [line[:2] for line in marked_lines(site.place.rests)] == [("net.py", 11)]  # type: ignore[union-attr, arg-type]


def test_backward_belongs_to_the_line_of_its_forward_operator(tmp_path: Path) -> None:
    t = TraceBuilder()
    for n in range(4):
        with t.step(n), t.frame("train.py(1): fit"):
            with t.mark("train.py:7"), t.op("aten::mul", sequence=n):
                t.launch("mul", us=300)
            with t.mark("train.py:9"):
                t.host(20)
        name = "autograd::engine::evaluate_function: MulBackward0"
        with t.on(4711), t.op(name, sequence=n), t.op("MulBackward0", sequence=n), t.op("aten::mul"):
            t.launch("mul_backward", us=700)
    from necropsy.trace.marks import marked_lines

    p = profile_of(tmp_path, t)
    (site,) = p.work_sites(p.rank.kernels, p.rank.where(p.rank.kernels, "mul_backward"))
    assert [line[:2] for line in marked_lines(site.place.rests)] == [("train.py", 7)]  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("necropsy:train.py:63", ("train.py", 63)),
        ("necropsy:pkg/a b.py:1", ("pkg/a b.py", 1)),
        ("necropsy:train.py", None),
        ("necropsy:train.py:0", None),
        ("necropsy::3", None),
        ("necropsy:phase:warm-up", None),
        ("train.py:63", None),
    ],
)
def test_names(name: str, place: tuple[str, int] | None) -> None:
    assert place_of(name) == place


def test_without_stacks_marks_stand_for_frames(tmp_path: Path) -> None:
    """Marks cost less than stacks, and tell more: a recording may do without."""
    t = a_run(marks=True)
    t.events = [e for e in t.events if e["cat"] != "python_function"]
    place = waits(report_of(tmp_path, t)).code[0]
    assert (place.file, place.line, place.function, place.exactness) == ("train.py", 4, "", "line")
    p = profile_of(tmp_path, t)
    assert len(p.steps) == 4
    sites = p.work_sites(p.rank.kernels, np.ones(len(p.rank.kernels), np.bool_))
    assert [(s.place.file, s.place.line) for s in sites if s.place is not None] == [("net.py", 11)]
    t.events = [e for e in t.events if not e["name"].startswith("ProfilerStep")]
    assert profile_of(tmp_path, t).steps.how == "window"  # a line that runs again and again is no step
