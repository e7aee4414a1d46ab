"""Report -> Markdown for an issue or a chat: the order of the text page, quotes fenced.

Whatever comes from an input is fenced, in a code span or escaped, so that a log cannot
add headings, links or pictures to the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from necropsy.finding import Finding, Severity
from necropsy.render import View
from necropsy.render.parts import kernels, outline, steps, words
from necropsy.render.parts.printable import lines, printable
from necropsy.report import KernelSummary, Report, StepSummary

NAME = "md"

_QUOTE: Final = 2_000  # characters
_FOLDED: Final = 20
_RANKS: Final = 40  # characters of a list of ranks
_SPECIAL: Final = re.compile(r"([\\*\[\]<>&~|#`!]|(?<![^\W_])_|_(?![^\W_]))")  # snake_case needs no escape


def render(report: Report, view: View) -> str:
    """The page; see the module docstring."""
    page = Page(view)
    plan = outline.outline(report)
    for story in plan.stories:
        page.finding(story.root)
        page.folded("What follows from it", story.followers)
    if plan.lead:
        page.block("The cause is not in these inputs; what they show follows from it.")
        page.finding(plan.lead)
    elif not plan.stories:
        what, of = words.nothing(report)
        page.block(f"**{what}** {of} {prose(words.sources(report, view.base))}.")
        for row in plan.unknown:
            page.block(prose(words.unknown(row, view.base)))
    for summary in steps.across(report.steps):
        page.steps(summary)
    for rows in kernels.inputs(report.kernels, bool(plan.stories)):
        page.kernels(rows)
    page.folded("Follows from a cause that these inputs do not show", plan.orphans)
    page.folded("Signs of it" if plan.stories else "Signs of trouble", plan.symptoms)
    page.folded("Worth knowing", plan.notes)
    page.bullets("Not evaluated, and what would supply the evidence", [_gap(g) for g in plan.gaps])
    trouble = [words.unread(f) for f in plan.inputs] + [words.issue(i, view.base) for i in plan.issues]
    page.bullets("Not read as it should be", [prose(row) for row in trouble])
    if plan.stories or plan.lead:
        page.block(f"Read {prose(words.sources(report, view.base))}: {words.tally(report.findings)}.")
    return page.text()


class Page:
    """Collects blocks, which blank lines separate."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._blocks: list[str] = []

    def text(self) -> str:
        """Everything so far."""
        return "\n\n".join(self._blocks) + "\n"

    def block(self, text: str) -> None:
        """One block of finished Markdown."""
        self._blocks.append(text)

    def steps(self, row: StepSummary) -> None:
        """Where the steps of a trace went, as a table."""
        head = f"### {prose(steps.title(row, '' if row.rank is None else f'rank {row.rank}'))}"
        rows = [f"| {prose(b.name)} | {steps.milliseconds(b.ns)} | {b.share:.1%} |" for b in steps.bars(row)]
        self.block("\n".join([head, "", "| a step | time | share |", "| --- | ---: | ---: |", *rows]))
        if told := steps.named(row):
            self.block(prose(told))
        if found := steps.lines(row):
            cells = [
                f"| {span(words.place(self.view.local(r.place), self.view.base))} | {steps.milliseconds(r.ns)} "
                f"| {r.share:.1%} |"
                for r in found
            ]
            head = f"### {prose(steps.lines_title(row))}"
            self.block("\n".join([head, "", "| a step | time | share |", "| --- | ---: | ---: |", *cells]))

    def kernels(self, rows: Sequence[KernelSummary]) -> None:
        """What Nsight Compute profiled, as a table."""
        cells = [
            f"| {prose(r.kernel + r.times)} "
            f"| {span(words.place(self.view.local(r.place), self.view.base)) if r.place is not None else ''} "
            f"| {r.time} | {r.share} | {r.bound_by} | {' | '.join(r.figures)} |"
            for r in kernels.listed(rows)
        ]
        titles = "| kernel | line | time | share | bound by | SM % | memory % | occupancy % |"
        rule = "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: |"
        self.block("\n".join([f"### {prose(kernels.title(rows))}", "", titles, rule, *cells]))

    def finding(self, finding: Finding) -> None:
        """A finding in full."""
        sure = f" ({finding.confidence.value})" if finding.confidence in words.CONFIDENCE else ""
        self.block(f"### {finding.severity.label.upper()} {prose(f'{finding.rule}{sure} {finding.name}'.strip())}")
        self.block(f"**{prose(finding.message)}**")
        if finding.code:
            self.block(
                "\n".join(
                    f"{'at' if n == 0 else 'also at'} {span(words.place(self.view.local(p), self.view.base))}  "
                    for n, p in enumerate(finding.code)
                ).rstrip()
            )
        if rows := self._source(finding):
            self.block(fence(rows))
        self._evidence(finding)
        self.bullets("", self._particulars(finding))
        for fix in finding.fixes:
            self.block(f"**Fix:** {prose(fix.title)}")
            if fix.command.strip():
                self.block(fence(lines(fix.command), "sh"))

    def folded(self, title: str, findings: Sequence[Finding]) -> None:
        """One line for all findings that read the same but for the rank."""
        entries = outline.fold(findings)
        rows = [self._entry(entry) for entry in entries[:_FOLDED]]
        if rest := sum(e.count for e in entries[_FOLDED:]):
            rows.append(f"{rest:,} more")
        self.bullets(title, rows)

    def bullets(self, title: str, rows: Sequence[str]) -> None:
        """A list under a bold title, or nothing for no rows."""
        if rows:
            self._blocks += [f"**{title}**"] if title else []
            self.block("\n".join(f"- {row}" for row in rows))

    def _source(self, finding: Finding) -> list[str]:
        if not finding.code:
            return []
        return [
            f"{'>' if row.marked else ' '} {row.number:>{row.digits}} | {printable(row.text)}".rstrip()
            for row in outline.source_rows(finding.code[0], self.view.excerpt)
        ]

    def _evidence(self, finding: Finding) -> None:
        self.block(f"Evidence: {span(words.anchor(finding.anchor, self.view.base))}")
        if quote := finding.anchor.text.strip():
            self.block(fence([printable(quote[:_QUOTE]) + ("…" if len(quote) > _QUOTE else "")]))
        self.bullets(
            "",
            [
                f"{span(words.anchor(r.anchor, self.view.base))} {prose(r.label)}"
                + (f": {span(r.anchor.text.strip()[:_QUOTE])}" if r.anchor.text.strip() else "")
                for r in finding.related
            ],
        )

    def _particulars(self, finding: Finding) -> list[str]:
        facts = [prose(words.fact(name, value)) for name, value in finding.facts.items() if not words.is_listing(value)]
        rows = [f"facts: {'; '.join(facts)}"] if facts else []
        for name, value in finding.facts.items():
            if isinstance(value, list) and words.is_listing(value):
                rows.append("\n".join([f"{prose(name.replace('_', ' '))}:", *(f"  - {span(str(v))}" for v in value)]))
        rows += [words.ranks(finding.ranks)] if finding.ranks else []
        rows += [f"cost: {price}"] if (price := words.cost(finding.cost)) else []
        rows += [f"seen {finding.count:,} times"] if finding.count > 1 else []
        rows += [f"certainty: {sure}"] if (sure := words.CONFIDENCE.get(finding.confidence)) else []
        if finding.code and (doubt := words.line_note(finding.code)):
            rows.append(doubt)
        if finding.code and (told := self.view.standing(finding.code[0])):
            rows.append(f"source: {prose(told)}")
        return rows

    def _entry(self, entry: outline.Fold) -> str:
        first = entry.first
        label = "" if first.severity is Severity.NOTE else f"{first.severity.label} "
        where = f" at {span(words.place(self.view.local(first.code[0]), self.view.base))}" if first.code else ""
        listed = words.ranks(entry.ranks)
        who = f" ({listed if len(listed) <= _RANKS else words.plural(len(entry.ranks), 'rank')})" if listed else ""
        return f"{label}{prose(first.rule)}{who}{where}: {prose(first.message)}"


def _gap(gap: outline.Gap) -> str:
    return f"{prose(gap.supply)} ({words.plural(len(gap.rules), 'rule')}: {prose(', '.join(gap.tables))})"


def prose(text: str) -> str:
    """`text` as running text: nothing in it is markup, but for well-formed `code spans`."""
    parts = re.split(r"(`[^`\n]+`)", printable(text))
    return "".join(p if n % 2 else _SPECIAL.sub(r"\\\1", p) for n, p in enumerate(parts))


def span(text: str) -> str:
    """`text` as a code span, whatever backticks it holds."""
    text = printable(text)
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fence(rows: Sequence[str], language: str = "text") -> str:
    """`rows` as a fenced block that none of them can close."""
    longest = max((len(run) for row in rows for run in re.findall("`+", row)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([ticks + language, *rows, ticks])
