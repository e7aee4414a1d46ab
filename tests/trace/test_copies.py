"""What copies cost: each nanosecond of the bucket once, and each copy told by one rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.trace_cases import copies as cases
from tests.support.tracing import TraceBuilder

from necropsy_parsers.formats.kineto import parse
from necropsy_parsers.issues import Issues
from necropsy_parsers.source import open_sources
from necropsy_parsers.trace.model import Trace

from necropsy.trace.copies import copies_of, told_by
from necropsy.trace.profile import Profile


def profile_of(t: TraceBuilder, folder: Path) -> Profile:
    """The profile of a built trace."""
    path = folder / "input.json"
    t.write(path)
    issues = Issues()
    (trace,) = (r for source in open_sources([str(path)], issues) for r in parse(source, issues, 0))
    assert isinstance(trace, Trace)
    return Profile(trace)


@pytest.mark.parametrize("make", [cases.bias, lambda: cases.records(12), cases.hidden, lambda: cases.checkerboard(3.1)])
def test_exposed_time_is_the_bucket(make: object, tmp_path: Path) -> None:
    assert callable(make)
    p = profile_of(make(), tmp_path)
    assert int(copies_of(p).exposed.sum()) == p.partition.total("copies")


def test_overlapping_copies_share_their_time(tmp_path: Path) -> None:
    t = TraceBuilder()
    for n in range(3):
        with t.step(n), t.frame("a.py(1): main"), t.op("aten::copy_"):
            t.copy("HtoD (Pinned -> Device)", 1 << 20, 500, stream=13)
            t.copy("DtoH (Device -> Pinned)", 1 << 20, 800, stream=14)
            t.wait()
    p = profile_of(t, tmp_path)
    book = copies_of(p)
    assert int(book.ns.sum()) > p.partition.total("copies") == int(book.exposed.sum())


def test_each_copy_has_one_rule(tmp_path: Path) -> None:
    p = profile_of(cases.bias(), tmp_path)
    codes = ("MEM002", "MEM003", "MEM004", "MEM005", "MEM007", "")
    told = np.stack([told_by(p, c) for c in codes])
    assert told.sum(axis=0).tolist() == [1] * len(copies_of(p).copies)
    assert told_by(p, "MEM002").all()


def test_a_read_of_one_number_is_no_transfer(tmp_path: Path) -> None:
    t = TraceBuilder()
    for n in range(3):
        with t.step(n), t.op("aten::item"), t.op("aten::_local_scalar_dense"):
            t.copy("DtoH (Device -> Pageable)", 4, 2)
            t.wait()
    assert told_by(profile_of(t, tmp_path), "").all()
