"""What hover, lenses and suppression make of a finding, and that a hostile one stays text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from necropsy.rule import all_rules
from necropsy_lsp.describe import Markdown, Style, hover_text
from necropsy_lsp.edits._text import apply, parsed
from necropsy_lsp.lenses import lenses, price_of, title
from necropsy_lsp.matching import functions_of
from necropsy_lsp.placed import Shown
from necropsy_lsp.rule_text import rule_text
from necropsy_lsp.silence import suppression
from necropsy_lsp.stored import Anchor, Cost, Fix, Place, StoredFinding

HOSTILE = "[a](http://192.0.2.1/) ![b](x) <img src=x> \x1b[2J\u202e # h\n---\n`` ` ```x"


def finding(**changes: object) -> StoredFinding:
    given: dict[str, object] = {
        "rule": "CMP003",
        "severity": "warning",
        "message": "It waits.",
        "code": [Place("train.py", 3, text="x.item()")],
        "anchor": Anchor("run.log", 7, "boom"),
        "fingerprint": "f",
        "name": "tensor-item",
    }
    return StoredFinding(**(given | changes))  # type: ignore[arg-type]


def shown(found: StoredFinding, line: int = 2, stale: bool = False, place_index: int = 0) -> Shown:
    return Shown(found, Path("project"), "stored:x", line, line, stale, place_index)


def test_every_rule_has_a_text_that_no_import_is_needed_for() -> None:
    for rule in all_rules():
        text = rule_text(rule.code)
        assert text is not None, rule.code
        assert text.summary == rule.summary
        assert "**How to fix**" in text.body
    assert rule_text("cmp003") == rule_text("CMP003")


@pytest.mark.parametrize("code", ["CMP999", "../x", "", "CMP003.py", "_X001"])
def test_no_text_for_what_is_no_rule(code: str) -> None:
    assert rule_text(code) is None


@pytest.mark.parametrize("style", [Markdown(), Style()])
def test_a_hostile_report_adds_no_markup(style: Style) -> None:
    bad = finding(
        rule="ZZZ001",
        name=HOSTILE,
        message=HOSTILE,
        confidence=HOSTILE,
        facts={
            HOSTILE: HOSTILE,
            "list": [HOSTILE, "a b"],
            "none": None,
            "nulls": [None, 1],
            "big": 10**400,
            "nan": 1e999,
        },
        cost=Cost(10**400, 1e308, HOSTILE),
        fixes=[Fix(HOSTILE, "code", "safe", HOSTILE)],
        code=[Place(HOSTILE, 3, text=HOSTILE, function=HOSTILE), Place("b.py", 1)],
        anchor=Anchor(HOSTILE, 7, HOSTILE),
        related=[Anchor(HOSTILE, 7, HOSTILE, HOSTILE)] * 50,
        ranks=list(range(0, 100_000, 2)),
    )
    found = [shown(bad, stale=True), shown(bad, place_index=1), *[shown(bad)] * 50]
    text = hover_text(found, style, lambda project, anchor: "file:///x")
    assert not set(text) & {"\x1b", "\u202e"}
    assert len(text) < 40_000
    if isinstance(style, Markdown):
        reader = MarkdownIt()  # with raw HTML on, as in an editor that trusts it
        reader.validateLink = lambda url: True  # type: ignore[method-assign]
        page = reader.render(text)
        assert set(re.findall(r"<a [^>]*>", page)) == {'<a href="file:///x">'}
        assert set(re.findall(r"</?(\w+)", page)) <= {"a", "p", "strong", "pre", "code", "ul", "li"}


def test_pages_come_once_a_rule() -> None:
    text = hover_text([shown(finding()), shown(finding(message="Again."))], Markdown(), lambda project, anchor: None)
    assert text.count("**What it means**") == 1
    assert "Evidence: `run.log:7`" in text


def test_lenses_stand_above_the_innermost_function() -> None:
    source = "class A:\n    @wrap\n    def f(self):\n        x.item()\n\n    def g(self):\n        pass\nx.item()\n"
    found = [
        shown(finding(), 3),
        shown(finding(severity="error"), 3),
        shown(finding(), 3, stale=True),
        shown(finding(), 7),
    ]
    (lens,) = lenses(found, functions_of(source.split("\n")))
    assert (lens.line, lens.worst.finding.severity) == (2, "error")
    assert lens.title == "Necropsy: 2 findings: 1 error, 1 warning; 2 graph breaks"


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (Cost(), ""),
        (Cost(1500, None, "measured"), "1.5 us"),
        (Cost(1500, 0.25, "estimated"), "about 1.5 us, 25 % of the time"),
        (Cost(1500, 0.25, "unknown"), ""),
        (Cost(None, 2.0, "measured"), ""),
        (Cost(-5, -1.0, "measured"), ""),
        (Cost(10**400, float("nan"), "measured"), ""),
    ],
)
def test_prices(cost: Cost, said: str) -> None:
    assert price_of([finding(cost=cost)]) == said


@pytest.mark.parametrize(
    ("told", "said"), [(6, "6 graph breaks"), ("6", "2 graph breaks"), (10**400, "2 graph breaks")]
)
def test_how_often_is_what_the_facts_say(told: int | str, said: str) -> None:
    assert title([finding(facts={"times": told}, count=2)]) == f"Necropsy: 1 warning; {said}"
    assert title([finding(rule="CMP009", facts={"recompilations": 4})]) == "Necropsy: 1 warning; 4 recompilations"


def test_gpu_time_and_launches_where_facts_give_them() -> None:
    facts = {"gpu_time_ns": 2_000_000, "launches": 1}
    assert title([finding(rule="LCH001", facts=facts)]) == "Necropsy: 1 warning; 1 launch; GPU 2 ms"
    assert title([finding(rule="LCH001", facts={"launches": "many"})]) == "Necropsy: 1 warning"


SUPPRESSED = [
    ("x = 1\n", 0, 0, "x = 1  # necropsy: ignore[CMP003]\n"),
    ("x = 1  \r\ny\r\n", 0, 0, "x = 1  # necropsy: ignore[CMP003]  \r\ny\r\n"),
    ("x = 1  # noqa\n", 0, 0, "x = 1  # noqa  # necropsy: ignore[CMP003]\n"),
    ("x = 1  # necropsy: ignore[OOM] why\n", 0, 0, "x = 1  # necropsy: ignore[OOM, CMP003] why\n"),
    ("x = 1  # necropsy: ignore[ ]\n", 0, 0, "x = 1  # necropsy: ignore[ CMP003]\n"),
    ("x = 1 + \\\n  2\n", 0, 0, None),
    ("x = 1 + \\\n  2\n", 0, 1, "x = 1 + \\\n  2  # necropsy: ignore[CMP003]\n"),
    ('x = """\n"""\n', 0, 1, 'x = """\n"""  # necropsy: ignore[CMP003]\n'),
    ('x = """\n"""\n', 0, 0, None),
    ("f('# necropsy: ignore[OOM]')\n", 0, 0, None),  # a string that looks like one
    ("🔥 = 1\n", 0, 0, None),  # does not parse
    ("x\n", 5, 9, None),
]


@pytest.mark.parametrize(("source", "first", "last", "wanted"), SUPPRESSED, ids=range(len(SUPPRESSED)))
def test_suppression(source: str, first: int, last: int, wanted: str | None) -> None:
    text = parsed(source)
    change = suppression(text, first, last, "CMP003") if text is not None else None
    assert (apply(source, [change]) if change is not None else None) == wanted


@pytest.mark.parametrize("code", ["", "x]\n", "CMP", "ZZZ1234"])
def test_no_comment_for_what_is_no_code(code: str) -> None:
    text = parsed("x = 1\n")
    assert text is not None
    assert suppression(text, 0, 0, code) is None
