"""Launches of a report, found again in a trace of the same script: what they weigh, and who launches them."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy import api
from necropsy.evidence import Evidence
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.traces import Traces
from necropsy.finding import Severity
from necropsy.ncu.traced import sites, weighed

INCIDENTS = Path(__file__).parents[2] / "fixtures" / "incidents"
MODEL = INCIDENTS / "captured-language-model-kernels"


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return api.load([str(MODEL / "ncu" / "kernels.ncu-rep.xz"), str(next(MODEL.glob("trace-*")))])


def launch(evidence: Evidence, line: int, words: str) -> NcuKernel:
    """The first launch from a line whose kernel has these words."""
    rows = evidence.get(NcuKernels).own
    return next(r for r in rows if r.place is not None and r.place.line == line and words in r.kernel)


def test_the_same_kernel_is_found_under_other_words(evidence: Evidence) -> None:
    profile = evidence.get(Traces).gpu_profiles[0]
    multiplies = sites(profile, launch(evidence, 58, "MulFunctor"))
    names = {profile.trace.names[int(n)] for site in multiplies for n in profile.rank.kernels["name"][site.rows]}
    assert all("MulFunctor" in name for name in names)
    assert len(names) == 1


def test_what_it_weighs_is_of_the_steps(evidence: Evidence) -> None:
    row = launch(evidence, 53, "Kernel2")
    found = weighed(row, row.place, evidence.get(Traces))
    assert found is not None
    assert found.launches == 1  # this length of sequence comes once in the four steps that were recorded
    assert row.ns is not None
    assert found.ns == pytest.approx(row.ns, rel=0.2)
    assert 0.005 < found.share < 0.02


def test_a_trace_without_steps_weighs_nothing() -> None:
    folder = INCIDENTS / "captured-kernels"
    evidence = api.load([str(folder / "ncu" / "kernels.ncu-rep.xz"), str(next(folder.glob("trace-*")))])
    assert evidence.get(Traces).gpu_profiles
    assert all(weighed(r, r.place, evidence.get(Traces)) is None for r in evidence.get(NcuKernels).own)


def test_a_kernel_that_hardly_counts_in_the_steps_is_a_note() -> None:
    both = api.analyze([str(MODEL / "ncu" / "kernels.ncu-rep.xz"), str(next(MODEL.glob("trace-*")))])
    alone = api.analyze([str(MODEL / "ncu" / "kernels.ncu-rep.xz")])
    for report, loudest in ((alone, Severity.WARNING), (both, Severity.NOTE)):
        waits = [f for f in report.findings if f.rule == "KRN008"]
        assert max(f.severity for f in waits) == loudest
    told = [f for f in both.findings if f.rule == "KRN008"]
    assert all("of the steps" in str(f.facts["in the trace"]) for f in told)
