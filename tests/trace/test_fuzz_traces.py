"""Damaged traces are judged without an exception, and the report's JSON stands."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.support import mutate

from necropsy.api import analyze

RULES = Path(__file__).resolve().parents[2] / "fixtures" / "rules"
# Every third case in order of name: the kinds of damage matter, not the traces.
TRACES = sorted(p for p in RULES.glob("*/*/input.json") if b'"traceEvents"' in p.read_bytes())[::3]
VALUES = ["null", "-1", "1e308", "18446744073709551616", '""', "[]", "{}", "true", "NaN"]


def judged(data: bytes, tmp_path: Path) -> None:
    """The report on a damaged trace; a rule's fault is an exception in tests (NECROPSY_STRICT)."""
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    report = analyze([str(path)])
    text = json.dumps(report.to_json(), allow_nan=False)
    assert json.loads(text)["schema"] == "necropsy/1"
    assert report.inputs[0].bytes == len(data) or report.inputs[0].format == "unknown"
    for row in report.steps:
        assert sum(row.buckets.values()) == row.ns
    for finding in report.findings:
        assert finding.cost.share is None or 0 <= finding.cost.share < 1.5, finding.message


@pytest.mark.parametrize("path", TRACES, ids=lambda p: "/".join(p.parts[-3:-1]))
class TestDamage:
    """Each fixture of a rule, damaged in the ways in which files are."""

    def test_cuts_flips_holes(self, path: Path, tmp_path: Path) -> None:
        data, chance = path.read_bytes(), random.Random(len(path.parts[-2]))
        for variants in (
            mutate.cuts_anywhere(data, chance, 2),
            mutate.flipped(data, chance, 3),
            mutate.holes(data, chance, 1),
            mutate.lines_lost(data, chance, 2),
        ):
            for variant in variants:
                judged(variant, tmp_path)

    def test_any_value_anywhere(self, path: Path, tmp_path: Path) -> None:
        """Numbers of some events become something else."""
        chance = random.Random(path.parts[-2])
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        for _ in range(3):
            made = list(lines)
            for _ in range(12):
                at = chance.randrange(1, len(made))
                key = chance.choice(
                    ('"ts": ', '"dur": ', '"correlation": ', '"stream": ', '"pid": ', '"tid": ', '"bytes": ')
                )
                before, found, after = made[at].partition(key)
                if found:
                    rest = after[min(i for i in (after.find(","), after.find("}")) if i >= 0) :]
                    made[at] = before + found + chance.choice(VALUES) + rest
            judged("".join(made).encode(), tmp_path)
