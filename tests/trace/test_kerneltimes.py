"""Notes on kernels that dominate or vary, and their near misses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.trace_cases.kernels import CASES

from necropsy.api import analyze


def codes(case: str, folder: Path) -> set[str]:
    CASES[case]().write(folder / "trace.json")
    return {f.rule for f in analyze(str(folder / "trace.json")).findings}


@pytest.mark.parametrize("case", [c for c in CASES if c.startswith(("KRN020/", "KRN021/"))])
def test_a_note_is_there_or_not(case: str, tmp_path: Path) -> None:
    code, _, name = case.partition("/")
    assert (code in codes(case, tmp_path)) is name.startswith("fires-")


def test_a_reason_takes_the_place_of_dominating(tmp_path: Path) -> None:
    found = codes("KRN019/fires-trace-of-sgemm", tmp_path)
    assert "KRN019" in found
    assert "KRN020" not in found
