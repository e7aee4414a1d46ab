"""No work grows with the square of the input: not with messages, writers, attempts or chained exceptions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from tests.support.reading import report_on
from tests.support.vocabulary import ENDLESS, SAMPLES, TRACE
from tests.support.work import TIMES, lines_run, too_often

from necropsy_parsers.issues import Issues
from necropsy_parsers.messages import kinds_of

_EVERYTHING: Final = [line for text in (*SAMPLES, TRACE) for line in [*text.splitlines(), "went on <n>"]]


@pytest.fixture(scope="module", autouse=True)
def _index_for_many_texts() -> None:
    """The index of literals is built anew once in a process, when many texts were looked at."""
    for _ in range(2000):
        kinds_of("x")


def _numbered(unit: str, count: int) -> bytes:
    return "".join(unit.replace("<n>", str(n)) for n in range(count)).encode()


def _grown(unit: str, count: int, folder: Path) -> dict[str, tuple[int, int]]:
    """Where work grew too fast when `unit` was repeated four times as often."""
    small, large = _numbered(unit, count), _numbered(unit, TIMES * count)
    return too_often(lambda data: report_on(data, folder), small, large)


@pytest.mark.parametrize("name", ENDLESS)
def test_work_grows_with_the_number_of_lines(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _grown(ENDLESS[name], 8, tmp_path) == {}


@pytest.mark.parametrize("prefix", ["", "[rank<n>]: "], ids=["one", "ranks"])
def test_work_grows_with_all_that_a_job_says(prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _grown("".join(f"{prefix}{line}\n" for line in _EVERYTHING), 4, tmp_path) == {}


def test_a_loop_over_everything_in_a_loop_over_everything_is_found() -> None:
    def pairs(data: bytes) -> int:
        issues = Issues()
        for line in data.splitlines():
            for _ in data.splitlines():
                issues.add("text/nul", line.decode())
        return len(issues.rows())

    assert too_often(pairs, b"x\n" * 20, b"x\n" * 80)
    assert sum(lines_run(lambda: pairs(b"x\n" * 4)).values()) > 16
