"""Captures of real jobs with planted mistakes: which of them are told, how exactly, and what a capture costs.

`python -m tests.support.captures` writes the tables of docs/capture.md from `fixtures/incidents/captured-*`,
`captures.toml` and `capture-overhead.json` there.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import statistics
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.cases import FIXTURES

from necropsy.api import analyze
from necropsy.config import Config
from necropsy.finding import Finding, Role, Severity

INCIDENTS: Final = FIXTURES / "incidents"
PAGE: Final = FIXTURES.parent / "docs" / "capture.md"
_EXACT: Final = ("line", "statement")


@dataclass(frozen=True, slots=True)
class Told:
    """A planted mistake, and the first finding that tells it: `near` is line, function, file, or "" (not told)."""

    capture: str
    why: str
    tag: str
    line: int
    within: str
    rule: str = ""
    place: int | None = None
    near: str = ""

    @property
    def met(self) -> bool:
        """Whether the place is at least as near as it must be."""
        order = ("", "file", "function", "line")
        return order.index(self.near) >= order.index(self.within)


@dataclass(frozen=True, slots=True)
class Judged:
    """All planted mistakes of a capture, and innocent lines that a root finding above a note claims exactly."""

    told: tuple[Told, ...]
    innocent: tuple[str, ...]


def captures() -> dict[str, dict[str, Any]]:
    """What each capture must show."""
    return tomllib.loads((INCIDENTS / "captures.toml").read_text(encoding="utf-8"))


def judge(name: str, spec: dict[str, Any], place: Path) -> Judged:
    """Analyze a copy of the run folder in `place`, with the script beside it."""
    folder = place / name
    shutil.copytree(INCIDENTS / name, folder)
    source = folder / "src" / spec["script"]
    run = [str(p) for p in sorted(folder.iterdir()) if p.name not in ("src", "expect.toml", "origin.md")]
    findings = analyze(run, config=Config(source=(str(folder / "src"),))).findings
    lines = _planted(source)
    told = tuple(_told(name, spec, plant, lines, findings, source) for plant in spec["plants"])
    fine = {*lines.values(), *spec.get("allow", ())}
    innocent = tuple(
        f"{f.rule} {f.code[0].line}"
        for f in findings
        if f.code and f.role is Role.ROOT and f.severity > Severity.NOTE and f.code[0].exactness in _EXACT
        if Path(f.code[0].file).name == spec["script"] and f.code[0].line not in fine
    )  # fmt: skip
    return Judged(told, innocent)


def _planted(source: Path) -> dict[str, int]:
    lines = source.read_text(encoding="utf-8").splitlines()
    return {m[1].strip(): n for n, line in enumerate(lines, 1) if (m := re.search(r"# plant:(.*)$", line))}


def _told(
    name: str, spec: dict[str, Any], plant: dict[str, str], lines: dict[str, int], findings: list[Finding], source: Path
) -> Told:
    line = next(n for tag, n in lines.items() if plant["tag"] in tag)
    best = Told(name, spec["why"], plant["tag"], line, plant["within"])
    for f in findings:
        if not re.fullmatch(plant["rules"], f.rule) or not f.code or Path(f.code[0].file).name != spec["script"]:
            continue
        near = _near(f.code[0].line, line, source, exact=f.code[0].exactness in _EXACT)
        now = Told(best.capture, best.why, best.tag, line, best.within, f.rule, f.code[0].line, near)
        if ("", "file", "function", "line").index(near) > ("", "file", "function", "line").index(best.near):
            best = now
    return best


def _near(claimed: int | None, planted: int, source: Path, *, exact: bool) -> str:
    if claimed == planted and exact:
        return "line"
    spans = [
        (n.lineno, n.end_lineno or n.lineno)
        for n in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(n, ast.FunctionDef | ast.ClassDef)
    ]
    around = [span for span in spans if span[0] <= planted <= span[1]]
    inner = max(around, default=(1, 10**9))
    return "function" if claimed is not None and inner[0] <= claimed <= inner[1] else "file"


def mistakes_table(judged: dict[str, Judged]) -> str:
    """Planted mistakes x found / exact line."""
    rows = ["| job | asked | planted | line | told by | place told |", "| --- | --- | --- | --- | --- | --- |"]
    for one in judged.values():
        for t in one.told:
            where = "not told" if not t.near else "exact" if t.near == "line" else f"line {t.place} (same {t.near})"
            job = t.capture.removeprefix("captured-").replace("-", " ")
            rows.append(f"| {job} | `{t.why or 'general'}` | {t.tag} | {t.line} | {t.rule} | {where} |")
    every = [t for one in judged.values() for t in one.told]
    exact = sum(t.near == "line" for t in every)
    innocent = sum(len(one.innocent) for one in judged.values())
    found = sum(bool(t.near) for t in every)
    rows.append("")
    rows.append(
        f"{found} of {len(every)} planted mistakes are told, {exact} of them on their exact line; {innocent} innocent "
        f"lines are accused in {len(judged)} captures."
    )
    return "\n".join(rows)


def overhead_table(data: dict[str, Any]) -> str:
    """What each set of collectors adds to a step of the workload."""
    steps = {name: statistics.median(runs) for name, runs in data["step_ms"].items()}
    rows = ["| collected | a step, median of runs | over none | runs |", "| --- | --- | --- | --- |"]
    for name, value in steps.items():
        over = f"{100 * (value / steps['none'] - 1):+.0f}%"
        runs = ", ".join(f"{ms:.1f}" for ms in data["step_ms"][name])
        rows.append(f"| {name} | {value:.1f} ms | {'' if name == 'none' else over} | {runs} |")
    return "\n".join(rows)


def tables(place: Path) -> dict[str, str]:
    """The tables of the page by name."""
    judged = {name: judge(name, spec, place) for name, spec in captures().items()}
    overhead = json.loads((INCIDENTS / "capture-overhead.json").read_text(encoding="utf-8"))
    return {"mistakes": mistakes_table(judged), "overhead": overhead_table(overhead)}


def with_tables(page: str, made: dict[str, str]) -> str:
    """The page with each table between its marks."""
    for name, table in made.items():
        mark = re.compile(rf"(<!-- {name} -->\n)(?:(?!<!--).)*(<!-- end -->)", re.DOTALL)
        page = mark.sub(lambda m, table=table: f"{m[1]}{table}\n{m[2]}", page)  # type: ignore[misc]
    return page


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), tables(Path(folder))), encoding="utf-8")
