"""Runs of digits that no number has: whatever a pattern hands to `int` is bounded, in every format."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.support.cases import FIXTURES

from necropsy_parsers.numbers import MOST_DIGITS, decimal, natural, whole
from necropsy_parsers.text import clean

import necropsy
from necropsy.api import analyze
from necropsy.evidence.inductor_kernels import InductorKernels

_RUN: Final = re.compile(rb"\d+")
PLACES: Final = 6  # runs of a line, from its first on, each replaced by itself
MOST: Final = 60_000  # bytes of an input: the kind of it matters
# One of each format that is read from bytes; lines of plain logs are bounded before they are read (see below).
GIVEN: Final = (
    "formats/torch_trace/two-logs/dedicated_log_torch_trace_k2j4x1.log",
    "kernels/h200/torch_trace.log.gz",
    "rules/KRN024/fires-attention-in-bf16/input.d/run.log.gz",
    "rules/DAT002/silent-hidden-behind-kernels/input.json",
    "rules/DST012/fires-gradients/input.json",
    "rules/CMP021/fires-again-each-step/input.json",
    "formats/ncu_csv/h200/details.csv.gz",
)


def inputs() -> list[Path]:
    """Those, and a graph of a debug folder."""
    return [FIXTURES / name for name in GIVEN] + sorted(FIXTURES.rglob("fx_graph_readable.py"))[:1]


def grown(data: bytes, place: int, digits: bytes) -> bytes:
    """The input with one run of digits of each line replaced, that at `place`."""
    lines = []
    for line in data.split(b"\n"):
        runs = list(_RUN.finditer(line))
        if len(runs) > place:
            line = line[: runs[place].start()] + digits + line[runs[place].end() :]
        lines.append(line)
    return b"\n".join(lines)


@pytest.mark.parametrize("length", [30, 5000])
@pytest.mark.parametrize("path", inputs(), ids=lambda p: p.parts[len(FIXTURES.parts) + 1])
def test_a_number_of_any_length_is_no_fault(path: Path, length: int, tmp_path: Path) -> None:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    data = data[: data.rfind(b"\n", 0, MOST) + 1 or len(data)] if len(data) > MOST and path.suffix != ".json" else data
    given = tmp_path / path.name.removesuffix(".gz")
    for place in range(PLACES):
        given.write_bytes(grown(data, place, b"7" * length))
        json.dumps(analyze(str(given)).to_json())
        necropsy.load(str(given)).get(InductorKernels).rows  # noqa: B018 - reads what was postponed


def test_lines_of_plain_logs_are_bounded_below_what_int_takes() -> None:
    assert sys.int_info.default_max_str_digits > clean.PIECE_LIMIT


@pytest.mark.parametrize(
    ("digits", "value"),
    [("0", 0), ("-7", -7), ("0" * 40 + "12", 12), ("7" * 18, int("7" * 18)), ("7" * 19, 10**18 - 1),
     ("-" + "7" * 5000, 1 - 10**18), ("0" * 5000, 0)],
)  # fmt: skip
def test_natural(digits: str, value: int) -> None:
    assert natural(digits) == value


@pytest.mark.parametrize("text", ["", "²", "1 2", "7" * (MOST_DIGITS + 1), "0x7"])
def test_what_is_no_number(text: str) -> None:
    assert whole(text) is None
    assert decimal("0.050.") is None
