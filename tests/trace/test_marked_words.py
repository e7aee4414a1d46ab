"""Traces with marks and no frames: every rule's words name the line where they else name the function."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.trace_cases.write import all_cases, files_of
from tests.support.tracing import TraceBuilder

from necropsy.api import analyze
from necropsy.config import Config
from necropsy.finding import Finding
from necropsy.trace.names import parsed

CASES = all_cases()
FIRST = {case.partition("/")[0]: case for case in reversed(CASES) if "/fires-" in case}  # one a rule
# A name that is missing leaves quotes with nothing in them, or a preposition before the end or a comma.
MISSING = re.compile(r"``|\b(in|by|at|of|the most) ?[,.;:]|  |\bNone\b")


def marked(t: TraceBuilder) -> TraceBuilder:
    """The same program, recorded with marks and without stacks: each frame of the user's is the line that it has."""
    events = []
    for event in t.events:
        if event["cat"] == "python_function":
            f = parsed(event["name"])
            if f.kind != "user":
                continue
            event = {**event, "cat": "cpu_op", "name": f"necropsy:{f.file}:{f.line}", "args": {}}
        events.append(event)
    t.events = events
    return t


def found_of(tmp_path: Path, case: str) -> list[Finding]:
    """The findings about a case as it is recorded with marks."""
    for path, trace in files_of(case, CASES[case]()).items():
        marked(trace).write(tmp_path / path.name)
    return analyze([str(tmp_path)], config=Config(cache=False)).findings


@pytest.mark.parametrize("rule", sorted(FIRST))
def test_no_name_is_missing(tmp_path: Path, rule: str) -> None:
    for f in found_of(tmp_path, FIRST[rule]):
        listed = (v if isinstance(v, list) else [v] for v in f.facts.values())
        for text in (f.message, *(fix.title for fix in f.fixes), *(str(v) for values in listed for v in values)):
            assert not MISSING.search(text), (f.rule, text)


@pytest.mark.parametrize(
    ("case", "rule", "words"),
    [
        ("DAT002/fires-slow-decoding", "DAT002", ["mostly at corpus.py:18", "`corpus.py:18` cheaper"]),
        ("DST007/fires-computes-more-clocks-differ", "DST007", ["it computes at pretrain_moe.py:31"]),
        ("LCH002/fires-small-layers", "LCH002", ["the most at train_gaze.py:33"]),
        ("OOM003/fires-graphs-kept", "OOM003", ["made at fit_flow.py:24"]),
    ],
)
def test_the_line_is_named(tmp_path: Path, case: str, rule: str, words: list[str]) -> None:
    told = " ".join(
        f"{f.message} {' '.join(fix.title for fix in f.fixes)}" for f in found_of(tmp_path, case) if f.rule == rule
    )
    assert all(w in told for w in words), told
