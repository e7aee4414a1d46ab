"""Cases on disk (`fixtures/rules`, `fixtures/incidents`) to inputs and complaints.

A case is a folder with an input (`input.*`, `run.log`), `expect.toml` and `origin.md`;
the format is described in `fixtures/README.md`. `complaints` compares a report with
the expectation and says in words what does not hold.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from necropsy.api import analyze
from necropsy.finding import Finding, Role, Severity
from necropsy.report import Report, finding_to_json

FIXTURES: Final = Path(__file__).resolve().parents[2] / "fixtures"
FIRES_KEYS: Final = frozenset(
    {"rule", "severity", "role", "first", "place", "exactness", "says", "never", "ranks", "roots"}
)
SILENT_KEYS: Final = frozenset({"rule", "worst", "other", "never"})


@dataclass(frozen=True, slots=True)
class Case:
    """A folder with an input, what is expected of it, and where it came from."""

    folder: Path

    @property
    def id(self) -> str:
        """Short name for pytest."""
        return "/".join(self.folder.parts[-2:])

    @property
    def fires(self) -> bool:
        """Whether the case names a finding that must be there."""
        return not self.folder.name.startswith("silent-") and "rule" in self.expect and "other" not in self.expect

    @property
    def expect(self) -> dict[str, Any]:
        """The expectation; empty if there is none."""
        path = self.folder / "expect.toml"
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    @property
    def inputs(self) -> list[Path]:
        """The inputs: `input.*` of a rule's case, everything but the description of an incident."""
        named = sorted(self.folder.glob("input.*"))
        known = {"expect.toml", "origin.md", "src"}
        return named or sorted(p for p in self.folder.iterdir() if p.name not in known and not p.name.startswith("."))

    def copied_to(self, place: Path, *, sources: bool = True) -> list[str]:
        """The inputs' paths in a copy, away from the sources of other cases."""
        target = place / self.folder.name
        ignore = None if sources else shutil.ignore_patterns("src")
        shutil.copytree(self.folder, target, ignore=ignore)
        return [str(target / p.name) for p in self.inputs]

    def report(self, place: Path) -> Report:
        """What the engine says about a copy of the case in `place`."""
        return analyze(self.copied_to(place))


def rule_cases() -> list[Case]:
    """Every case of every rule."""
    return [Case(p) for p in sorted((FIXTURES / "rules").glob("*/*")) if p.is_dir()]


def incident_cases() -> list[Case]:
    """Every incident."""
    return [Case(p) for p in sorted((FIXTURES / "incidents").glob("*")) if p.is_dir()]


def words(finding: Finding) -> str:
    """All that a finding says to a reader: its sentence, its facts, its fixes."""
    data = finding_to_json(finding)
    return json.dumps([data["message"], data["facts"], data["fixes"]], ensure_ascii=False)


def loud(report: Report) -> list[Finding]:
    """The findings above a note."""
    return [f for f in report.findings if f.severity > Severity.NOTE]


def brief(findings: Sequence[Finding]) -> list[str]:
    """Findings in short, for messages of failed tests."""
    return [f"{f.rule} {f.severity.label} {f.role.value} {place_of(f)}: {f.message}" for f in findings]


def place_of(finding: Finding) -> str:
    """The claimed place as `file.py:12`; "" without one."""
    if not finding.code:
        return ""
    place = finding.code[0]
    return f"{place.file.replace(chr(92), '/')}:{place.line}"


def complaints(case: Case, report: Report) -> list[str]:
    """What the report fails to meet, in words."""
    expect = case.expect
    found = list(_fires(expect, report) if case.fires else _silent(expect, report))
    return [*found, *brief(report.findings)] if found else []


def _fires(expect: dict[str, Any], report: Report) -> Iterator[str]:
    if unknown := set(expect) - FIRES_KEYS:
        yield f"unknown keys {sorted(unknown)}"
    same = [f for f in report.findings if f.rule == expect["rule"]]
    if not same:
        yield f"no {expect['rule']}"
        return
    lists = [list(_mismatches(expect, f, report)) for f in same]
    yield from min(lists, key=len)
    roots = [f for f in report.roots() if f.severity > Severity.NOTE]
    if len(roots) != expect.get("roots", len(roots)):
        yield f"{len(roots)} root findings, not {expect['roots']}"
    for pattern in expect.get("never", []):
        for f in report.roots():
            if f.severity > Severity.NOTE and (m := re.search(pattern, words(f), re.IGNORECASE)):
                yield f"{f.rule} says {m[0]!r}"


def _mismatches(expect: dict[str, Any], finding: Finding, report: Report) -> Iterator[str]:
    """What is not as expected of one finding of the rule."""
    if expect.get("first") and report.findings[0] is not finding:
        yield f"{finding.rule} is not the first finding"
    if finding.severity.label != expect.get("severity", finding.severity.label):
        yield f"severity {finding.severity.label}, not {expect['severity']}"
    if finding.role.value != expect.get("role", finding.role.value):
        yield f"role {finding.role.value}, not {expect['role']}"
    if "place" in expect and not f"/{place_of(finding)}".endswith(f"/{expect['place']}"):
        yield f"at {place_of(finding) or 'no place'}, not {expect['place']}"
    if "exactness" in expect and (not finding.code or finding.code[0].exactness != expect["exactness"]):
        yield f"exactness is not {expect['exactness']}"
    if "ranks" in expect and sorted(finding.ranks) != expect["ranks"]:
        yield f"ranks {list(finding.ranks)}, not {expect['ranks']}"
    for pattern in expect.get("says", []):
        if not re.search(pattern, words(finding), re.IGNORECASE):
            yield f"does not say /{pattern}/ but {words(finding)}"


def _silent(expect: dict[str, Any], report: Report) -> Iterator[str]:
    if unknown := set(expect) - SILENT_KEYS:
        yield f"unknown keys {sorted(unknown)}"
    above = loud(report)
    if any(f.rule == expect.get("rule") for f in above):
        yield f"{expect['rule']} is not silent"
    if "worst" in expect:
        limit = Severity.parse(expect["worst"])
        yield from (f"{f.rule} is {f.severity.label}, above {limit.label}" for f in above if f.severity > limit)
    elif "other" in expect:
        if not any(f.rule == expect["other"] and f.role is Role.ROOT for f in above):
            yield f"no root finding of {expect['other']}"
    else:
        yield "neither `worst` nor `other` is given"
    for pattern in expect.get("never", []):
        for f in above:
            if m := re.search(pattern, words(f), re.IGNORECASE):
                yield f"{f.rule} says {m[0]!r}"
