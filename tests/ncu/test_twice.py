"""One run given as a report and as its exports is one run; two runs are two."""

from __future__ import annotations

import gzip
from pathlib import Path

import necropsy
from necropsy.evidence.ncu_kernels import NcuKernels
from necropsy.evidence.ncu_rules import NcuRules

FORMATS = Path(__file__).resolve().parents[2] / "fixtures" / "formats"
DETAILS = FORMATS / "ncu_csv" / "h200" / "details.csv.gz"
TEXT = FORMATS / "ncu_page" / "h200" / "details.txt.gz"
RAW = FORMATS / "ncu_csv" / "h200" / "raw.csv.gz"


def test_an_export_beside_another_adds_what_it_tells(tmp_path: Path) -> None:
    one, other = necropsy.load(str(TEXT)), necropsy.load([str(DETAILS), str(TEXT)])
    assert [r.metrics for r in other.get(NcuKernels)] == [r.metrics for r in one.get(NcuKernels)]
    assert [r.place and r.place.line for r in other.get(NcuKernels)] == [11, 15, 19, 23, 27]
    assert len(other.get(NcuRules)) == len(one.get(NcuRules))
    assert {r.seq for r in other.get(NcuRules)} <= {r.seq for r in other.get(NcuKernels)}


def test_two_runs_of_one_script_are_two() -> None:
    assert len(necropsy.load([str(DETAILS), str(RAW)]).get(NcuKernels)) == 5 + 7


def test_other_times_are_another_run(tmp_path: Path) -> None:
    text = gzip.decompress(DETAILS.read_bytes()).decode()
    path = tmp_path / "again.csv"
    path.write_text(text.replace('"Duration","us","', '"Duration","us","9'))
    assert len(necropsy.load([str(DETAILS), str(path)]).get(NcuKernels)) == 10
