"""No work grows with the square of the input: not with messages, writers, attempts or chained exceptions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from tests.support.reading import report_on
from tests.support.vocabulary import ENDLESS, SAMPLES, TRACE
from tests.support.work import TIMES, lines_run, too_often

from necropsy_parsers.issues import Issues

# Quadratic in the number of attempts or of messages of one kind, and not mended yet: remove a line with its cause.
KNOWN: Final = frozenset({
    "recovery.py <listcomp>", "recovery.py <dictcomp>",  # all settings, for each finding
    "ranks.py <setcomp>",  # the ranks of all activity, for each process
    "crs004_time_limit.py <listcomp>",  # all activity, for each stop
    "crs020_network_setup.py <listcomp>",  # all troubles, for each attempt
    "crs018_transport_error.py <setcomp>",  # all errors, for each of them
    "recompiles.py failure_of", "guard_failure.py guard",  # all rows of a function, for each of its limits
    "recompiles.py _outermost", "dynamo.py resumed_at", "frames.py is_library",
})  # fmt: skip

_EVERYTHING: Final = [line for text in (*SAMPLES, TRACE) for line in [*text.splitlines(), "went on <n>"]]


def _numbered(unit: str, count: int) -> bytes:
    return "".join(unit.replace("<n>", str(n)) for n in range(count)).encode()


def _grown(unit: str, count: int, folder: Path) -> dict[str, tuple[int, int]]:
    """Where work grew too fast when `unit` was repeated four times as often."""
    small, large = _numbered(unit, count), _numbered(unit, TIMES * count)
    found = too_often(lambda data: report_on(data, folder), small, large)
    return {place: times for place, times in found.items() if place not in KNOWN}


@pytest.mark.parametrize("name", ENDLESS)
def test_work_grows_with_the_number_of_lines(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _grown(ENDLESS[name], 16, tmp_path) == {}


@pytest.mark.parametrize("prefix", ["", "[rank<n>]: "], ids=["one", "ranks"])
def test_work_grows_with_all_that_a_job_says(prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _grown("".join(f"{prefix}{line}\n" for line in _EVERYTHING), 5, tmp_path) == {}


def test_a_loop_over_everything_in_a_loop_over_everything_is_found() -> None:
    def pairs(data: bytes) -> int:
        issues = Issues()
        for line in data.splitlines():
            for _ in data.splitlines():
                issues.add("text/nul", line.decode())
        return len(issues.rows())

    assert too_often(pairs, b"x\n" * 40, b"x\n" * 160)
    assert sum(lines_run(lambda: pairs(b"x\n" * 4)).values()) > 16
