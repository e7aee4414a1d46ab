"""Captures of real failed jobs, where they are at hand, judged by the script that comes with them."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from necropsy.api import analyze

SHARED: Final = Path(__file__).resolve().parents[2] / "shared"
# Their rules (collectives, compilers) are not written yet.
LATER: Final = {
    "rank_desync",
    "nccl_dup",
    "nccl_dup_info",
    "unused_params",
    "backend_fail",
    "cudagraph_overwritten",
}


def expected() -> dict[str, Any]:
    """The captures of failed jobs that can be judged now; a placeholder where there are none."""
    path = SHARED / "captures" / "expected.toml"
    specs = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    chosen = {n: s for n, s in specs.items() if n.startswith("failed_jobs/") and Path(n).stem not in LATER}
    return chosen or {"absent": {}}


EXPECTED: Final = expected()


@pytest.fixture
def judge(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script's functions, with the engine called here instead of in a process of its own."""
    spec = importlib.util.spec_from_file_location("score", shared / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "report", lambda command, path: (analyze([str(path)]).to_json()["findings"], ""))
    monkeypatch.chdir(tmp_path)
    return module


@pytest.mark.parametrize("name", EXPECTED)
def test_capture(name: str, shared: Path, judge: ModuleType) -> None:
    row, met = judge.capture(name, EXPECTED[name], shared / "captures", shared / "workloads", "")
    assert met, row


def test_the_judge_finds_fault(shared: Path, judge: ModuleType) -> None:
    name = "failed_jobs/oom.log"
    spec = {**EXPECTED[name], "facts": ["words that nobody says"]}
    assert not judge.capture(name, spec, shared / "captures", shared / "workloads", "")[1]
