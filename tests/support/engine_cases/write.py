"""The cases as files below `fixtures/rules`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.engine_cases.case import MODEL, EngineCase
from tests.support.engine_cases.cases import all_cases

RULES = Path(__file__).resolve().parents[3] / "fixtures" / "rules"


def files_of(case: EngineCase) -> dict[str, bytes]:
    """Path below `fixtures/rules` to content."""
    at = case.name
    files: dict[str, str | bytes] = {f"{at}/input.d/{name}": text for name, text in case.files.items()}
    files[f"{at}/expect.toml"] = "".join(f"{k} = {json.dumps(v, ensure_ascii=False)}\n" for k, v in case.expect.items())
    files[f"{at}/origin.md"] = f"Made by `python -m tests.support.engine_cases`: {case.origin}.\n"
    if case.source:
        files[f"{at}/src/tagger.py"] = MODEL.read_text(encoding="utf-8")
    return {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}


def write_all() -> None:
    """Write every case."""
    for case in all_cases():
        for name, text in files_of(case).items():
            path = RULES / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
