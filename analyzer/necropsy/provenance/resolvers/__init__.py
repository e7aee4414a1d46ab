"""Findings that name a function, and what they rest on, to lines: ordered resolvers, one a file.

A rule names the place that its evidence tells: a line where the text says it, a function where a trace does. What a
finding rests on beyond that (`Place.rests`) is handed to these, in the order of `ORDER`: each takes the findings and
gives them back, with better places where it knows any and says how (`Place.how`) and how exactly; a place that is a
line already is left alone. A module offers `ORDER` and `resolve(found, evidence)`. Discovery walks this folder; adding
a resolver edits no list.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from necropsy.finding import Finding

if TYPE_CHECKING:
    from necropsy.evidence import Evidence

Resolve = Callable[[Iterable[Finding], "Evidence"], list[Finding]]


@cache
def all_resolvers() -> tuple[Resolve, ...]:
    """Every resolver, in its order."""
    found: list[tuple[int, Resolve]] = []
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        module = importlib.import_module(info.name)
        found.append((module.ORDER, module.resolve))
    return tuple(resolve for _, resolve in sorted(found, key=lambda x: x[0]))


def resolved(found: Iterable[Finding], evidence: Evidence) -> list[Finding]:
    """The findings with the best places that any resolver knows."""
    findings = list(found)
    for resolve in all_resolvers():
        findings = resolve(findings, evidence)
    return findings
