"""Resolvers of lines: found by walking the folder, in their order, and no finding is lost or worsened by them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from tests.support.cases import FIXTURES

from necropsy_parsers.records import Anchor

import necropsy
from necropsy.finding import Finding, Place, Severity
from necropsy.provenance import resolvers
from necropsy.provenance.resolvers import all_resolvers, generated, resolved, statements

RUN: Final = FIXTURES / "rules" / "OOM005"
ANCHOR: Final = Anchor("run.log", 0, 1, 1, "x")


def finding(*places: Place) -> Finding:
    return Finding(message="m", anchor=ANCHOR, severity=Severity.WARNING, rule="KRN020", code=places)


def test_generated_code_is_asked_before_the_source() -> None:
    assert all_resolvers() == (generated.resolve, statements.resolve)
    assert len(all_resolvers()) == len([p for p in Path(resolvers.__path__[0]).glob("*.py") if p.name[0] != "_"])


@pytest.mark.parametrize("exactness", ["line", "statement", "function", "module"])
def test_a_place_that_rests_on_nothing_more_is_left_alone(exactness: str) -> None:
    log = next(RUN.glob("fires-*/input.log"))
    given = [finding(Place("train.py", 12, None, "step", "y = f(x)", exactness)), finding()]
    assert resolved(given, necropsy.load(str(log))) == given
