"""What renderers share: order of telling, wording, and text that is safe to show."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor

from necropsy.finding import Fact, Finding, Place, Role, Severity
from necropsy.render import View, markdown
from necropsy.render import text as terminal
from necropsy.render.pages import rule_page
from necropsy.render.parts import outline, steps, words
from necropsy.render.parts.printable import printable
from necropsy.report import LineTime, NotEvaluated, Report, StepSummary

PROJECT = "/home/trainer/projects/vision"
CRASH = Finding(
    rule="OOM005",
    severity=Severity.FATAL,
    message="CUDA ran out of memory, so the step stopped here.",
    anchor=Anchor("run.log", 0, 10, 412, "torch.OutOfMemoryError"),
    code=(Place(f"{PROJECT}/train.py", 88, function="step", text="logits = model(images)"),),
)


def excerpt(_: Place, before: int, after: int) -> list[tuple[int, str]]:
    return [(n, f"line {n}") for n in range(88 - before, 90 + after)]


def test_a_cascade_of_a_cascade_hangs_under_the_root() -> None:
    root, other = CRASH, replace(CRASH, rule="CMP001", code=())
    first = replace(CRASH, rule="DST001", role=Role.CASCADE, explained_by=root.fingerprint)
    second = replace(CRASH, rule="DST002", role=Role.CASCADE, explained_by=first.fingerprint)
    lost = replace(CRASH, rule="DST003", role=Role.CASCADE, explained_by="")
    plan = outline.outline(Report("0.1", findings=[root, other, first, second, lost]))
    assert plan.stories[0].followers == [first, second]
    assert plan.stories[1].followers == []
    assert plan.orphans == [lost]


def test_a_line_without_a_claim_is_not_marked() -> None:
    sure = CRASH.code[0]
    assert [r.number for r in outline.source_rows(sure, excerpt) if r.marked] == [88]
    assert [r.number for r in outline.source_rows(replace(sure, end_line=89), excerpt) if r.marked] == [88, 89]
    assert not any(r.marked for r in outline.source_rows(replace(sure, exactness="function"), excerpt))


@given(st.text())
def test_printable_is_one_harmless_line(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(text, ascii=True).isascii()


@given(st.from_regex(r"[a-zа-яé字 ]*", fullmatch=True))
def test_printable_keeps_what_is_harmless(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("requested_bytes", 20 << 30, "requested 20.00 GiB"),
        ("free_bytes", 512, "free 512 bytes"),
        ("wait_ns", 1_500, "wait 1.5 us"),
        ("timeout_s", 1800, "timeout 30 min 0 s"),
        ("limit_seconds", 90_000, "limit 25 h 0 min"),
        ("idle_share", 0.314, "idle 31.4 %"),
        ("load_percent", 50, "load 50 %"),
        ("worker_pid", 123_456, "worker pid 123456"),
        ("calls", 123_456, "calls 123,456"),
        ("profiled", True, "profiled yes"),
        ("shape", [64, 3, 224, 224], "shape 64, 3, 224, 224"),
        ("ranks", [0, 1, 2, 5], "ranks 0-2, 5"),
        ("names", [str(n) for n in range(11)], "names 0, 1, 2, 3, 4, 5, 6, 7 and 3 more"),
        ("bytes", 12, "bytes 12"),
        ("loss", math.inf, "loss inf"),
    ],
)
def test_facts_carry_their_unit(name: str, value: Fact, shown: str) -> None:
    assert words.fact(name, value) == shown


def test_paths_are_shortened_only_where_they_must_be() -> None:
    inside, library = f"{PROJECT}/a/train.py", "/srv/x/lib/python3.12/site-packages/torch/nn/module.py"
    assert words.path(inside, PROJECT) == "a/train.py"
    assert words.path(inside, f"{PROJECT}/b") == inside
    assert words.path(library, PROJECT) == library
    assert words.path(library, PROJECT, 30) == "torch/nn/module.py"
    assert words.path("/one/two/three/four/five.py", "", 20) == "three/four/five.py"


def test_trouble_with_inputs_is_no_failure_and_is_told_once() -> None:
    issues = Issues()
    issues.add("source/unreadable", "gone.log")
    issues.add("text/nul", "run.log")
    about = replace(
        CRASH, rule="INP001", severity=Severity.WARNING, role=Role.SYMPTOM, event="source/unreadable@gone.log"
    )
    plan = outline.outline(Report("0.1", findings=[about], issues=issues.rows()))
    assert (plan.inputs, plan.symptoms, plan.lead, plan.incomplete) == ([about], [], None, True)
    assert [i.kind for i in plan.issues] == ["text/nul"]


def test_without_a_cause_the_first_failure_leads() -> None:
    sign = replace(CRASH, role=Role.SYMPTOM, severity=Severity.WARNING)
    died = replace(CRASH, role=Role.CASCADE)
    assert outline.outline(Report("0.1", findings=[sign])).lead is None
    plan = outline.outline(Report("0.1", findings=[sign, died]))
    assert (plan.lead, plan.orphans, plan.symptoms) == (died, [], [sign])
    assert outline.outline(Report("0.1", findings=[CRASH, died])).lead is None


def test_the_most_useful_evidence_comes_first() -> None:
    rows = [
        NotEvaluated("TRT001", "trt_layers", "an engine build log"),
        NotEvaluated("MEM001", "copies", "a trace"),
        NotEvaluated("MEM001", "kernels", "a trace"),
        NotEvaluated("KRN001", "kernels", "a trace"),
    ]
    gaps = outline.gaps(Report("0.1", not_evaluated=rows))
    assert gaps[0] == outline.Gap("a trace", ("copies", "kernels"), ("MEM001", "KRN001"))
    assert gaps[1].rules == ("TRT001",)


def test_findings_that_differ_by_rank_fold_into_one() -> None:
    peers = [replace(CRASH, ranks=(n,)) for n in (2, 0, 1)]
    other = replace(CRASH, code=(Place("eval.py", 3),), count=5)
    folds = outline.fold([*peers, other])
    assert [(f.ranks, f.count) for f in folds] == [((0, 1, 2), 3), ((), 5)]


def test_headings_are_found_however_they_are_written() -> None:
    for text in ("Limits\n------\nNone.", "## Limits\n\nNone.", "Limits:\nNone.", "Limits\nNone.", "Limits\n    None."):
        assert rule_page.sections(f"Title.\n\n{text}") == "Title.\n\n## Limits\n\nNone."


def test_lines_of_compiled_kernels_are_told_a_step_by_their_share_of_computing() -> None:
    lines = tuple(LineTime("net.py", n, "forward", "x = x + 1", ns) for n, ns in ((3, 400), (9, 100), (12, 1)))
    row = StepSummary("t.json", 0, "GPU", 2, "annotation", 1, 2, 4000, {"compute": 1000, "idle": 3000}, lines=lines)
    assert [(r.place.line, r.ns, r.share) for r in steps.lines(row)] == [(3, 200, 0.4), (9, 50, 0.1)]
    assert steps.lines_title(row) == "Kernels that torch.compile made or calls, by line (50% of computing)"
    for shown in (terminal.render(Report("0", steps=[row]), View()), markdown.render(Report("0", steps=[row]), View())):
        assert "net.py:3" in shown
        assert "40.0%" in shown
        assert "net.py:12" not in shown  # a thousandth of the time
