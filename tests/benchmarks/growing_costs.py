"""Costs that must grow with the input and not with its square.

Run with `python -m pytest tests/benchmarks/growing_costs.py`; by its name it is no part of the tests, since busy
machines distort processor times too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.growth import MOST, growth
from tests.support.reading import read, report_on
from tests.support.vocabulary import ENDLESS, PADDINGS, SAMPLES, TRACE
from tests.support.wrappings import WRAPPINGS, Wrapping


def repeated(unit: bytes) -> Callable[[int], bytes]:
    return lambda count: unit * count


def numbered(template: str) -> Callable[[int], bytes]:
    """`template` again and again with another number each time."""
    return lambda count: "".join(template.replace("<n>", str(n)) for n in range(count)).encode()


def analyze_in(folder: Path) -> Callable[[bytes], object]:
    return lambda data: report_on(data, folder)


@pytest.mark.parametrize("name", ENDLESS)
def test_cost_grows_with_the_number_of_lines(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert growth(numbered(ENDLESS[name]), analyze_in(tmp_path), 6000) <= MOST


@pytest.mark.parametrize("text", SAMPLES, ids=range(len(SAMPLES)))
def test_cost_grows_with_the_number_of_messages(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert growth(numbered(f"{text} <n>\nresumed\n"), analyze_in(tmp_path), 1600) <= MOST


@pytest.mark.parametrize("padding", PADDINGS)
def test_cost_grows_with_the_length_of_a_line(padding: str) -> None:
    def line(size: int) -> bytes:
        """Each sample before, behind and inside so much padding."""
        long = padding * (size // len(padding))
        parts = [f"{long}{s}\n{s}{long}\n{s[: len(s) // 2]}{long}{s[len(s) // 2 :]}\n" for s in (*SAMPLES, TRACE, "x")]
        return "".join(parts).encode()

    assert growth(line, read, 48_000) <= MOST


@pytest.mark.parametrize("wrapping", WRAPPINGS, ids=lambda w: w.name)
def test_cost_grows_with_the_length_of_a_wrapped_line(wrapping: Wrapping) -> None:
    assert growth(lambda size: wrapping.wrap((TRACE + "a" * size + "\n") * 4), read, 60_000) <= MOST


@pytest.mark.parametrize("prefix", ["", "[rank<n>]: "], ids=["one process", "as many ranks"])
def test_cost_grows_with_all_that_a_job_says(prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of message again and again: what rules look up for each row must not be searched for in all rows."""
    monkeypatch.chdir(tmp_path)
    unit = "".join(f"{prefix}{line}\n" for text in (*SAMPLES, TRACE) for line in [*text.splitlines(), "went on <n>"])
    assert growth(numbered(unit), analyze_in(tmp_path), 640) <= MOST
