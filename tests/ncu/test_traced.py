"""Launches of a report, found again in a trace of the same script: what they weigh, and who launches them."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy import api
from necropsy.config import Config
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
    """Copies that take 4% of what was profiled, of which nearly half could be saved, are 1% of the steps."""
    config = Config(rules={"KRN008": {"loss": 0.01}})
    report, trace = str(MODEL / "ncu" / "kernels.ncu-rep.xz"), str(next(MODEL.glob("trace-*")))
    both, alone = (api.analyze(paths, config=config) for paths in ([report, trace], [report]))
    for told, loudest in ((alone, Severity.WARNING), (both, Severity.NOTE)):
        waits = [f for f in told.findings if f.rule == "KRN008"]
        assert max(f.severity for f in waits) == loudest
    assert all("of the steps" in str(f.facts["in the trace"]) for f in both.findings if f.rule == "KRN008")


def test_a_kernel_of_the_backward_pass_is_on_the_line_of_the_forward_call() -> None:
    """The report's marks end with the forward pass; those of the trace lead there from the backward launch."""
    report = api.analyze([str(MODEL / "ncu" / "kernels.ncu-rep.xz"), str(next(MODEL.glob("trace-*")))])
    assert {(k.file, k.line) for k in report.kernels if "s1688gemm" in k.kernel} == {("train_lm.py", 53)}
    verdicts = [f for f in report.findings if f.rule == "KRN003" and "s1688gemm" in f.message]
    assert [[(p.line, p.exactness) for p in f.code] for f in verdicts] == [[(53, "line")]] * 3


def test_metrics_that_no_rule_reads_are_not_missed() -> None:
    report = api.analyze([str(path) for path in sorted((MODEL / "ncu").iterdir())])
    assert "INP011" not in {f.rule for f in report.findings}
