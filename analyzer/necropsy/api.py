"""From paths to a report: open, sniff, parse, fill tables, run rules, correlate."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import INPUT_SHIFT
from necropsy_parsers.sniff import Claim, describe, sniff_source
from necropsy_parsers.source import open_sources

import necropsy
from necropsy.config import Config
from necropsy.correlate import correlate
from necropsy.correlate.outlived import outlived
from necropsy.evidence import Evidence
from necropsy.evidence.activity import Activity
from necropsy.evidence.clocks import Clocks
from necropsy.evidence.reading_issues import ReadingIssues
from necropsy.evidence.sources import Sources
from necropsy.finding import Finding, Place
from necropsy.processes import runs
from necropsy.profiled import profiled
from necropsy.provenance.files import SourceTree
from necropsy.provenance.resolvers import resolved
from necropsy.reading import Outcome, Task, deferrable, read_all
from necropsy.report import InputRow, NotEvaluated, Report
from necropsy.rule import all_rules
from necropsy.stepping import stepping

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

Progress = Callable[[int, int | None], None]


class Loaded:
    """Evidence with what is known about how it was read."""

    def __init__(self, paths: Sequence[str], config: Config, progress: Progress | None = None) -> None:
        self.issues = Issues()
        self.inputs: list[InputRow]
        self.evidence = Evidence()
        formats: set[str] = set()
        later: list[Task] = []  # traces, which several processes may read at once
        rows: dict[int, InputRow] = {}
        for number, source in enumerate(open_sources(paths, self.issues)):
            claim = sniff_source(source)
            if claim is not None:
                formats.add(claim.format.name)
            if claim is not None and deferrable(source, claim):
                later.append(Task(number, number << INPUT_SHIFT, source, claim, config.cache))
            else:
                rows[number] = self._read(source, claim, number << INPUT_SHIFT, progress)
        for outcome in read_all(later, config.jobs, progress):
            rows[outcome.task.number] = self._take(outcome)
        self.inputs = [rows[number] for number in sorted(rows)]
        self.evidence.finish(formats)
        self.evidence.get(ReadingIssues).rows = self.issues.rows()
        sources = self.evidence.get(Sources)
        sources.tree = SourceTree([str(s) for s in config.source], paths, sources.quoted)

    def _take(self, outcome: Outcome) -> InputRow:
        for record in outcome.records:
            self.evidence.add(record)
        self.issues.take(outcome.issues)
        name, claim = outcome.task.source.name, outcome.task.claim
        return InputRow(name, claim.format.name, claim.reason, outcome.read, len(outcome.records))

    def _read(self, source: Source, claim: Claim | None, seq: int, progress: Progress | None) -> InputRow:
        if claim is None:
            self.issues.add("sniff/unknown", source.name, detail=describe(source.head(64)))
            return InputRow(source.name, "unknown", "no format claims it", source.read, 0)
        records = 0
        for record in claim.format.parse(source, self.issues, seq):
            self.evidence.add(record)
            records += 1
            if progress is not None and records % 64 == 0:
                progress(source.consumed, source.size)
        return InputRow(source.name, claim.format.name, claim.reason, source.read, records)


def load(paths: str | Sequence[str], *, config: Config | None = None) -> Evidence:
    """The evidence tables of `paths`: `load("run.log").exceptions` is a pandas DataFrame.

    Raises nothing on content; what could not be read is in `analyze(...).issues`.
    """
    return Loaded([paths] if isinstance(paths, str) else paths, config or Config()).evidence


def analyze(paths: str | Sequence[str], *, config: Config | None = None, progress: Progress | None = None) -> Report:
    """Analyze inputs (files, folders, globs, `-`) and report what happened.

    `progress` is called with (compressed bytes read, size or None) of the current input.
    """
    config = config or Config()
    loaded = Loaded([paths] if isinstance(paths, str) else paths, config, progress)
    report = Report(necropsy.__version__, inputs=loaded.inputs)
    found: list[Finding] = []
    for rule in all_rules():
        if not config.selects(rule.code):
            continue
        missing = rule.missing(loaded.evidence)
        if missing:
            report.not_evaluated += missing
            continue
        try:
            found += rule.evaluate(loaded.evidence, config.rules.get(rule.code), report.not_evaluated)
        except Exception as error:  # one rule's fault must not cost the reader all others
            if os.environ.get("NECROPSY_STRICT"):
                raise
            fault = f"a fault in the rule ({type(error).__name__}: {error})"
            report.not_evaluated.append(NotEvaluated(rule.code, fault, "a report of this fault to Necropsy"))
    general = frozenset(r.code for r in all_rules() if r.general)
    found = correlate(found, general, loaded.evidence.get(Clocks).starts())
    found = resolved(found, loaded.evidence)
    report.findings = outlived(found, loaded.evidence.get(Activity))
    report.runs = runs(loaded.evidence, report.findings)
    report.steps = stepping(loaded.evidence, report.findings)
    report.kernels = profiled(loaded.evidence)
    report.issues = loaded.issues.rows()
    tree = loaded.evidence.get(Sources).tree
    tree.learn(p for f in report.findings for p in f.code)
    tree.learn(Place(t.file, t.line, text=t.text) for s in report.steps for t in s.lines)
    report.excerpt = tree.excerpt
    return report


def sniff(paths: str | Sequence[str]) -> list[InputRow]:
    """Format and reason for each input, without reading further than its head."""
    issues = Issues()
    rows = []
    for source in open_sources([paths] if isinstance(paths, str) else paths, issues):
        claim = sniff_source(source)
        name, reason = (claim.format.name, claim.reason) if claim else ("unknown", describe(source.head(64)))
        rows.append(InputRow(source.name, name, reason, source.size or source.read, 0))
    return rows
