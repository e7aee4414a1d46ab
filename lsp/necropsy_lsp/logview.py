"""The report of a log to protocol types on the log's own lines: diagnostics and outline, pure functions.

The engine ends lines at line feeds; the protocol also at a lone carriage return, of which
progress bars are full. `LogText` knows both. A line that changed since gets no diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from lsprotocol import types
from msgspec import Struct, field
from pygls.workspace import PositionCodec

from necropsy_parsers.numbers import natural

from necropsy_lsp.analysis import ReportedFinding, Run, WholeReport
from necropsy_lsp.stored import Anchor, Place
from necropsy_lsp.text import split_lines

MOST_RELATED: Final = 20
MOST_SYMBOLS: Final = 2000
LONGEST: Final = 4096  # characters of a line that are searched for marks
_LONE_RETURN: Final = re.compile(r"\r(?!\n)")
_COMPILE: Final = re.compile(r"^[VIDWEC]\d{4} [^\]\n]{1,200}\] \[(!?\d+(?:/\d+)+(?:_\d+)?)\]")
_RANK: Final = re.compile(r"\[rank ?(\d{1,6})\]|\[default(\d{1,6})\]:|^\s*(\d{1,6}): ")

Locate = Callable[[Place], str | None]  # place of a finding -> URI of a local file


class LogText:
    """A log as it was analyzed: its lines as the client counts them."""

    def __init__(self, text: str) -> None:
        self.lines = split_lines(text)
        self._starts: list[int] | None = None
        if _LONE_RETURN.search(text):
            self._starts, line = [], 0
            for part in text.split("\n"):
                self._starts.append(line)
                line += len(_LONE_RETURN.findall(part.removesuffix("\r"))) + 1
            self._starts.append(line)

    def line_of(self, anchor: Anchor) -> int | None:
        """The client's line (0-based) of what an anchor quotes; None for a line that is not there."""
        first = anchor.line - 1
        last = first
        if self._starts is not None:
            if not 0 <= first < len(self._starts) - 1:
                return None
            first, last = self._starts[first], self._starts[first + 1] - 1
        if not 0 <= first < len(self.lines):
            return None
        parts = range(last, first - 1, -1)
        quoting = (i for i in parts if anchor.text and i < len(self.lines) and anchor.text[:80] in self.lines[i])
        return next(quoting, first)

    def range_of(self, line: int, quote: str, codec: PositionCodec) -> types.Range:
        """The quoted part of a line, else the line without its margins."""
        text = self.lines[line]
        start = text.find(quote) if quote else -1
        end = start + len(quote)
        if start < 0:
            start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        units = codec.client_num_units
        return types.Range(types.Position(line, units(text[:start])), types.Position(line, units(text[:end])))


class Mark(Struct, frozen=True):
    """A diagnostic of the log and the line it was made for."""

    text: str
    diagnostic: types.Diagnostic


class Marks(Struct):
    """What a scan over the lines of a log found: first and last line by compile id, first line by rank."""

    compiles: dict[str, tuple[int, int]] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)

    def scan(self, lines: Sequence[str], start: int, end: int) -> None:
        """Look at some of the lines."""
        for number in range(start, min(end, len(lines))):
            line = lines[number][:LONGEST]
            if "] [" in line and (found := _COMPILE.search(line)):
                first, _ = self.compiles.get(found[1], (number, number))
                self.compiles[found[1]] = (first, number)
            if found := _RANK.search(line):
                self.ranks.setdefault(natural(found[1] or found[2] or found[3]), number)


def marks_of(
    report: WholeReport, name: str, log: LogText, codec: PositionCodec, locate: Locate, convert: Convert
) -> list[Mark]:
    """One diagnostic for each root finding that is anchored in the log called `name`."""
    found = []
    for finding in report.findings:
        if finding.role != "root" or finding.anchor.input != name:
            continue
        line = log.line_of(finding.anchor)
        if line is not None:
            where = log.range_of(line, finding.anchor.text, codec)
            related = [*_places(finding, locate), *_evidence(finding, name, log, codec)][:MOST_RELATED]
            found.append(Mark(log.lines[line], convert(finding, where, related)))
    return found


Convert = Callable[[ReportedFinding, types.Range, list[types.DiagnosticRelatedInformation]], types.Diagnostic]


def current(marks: Iterable[Mark], lines: Sequence[str]) -> list[types.Diagnostic]:
    """The diagnostics whose line is still what it was."""
    return [
        mark.diagnostic
        for mark in marks
        if (at := mark.diagnostic.range.start.line) < len(lines) and lines[at] == mark.text
    ]


def _places(finding: ReportedFinding, locate: Locate) -> Iterator[types.DiagnosticRelatedInformation]:
    for place in finding.code:
        uri = locate(place) if place.line else None
        if uri is not None:
            at = types.Position(max((place.line or 1) - 1, 0), 0)
            in_function = f" in {place.function}" if place.function else ""
            message = place.text.strip() or f"{place.file}, line {place.line}{in_function}"
            yield types.DiagnosticRelatedInformation(types.Location(uri, types.Range(at, at)), message)


def _evidence(
    finding: ReportedFinding, name: str, log: LogText, codec: PositionCodec
) -> Iterator[types.DiagnosticRelatedInformation]:
    for anchor in finding.related:
        if anchor.input == name and (line := log.line_of(anchor)) is not None:
            location = types.Location("", log.range_of(line, anchor.text, codec))
            yield types.DiagnosticRelatedInformation(location, anchor.label or anchor.text)


def outline(
    report: WholeReport, name: str, log: LogText, marks: Marks, codec: PositionCodec
) -> list[types.DocumentSymbol]:
    """Incidents with what followed from them and their evidence; ranks and how they ended; compilations."""
    incidents = list(_incidents(report, name, log, codec))
    ranks = [s for run in report.runs if (s := _rank(run, report, name, log, marks, codec)) is not None]
    compiles = [_compile(key, first, last, log, codec) for key, (first, last) in marks.compiles.items()]
    groups = [("Ranks", ranks), ("Compilations", compiles)]
    return incidents[:MOST_SYMBOLS] + [_group(title, found[:MOST_SYMBOLS]) for title, found in groups if found]


def _incidents(report: WholeReport, name: str, log: LogText, codec: PositionCodec) -> Iterator[types.DocumentSymbol]:
    here = [f for f in report.findings if f.anchor.input == name]
    roots = {f.fingerprint for f in here if f.role == "root"}
    for finding in here:
        if finding.role != "root" and finding.explained_by in roots:
            continue  # below its cause
        if (symbol := _finding(finding, log, codec)) is None:
            continue
        caused = [f for f in here if f.role != "root" and f.explained_by == finding.fingerprint]
        children = [s for f in caused if (s := _finding(f, log, codec)) is not None]
        told = {child.range.start.line for child in children}
        for anchor in finding.related:
            if anchor.input == name and (line := log.line_of(anchor)) is not None and line not in told:
                where = log.range_of(line, anchor.text, codec)
                children.append(_symbol(anchor.label or "evidence", anchor.text, types.SymbolKind.Key, where))
        yield _around(symbol, children)


def _finding(finding: ReportedFinding, log: LogText, codec: PositionCodec) -> types.DocumentSymbol | None:
    line = log.line_of(finding.anchor)
    if line is None:
        return None
    where = log.range_of(line, finding.anchor.text, codec)
    role = "" if finding.role == "root" else f" ({finding.role})"
    title = f"{finding.rule} {finding.name}{role}".strip()
    return _symbol(title, finding.message, types.SymbolKind.Event, where)


def _rank(
    run: Run, report: WholeReport, name: str, log: LogText, marks: Marks, codec: PositionCodec
) -> types.DocumentSymbol | None:
    own = [f for f in report.findings if f.anchor.input == name and set(f.ranks) & set(run.ranks)]
    lines = [line for f in own if (line := log.line_of(f.anchor)) is not None]
    lines += [marks.ranks[rank] for rank in run.ranks if rank in marks.ranks]
    if not lines:
        return None
    where = log.range_of(min(lines), "", codec)
    detail = ", ".join(filter(None, (run.ended, run.first_error)))
    children = [s for f in own if (s := _finding(f, log, codec)) is not None]
    return _around(_symbol(run.name, detail, types.SymbolKind.Object, where), children)


def _compile(key: str, first: int, last: int, log: LogText, codec: PositionCodec) -> types.DocumentSymbol:
    start, end = log.range_of(first, "", codec), log.range_of(last, "", codec)
    symbol = _symbol(f"compile {key}", f"lines {first + 1} to {last + 1}", types.SymbolKind.Function, start)
    symbol.range = types.Range(start.start, end.end)
    return symbol


def _symbol(name: str, detail: str, kind: types.SymbolKind, where: types.Range) -> types.DocumentSymbol:
    short = detail if len(detail) <= 200 else f"{detail[:199]}…"
    return types.DocumentSymbol(name or "finding", kind, where, where, detail=short)


def _around(symbol: types.DocumentSymbol, children: list[types.DocumentSymbol]) -> types.DocumentSymbol:
    """The symbol with children, and a range that holds theirs: clients find the current symbol by range."""
    start = min((s.range.start for s in (symbol, *children)), key=lambda p: (p.line, p.character))
    end = max((s.range.end for s in (symbol, *children)), key=lambda p: (p.line, p.character))
    symbol.range = types.Range(start, end)
    symbol.children = sorted(children, key=lambda s: (s.range.start.line, s.range.start.character)) or None
    return symbol


def _group(title: str, children: list[types.DocumentSymbol]) -> types.DocumentSymbol:
    first = min(children, key=lambda s: (s.range.start.line, s.range.start.character))
    head = _symbol(title, f"{len(children)}", types.SymbolKind.Namespace, first.selection_range)
    return _around(head, children)


def flat(
    symbols: Iterable[types.DocumentSymbol], uri: str, within: str | None = None
) -> Iterator[types.SymbolInformation]:
    """The outline for a client without a tree of symbols."""
    for symbol in symbols:
        yield types.SymbolInformation(
            types.Location(uri, symbol.selection_range), symbol.name, symbol.kind, container_name=within
        )
        yield from flat(symbol.children or (), uri, symbol.name)
