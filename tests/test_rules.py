"""Every rule against its cases, and the form of every rule and case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.cases import Case, complaints, rule_cases

from necropsy.rule import HEADINGS, Rule, all_rules

CASES = rule_cases()
RULES = all_rules()


def by_id(case: Case) -> str:
    return case.id


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder: no source but the case's own is within reach."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_rules_and_cases() -> None:
    assert RULES
    assert CASES


@pytest.mark.parametrize("case", CASES, ids=by_id)
def test_case(case: Case, elsewhere: Path) -> None:
    assert complaints(case, case.report(elsewhere)) == []


@pytest.mark.parametrize("case", CASES, ids=by_id)
def test_a_case_is_whole(case: Case) -> None:
    assert case.folder.name.startswith(("fires-", "silent-"))
    assert case.inputs
    assert all(p.name.startswith("input.") for p in case.inputs)
    assert case.expect["rule"] == case.folder.parent.name
    assert (case.folder / "origin.md").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("kind", ["fires", "silent"])
@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_every_rule_has_cases_of_both_kinds(rule: Rule, kind: str) -> None:
    assert [c.id for c in CASES if c.id.startswith(f"{rule.code}/{kind}-")]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
class TestPage:
    """A rule's docstring is its page."""

    def test_the_title_is_short(self, rule: Rule) -> None:
        assert 0 < len(rule.summary) <= 80

    def test_the_headings_are_there_in_order(self, rule: Rule) -> None:
        _, *rest = rule.doc.strip().splitlines()
        assert [line for line in rest if line and not line.startswith(" ")] == list(HEADINGS)

    def test_every_heading_has_text(self, rule: Rule) -> None:
        sections = re.split(rf"(?m)^(?:{'|'.join(HEADINGS)})$", rule.doc)
        assert all(section.strip() for section in sections)

    def test_there_is_a_reference(self, rule: Rule) -> None:
        references = rule.doc.split("\nReferences\n")[-1]
        assert re.search(r"(?m)^ +- https://\S+", references)

    def test_the_file_is_named_after_code_and_name(self, rule: Rule) -> None:
        file = rule.declared_at.rsplit(".", 1)[-1]
        assert file == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"

    def test_code_and_name_are_well_formed(self, rule: Rule) -> None:
        assert re.fullmatch(r"[A-Z]{3}\d{3}", rule.code)
        assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)+", rule.name)


def test_codes_names_and_aliases_are_unique() -> None:
    names = [n for r in RULES for n in (r.code.lower(), r.name, *(a.lower() for a in r.aliases))]
    assert sorted({n for n in names if names.count(n) > 1}) == []
