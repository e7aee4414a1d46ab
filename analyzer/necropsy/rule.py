"""How a rule is declared and found.

A rule is a function whose parameters are the tables it needs; its module's docstring
is its page. `@rule` reads the annotations, so there is no second list of
requirements::

    @rule("OOM005", "device-out-of-memory", Severity.FATAL)
    def check(memory: DeviceMemory, settings: Settings) -> Iterator[Finding]: ...

A parameter typed `Table | None` is optional evidence; one typed with the struct
given as `settings=` receives the thresholds. Discovery walks `necropsy.rules`;
adding a rule edits no list.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import NoneType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields, replace

from necropsy.evidence import Evidence, Table
from necropsy.finding import Finding, Severity
from necropsy.report import NotEvaluated

Judged = Finding | NotEvaluated  # what a rule yields: see `lacking`

HEADINGS: Final = ("What it means", "Why it happens", "How to confirm", "How to fix", "Limits", "References")


class Rule(Struct, frozen=True):
    """A declared rule.

    `general` rules yield to any other rule that claims the same event. `aliases` are
    other names under which `explain` finds it (among them names that articles use for
    a signal that has none).
    """

    code: str
    name: str
    severity: Severity
    since: str
    needs: tuple[tuple[str, type[Table[Any]], bool], ...]
    settings: type[Any] | None
    settings_parameter: str
    general: bool
    aliases: tuple[str, ...]
    doc: str
    declared_at: str
    run: Callable[..., Iterable[Judged]]

    @property
    def summary(self) -> str:
        """First line of the rule's page."""
        return self.doc.strip().splitlines()[0]

    def missing(self, evidence: Evidence) -> list[NotEvaluated]:
        """The required tables that no input could fill."""
        needed = [table for _, table, optional in self.needs if not optional]
        told = any("torch_trace" in table.formats for table in needed)
        return [
            NotEvaluated(self.code, table.name, table.supply)
            for table in needed
            if not evidence.covers(table) and not (told and evidence.beside(table))
        ]

    def evaluate(
        self, evidence: Evidence, options: dict[str, Any] | None = None, lacks: list[NotEvaluated] | None = None
    ) -> Iterator[Finding]:
        """Run the rule; fills in code, name and default severity of what it yields.

        What a table that is there lacks (`lacking`) goes to `lacks`, each once. Raises `TypeError` for a setting that
        the rule does not have.
        """
        arguments: dict[str, Any] = {}
        for parameter, table, optional in self.needs:
            arguments[parameter] = evidence.get(table) if evidence.covers(table) or not optional else None
        if self.settings is not None:
            arguments[self.settings_parameter] = self.settings(**(options or {}))
        for found in self.run(**arguments):
            if isinstance(found, Finding):
                yield replace(found, rule=self.code, name=self.name)
            elif lacks is not None and (told := replace(found, rule=self.code)) not in lacks:
                lacks.append(told)


def lacking(missing: str, supply: str) -> NotEvaluated:
    """What a rule yields where a table is there but not what it needs of it: metrics that were not collected, say.

    `supply` says how to collect it (`ncu --section Occupancy`).
    """
    return NotEvaluated("", missing, supply)


def rule(
    code: str,
    name: str,
    severity: Severity,
    *,
    since: str = "0.1",
    settings: type[Any] | None = None,
    general: bool = False,
    aliases: tuple[str, ...] = (),
) -> Callable[[Callable[..., Iterable[Judged]]], Rule]:
    """Declare a rule; see the module docstring."""

    def declare(function: Callable[..., Iterable[Judged]]) -> Rule:
        needs: list[tuple[str, type[Table[Any]], bool]] = []
        settings_parameter = ""
        hints = typing.get_type_hints(function)
        code_object = function.__code__  # `inspect.signature` takes ten times as long, for each rule at every start
        for parameter in code_object.co_varnames[: code_object.co_argcount + code_object.co_kwonlyargcount]:
            wanted = hints[parameter]
            if settings is not None and wanted is settings:
                settings_parameter = parameter
                continue
            options = [a for a in typing.get_args(wanted) if a is not NoneType]
            needs.append((parameter, options[0] if options else wanted, bool(options)))
        return Rule(
            code=code,
            name=name,
            severity=severity,
            since=since,
            needs=tuple(needs),
            settings=settings,
            settings_parameter=settings_parameter,
            general=general,
            aliases=aliases,
            doc=inspect.cleandoc(function.__globals__["__doc__"] or ""),
            declared_at=function.__module__,
            run=function,
        )

    return declare


def settings_of(declared: Rule) -> dict[str, tuple[str, Any]]:
    """Name -> (type, default) of each threshold of a rule."""
    if declared.settings is None:
        return {}
    lineage = reversed(declared.settings.__mro__)  # families of rules share thresholds by inheritance
    kinds = {name: kind for c in lineage for name, kind in inspect.get_annotations(c).items()}
    return {f.name: (str(kinds[f.name]), f.default) for f in fields(declared.settings)}


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule in `necropsy.rules`, sorted by code."""
    import necropsy.rules

    found: list[Rule] = []
    for info in pkgutil.walk_packages(necropsy.rules.__path__, "necropsy.rules."):
        module = importlib.import_module(info.name)
        found += [value for value in vars(module).values() if isinstance(value, Rule)]
    return tuple(sorted(found, key=lambda r: r.code))
