"""The partition of steps equals an independent exact calculation, on real traces, and adds up."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.exact_steps import partition

from necropsy_parsers.formats import kineto
from necropsy_parsers.issues import Issues
from necropsy_parsers.source import open_sources
from necropsy_parsers.trace.model import Trace

from necropsy.trace.partition import partition_of
from necropsy.trace.profile import Profile

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "traces"
TRACES = sorted(FIXTURES.rglob("*.json.[gx]z"))
EXTERNAL = sorted((Path(__file__).resolve().parents[3] / "shared" / "external" / "hta").glob("*.json.gz"))


def profile_of(path: Path) -> Profile:
    """The profile of a trace in a file."""
    (source,) = open_sources([str(path)], Issues())
    (trace,) = kineto.parse(source, Issues(), 0)
    assert isinstance(trace, Trace)
    return Profile(trace)


@pytest.mark.parametrize("path", TRACES, ids=lambda p: p.name)
def test_equal_to_an_exact_sweep(path: Path) -> None:
    p = profile_of(path)
    found = partition_of(p.rank, p.all_steps, p.activity)
    told = [{b: int(ns[i]) for b, ns in found.buckets.items()} for i in range(len(p.all_steps))]
    assert told == partition(path)


@pytest.mark.parametrize("path", [*TRACES, *EXTERNAL], ids=lambda p: p.name)
def test_buckets_add_up_and_none_is_negative(path: Path) -> None:
    p = profile_of(path)
    buckets = [ns.tolist() for ns in p.partition.buckets.values()]
    assert [sum(step) for step in zip(*buckets, strict=True)] == p.steps.length.tolist()
    assert all((ns >= 0).all() for ns in p.partition.buckets.values())


def test_the_image_classifier_waits_for_its_loader() -> None:
    """An H200, 1 % busy: 400 ms of every step in a synchronous DataLoader; 214 ms of the first in the compiler."""
    p = profile_of(FIXTURES / "image_classifier.json.xz")
    loading, compiling = (p.partition.buckets[b] / 1e6 for b in ("data loading", "compiling"))
    assert [400 < ms < 410 for ms in loading] == [True] * 4
    assert 213 < compiling[0] < 216
    assert (compiling[2:] == 0).all()
    assert p.share(p.partition.total("data loading")) == pytest.approx(0.82, abs=0.01)
    assert p.rank.busy.total / (p.rank.window[1] - p.rank.window[0]) == pytest.approx(0.012, abs=0.001)
