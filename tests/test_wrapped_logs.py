"""Logs that were wrapped at a fixed column say what the whole ones say, with the places of the wrapped file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cases import rule_cases

from necropsy_parsers.text.unwrap import found

from necropsy.api import analyze

CASES = Path(__file__).parent.parent / "fixtures" / "rules"
WRAPPED = (
    "CMP007/fires-upper-bound-of-a-size",
    "CMP007/fires-list-grows-while-a-mode-toggles",
    "CMP007/fires-size-fixed-by-a-loop",
    "CMP001/silent-own-forward-of-ddp",
)


def folded(data: bytes, width: int) -> bytes:
    """What `fold -b -w width` makes of it."""
    out = []
    for line in data.split(b"\n"):
        out += [line[i : i + width] for i in range(0, len(line), width)] or [b""]
    return b"\n".join(out)


def told(path: Path) -> list[tuple[str, str, int, str, str]]:
    return [
        (f.rule, f.severity.label, f.count, f.message, f"{f.code[0].file}:{f.code[0].line}" if f.code else "")
        for f in analyze(str(path)).findings
    ]


@pytest.mark.parametrize("width", [80, 120, 133])
@pytest.mark.parametrize("case", WRAPPED)
def test_a_wrapped_log_says_the_same(case: str, width: int, tmp_path: Path) -> None:
    whole = (CASES / case / "input.log").read_bytes()
    (tmp_path / "whole.log").write_bytes(whole)
    (tmp_path / "run.log").write_bytes(folded(whole, width))
    report = analyze(str(tmp_path / "run.log"))
    assert told(tmp_path / "run.log") == told(tmp_path / "whole.log")
    assert [i.kind for i in report.issues] == ["text/wrapped"]
    lines = folded(whole, width).split(b"\n")
    for finding in report.findings:
        anchor = finding.anchor
        begin = sum(len(line) + 1 for line in lines[: anchor.line - 1])
        assert anchor.start == begin
        assert lines[anchor.line - 1].decode()[-20:] in "".join((anchor.text, lines[anchor.line - 1].decode()))


def test_chunks_that_end_within_a_line(tmp_path: Path) -> None:
    whole = (CASES / WRAPPED[0] / "input.log").read_bytes()
    many = folded(whole * 120, 120)  # more than one chunk
    (tmp_path / "whole.log").write_bytes(whole * 120)
    (tmp_path / "run.log").write_bytes(many)
    assert told(tmp_path / "run.log") == told(tmp_path / "whole.log")


def test_no_other_log_is_taken_for_a_wrapped_one() -> None:
    wrapped = [
        case.id
        for case in rule_cases()
        for path in case.inputs
        if path.suffix == ".log" and found(path.read_bytes()[: 1 << 16]) is not None
    ]
    assert wrapped == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"=" * 80 + b"\n",
        (b"=" * 80 + b"\nstep 1 loss 2.3\n") * 40,
        (b"V0314 18:04:07.100000 7 torch/_dynamo/guards.py:5396] [0/1] [__recompiles] " + b"x" * 20 + b"\n") * 40,
        (b"2026-03-14 18:04:07,100 INFO step 1 of 100, loss 2.3, and so on to the end.\n  detail\n") * 40,
    ],
    ids=["empty", "ruler", "rulers", "alike", "no head of torch"],
)
def test_a_near_miss(text: bytes) -> None:
    assert found(text) is None
