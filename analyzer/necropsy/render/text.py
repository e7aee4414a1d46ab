"""Report -> the page to read on a bad morning: the root cause, what to do, then the rest.

Only what fits a short page is told in full; the rest is counted. The order is that of
`parts.outline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from necropsy.finding import Finding, Fix, Place
from necropsy.render import View
from necropsy.render.parts import kernels, outline, steps, words
from necropsy.report import Report, StepSummary, short_path

if TYPE_CHECKING:
    from necropsy.render.parts.sheet import Sheet

NAME = "text"

_ROW: Final = 10  # cells of the column that holds "Evidence", "Fix", ...
_LEAD_FACTS: Final = 8
_OTHER_FACTS: Final = 4
_FACT_CELLS: Final = 160
_LISTED: Final = 6
_RELATED: Final = 3
_QUOTE_LINES: Final = 4
_FOLDED: Final = 5
_FULL_STORIES: Final = 10
_GAPS: Final = 4
_TABLES: Final = 3
_ISSUES: Final = 6
_RANKS: Final = 10
_BAR: Final = 24
_BAR_BESIDES: Final = 34  # cells of a bar's name and figures
_KERNEL_BESIDES: Final = 46  # cells of a kernel's time, share, verdict and figures
_MESSAGE_ROOM: Final = 15  # cells below which a clipped message says nothing


def render(report: Report, view: View) -> str:
    """The page; see the module docstring."""
    from necropsy.render.parts.sheet import Sheet  # rich: 30 ms that other formats need not pay

    sheet = Sheet(view)
    plan = outline.outline(report)
    if plan.stories:
        for number, story in enumerate(plan.stories[:_FULL_STORIES]):
            _finding(sheet, story.root, lead=number == 0)
            _followers(sheet, story.followers)
        _folded(sheet, "More findings:", [s.root for s in plan.stories[_FULL_STORIES:]])
    elif plan.lead:
        sheet.para(("The cause is not in these inputs; what they show follows from it.", "head"))
        _finding(sheet, plan.lead, lead=True)
    else:
        _nothing_found(sheet, report, plan)
    _steps(sheet, report)
    _kernels(sheet, report, bool(plan.stories))
    _ranks(sheet, report)
    _folded(sheet, "Follows from a cause that these inputs do not show:", plan.orphans)
    _folded(sheet, "Signs of it:" if plan.stories else "Signs of trouble:", plan.symptoms)
    _folded(sheet, "Worth knowing:", plan.notes)
    if not words.nothing_read(report):  # why is all there is to say
        _not_evaluated(sheet, plan.gaps)
    _issues(sheet, plan)
    _foot(sheet, report, plan)
    return sheet.text()


def _finding(sheet: Sheet, finding: Finding, lead: bool) -> None:
    sheet.gap()
    _headline(sheet, finding)
    sheet.para((finding.message, "head" if lead else ""))
    _source(sheet, finding.code)
    sheet.gap()
    _evidence(sheet, finding, lead)
    _rows(sheet, finding, lead)
    _fixes(sheet, finding.fixes if lead else finding.fixes[:1])


def _headline(sheet: Sheet, finding: Finding) -> None:
    """`FATAL OOM005 (likely)  train.py:88 in step`; the place moves down where it does not fit."""
    sure = f" ({finding.confidence.value})" if finding.confidence in words.CONFIDENCE else ""
    word = (finding.severity.label.upper(), finding.severity.label)
    code = f" {finding.rule}{sure}".rstrip()
    where = sheet.view.local(finding.code[0]) if finding.code else None
    spot = words.place(where, sheet.view.base) if where else ""
    if where and sheet.cells(word, code, "  ", spot) <= sheet.width:
        sheet.line(word, (code, "head"), "  ", (spot, "place"))
        return
    sheet.line(word, (f"{code} {finding.name}".rstrip(), "head"))
    if where:
        _place(sheet, where)


def _place(sheet: Sheet, where: Place) -> None:
    """`file:line in function`; a long path is shortened only where it does not fit without the function."""
    base = sheet.view.base
    bare = words.place(replace(where, function=""), base)
    if sheet.cells(words.place(where, base)) > sheet.width >= sheet.cells(bare):
        sheet.line((bare, "place"))
        sheet.line(f"in {where.function}")
    else:
        sheet.line((words.place(where, base, sheet.width), "place"))


def _source(sheet: Sheet, code: Sequence[Place]) -> None:
    rows = outline.source_rows(code[0], sheet.view.excerpt) if code else []
    if rows:
        sheet.gap()
    for row in rows:
        gutter = f"{'>' if row.marked else ' '} {row.number:>{row.digits}} {sheet.glyph('│')} "
        sheet.clipped((gutter, "mark" if row.marked else "dim"), (row.text, "head" if row.marked else ""))


def _evidence(sheet: Sheet, finding: Finding, lead: bool) -> None:
    base = sheet.view.base
    sheet.line(_label("Evidence"), (words.anchor(finding.anchor, base), "place"))
    if finding.anchor.text.strip():
        sheet.para(finding.anchor.text.strip(), indent=_ROW + 2, most=_QUOTE_LINES if lead else 1, fold=True)
    shown = finding.related[: _RELATED if lead else 1]
    for related in shown:
        spot = words.anchor(related.anchor, base)
        label = f"  {related.label}" if related.label else ""
        below = _ROW + sheet.cells(spot, label) > sheet.width
        sheet.line(" " * _ROW, (spot, "place"), "" if below else label)
        if below:
            sheet.clipped(" " * _ROW, label)
        if lead and related.anchor.text.strip():
            sheet.clipped(" " * (_ROW + 2), related.anchor.text.strip())
    if len(finding.related) > len(shown):
        sheet.line(" " * _ROW, (f"+{len(finding.related) - len(shown):,} more", "dim"))


def _rows(sheet: Sheet, finding: Finding, lead: bool) -> None:
    """The one-line particulars: doubt, other places, facts, ranks, cost."""
    base = sheet.view.base
    if sure := words.CONFIDENCE.get(finding.confidence):
        _row(sheet, "Certainty", sure)
    if finding.code and (doubt := words.line_note(finding.code)):
        _row(sheet, "Line", doubt)
    if finding.code and (told := sheet.view.standing(finding.code[0])):
        _row(sheet, "Source", told)
    for other in finding.code[1:] if lead else ():
        sheet.line(_label("Also at"), (words.place(sheet.view.local(other), base, sheet.width - _ROW), "place"))
    _facts(sheet, finding, _LEAD_FACTS if lead else _OTHER_FACTS)
    if finding.ranks:
        _row(sheet, "Ranks", words.spans(finding.ranks))
    if lead and finding.time is not None:
        _row(sheet, "Time", finding.time.text)
    if len(finding.attempts) > 1:
        _row(sheet, "Attempts", words.spans(n + 1 for n in finding.attempts))
    if price := words.cost(finding.cost):
        _row(sheet, "Cost", price)
    if finding.count > 1:
        _row(sheet, "Seen", f"{finding.count:,} times")


def _facts(sheet: Sheet, finding: Finding, most: int) -> None:
    """Short facts in a row; lists of sentences or source lines below, one to a line."""
    short = {n: v for n, v in finding.facts.items() if not words.is_listing(v)}
    facts = [sheet.clip(words.fact(name, value), _FACT_CELLS) for name, value in short.items()]
    more = [f"+{len(facts) - most} more"] if len(facts) > most else []
    label = _label("Facts")
    if facts:
        sheet.listing(facts[:most] + more, _ROW, label)
        label = _label("")
    for name, value in finding.facts.items():
        if isinstance(value, list) and words.is_listing(value):
            sheet.line(label, f"{name.replace('_', ' ')}:")
            label = _label("")
            for item in value[:_LISTED]:
                sheet.clipped(" " * (_ROW + 2), str(item))
            if len(value) > _LISTED:
                sheet.line(" " * (_ROW + 2), (f"+{len(value) - _LISTED:,} more", "dim"))


def _fixes(sheet: Sheet, fixes: Sequence[Fix]) -> None:
    for number, fix in enumerate(fixes, 1):
        step = f"{number}. " if len(fixes) > 1 else ""
        head = ("Fix" if number == 1 else "").ljust(_ROW)
        sheet.para(fix.title, indent=_ROW + len(step), first=(head + step, "head"))
        for command in _command_lines(fix.command):
            sheet.line(" " * (_ROW + len(step) + 2), (command, "command"))


def _command_lines(command: str) -> list[str]:
    from necropsy.render.parts.printable import lines

    return lines(command) if command.strip() else []


def _followers(sheet: Sheet, followers: list[Finding]) -> None:
    if followers:
        count = sum(f.count for f in followers)
        verb = "follows" if count == 1 else "follow"
        _folded(sheet, f"And {count:,} more that {verb} from it:", followers)


def _folded(sheet: Sheet, title: str, findings: list[Finding]) -> None:
    """One line each, those that read the same but for the rank as one; the rest is counted."""
    if not findings:
        return
    sheet.gap()
    sheet.para((title, "head"))
    entries = outline.fold(findings)
    for entry in entries[:_FOLDED]:
        _entry(sheet, entry)
    if rest := sum(e.count for e in entries[_FOLDED:]):
        sheet.line((f"  +{rest:,} more", "dim"))


def _entry(sheet: Sheet, entry: outline.Fold) -> None:
    """`  error DST001  ranks 1-7  train.py:141 in step  <message as far as it fits>`."""
    first = entry.first
    head = f"  {first.severity.label} {first.rule}".rstrip()
    times = f"{entry.count:,} times" if entry.count > max(len(entry.ranks), 1) else ""
    parts = [part for part in (sheet.clip(words.ranks(entry.ranks), 24), times) if part]
    spans = [(head, ""), *((f"  {part}", "") for part in parts)]
    if first.code:
        spans.append((f"  {_short_place(sheet, sheet.view.local(first.code[0]))}", "place"))
    left = sheet.width - sheet.cells(*spans) - 2
    if left > _MESSAGE_ROOM:
        spans.append((f"  {sheet.clip(first.message, left)}", ""))
    sheet.line(*spans)


def _short_place(sheet: Sheet, where: Place) -> str:
    """The place in half a line; the function goes first, then the start of the path."""
    room = sheet.width // 2
    whole = words.place(where, sheet.view.base)
    return whole if len(whole) <= room else words.place(replace(where, function=""), sheet.view.base, room)


def _nothing_found(sheet: Sheet, report: Report, plan: outline.Outline) -> None:
    rest = " Nothing above a note was found." if plan.notes else ""
    what, of = words.nothing(report)
    sheet.para((what, "head"), f" {of} {words.sources(report, sheet.view.base)}.{rest}")
    for row in plan.unknown:
        sheet.para(words.unknown(row, sheet.view.base))
    if plan.incomplete and not words.nothing_read(report):
        sheet.para("Part of the input could not be read, so this is not the whole run.")


def _not_evaluated(sheet: Sheet, gaps: list[outline.Gap]) -> None:
    if not gaps:
        return
    total = len({rule for gap in gaps for rule in gap.rules})
    sheet.gap()
    sheet.para(("Not evaluated", "head"), f": {words.plural(total, 'rule')}, for want of:")
    for gap in gaps[:_GAPS]:
        tables = f": {', '.join(gap.tables)}" if len(gap.tables) <= _TABLES else ""
        scope = f" ({words.plural(len(gap.rules), 'rule')}{tables})"
        sheet.para(gap.supply, (scope, "dim"), indent=4, first="  -")
    if rest := {rule for gap in gaps[_GAPS:] for rule in gap.rules}:
        sheet.para((f"other evidence for {words.plural(len(rest), 'more rule')}: see --format json", "dim"), indent=2)


def _issues(sheet: Sheet, plan: outline.Outline) -> None:
    rows = [words.unread(f) for f in plan.inputs] + [words.issue(row, sheet.view.base) for row in plan.issues]
    if not rows:
        return
    sheet.gap()
    sheet.line(("Not read as it should be", "head"))
    for row in rows[:_ISSUES]:
        sheet.para(row, indent=4, first="  -")
    if rest := rows[_ISSUES:]:
        sheet.line((f"  +{len(rest):,} more", "dim"))


def _steps(sheet: Sheet, report: Report) -> None:
    """Where time went: bars for one trace (of many ranks, the slowest), one line for each other rank."""
    for row in steps.across(report.steps):
        name = f"rank {row.rank}" if row.rank is not None and len(report.steps) > 1 else ""
        sheet.gap()
        sheet.para((steps.title(row, name), "head"))
        for bar in steps.bars(row):
            wide = max(0, min(_BAR, sheet.width - _BAR_BESIDES))
            filled = (sheet.glyph("█") * round(bar.share * wide)).ljust(wide)
            sheet.clipped(f"  {bar.name:<14} ", (filled, "dim"), f" {steps.milliseconds(bar.ns):>9} {bar.share:>6.1%}")
        if told := steps.named(row):
            sheet.para(told, indent=2)
        _lines(sheet, row)
    _other_ranks(sheet, report)


def _lines(sheet: Sheet, row: StepSummary) -> None:
    """Where in the program compiled kernels spend the GPU's time."""
    found = steps.lines(row)
    if not found:
        return
    sheet.gap()
    sheet.para((steps.lines_title(row), "head"))
    spots = [words.place(replace(sheet.view.local(r.place), function=""), sheet.view.base, 40) for r in found]
    wide = max(len(spot) for spot in spots)
    for spot, line in zip(spots, found, strict=True):
        time = f"{steps.milliseconds(line.ns):>9} {line.share:>6.1%}"
        sheet.clipped("  ", (spot.ljust(wide), "place"), f" {time}  ", (line.place.text.strip(), "dim"))


def _kernels(sheet: Sheet, report: Report, stories: bool) -> None:
    """What Nsight Compute profiled: a line a kernel, and percent of the peaks of arithmetic, memory and occupancy."""
    for rows in kernels.inputs(report.kernels, stories):
        sheet.gap()
        sheet.para((kernels.title(rows), "head"))
        wide = max(20, sheet.width - _KERNEL_BESIDES)
        head = f"  {'':<{wide}} {'time':>9} {'share':>6} {'bound by':<12} {'SM':>3} {'mem':>3} {'occ':>3}"
        sheet.clipped((head, "dim"))
        for row in kernels.listed(rows):
            where = sheet.view.local(row.place) if row.place is not None else None
            spot = "" if where is None else words.place(replace(where, function=""), sheet.view.base, wide // 2)
            if sheet.cells(spot) > wide // 2 and where is not None:
                spot = words.place(replace(where, file=PurePath(where.file.replace("\\", "/")).name, function=""))
            room = max(8, wide - sheet.cells(spot) - 1 - len(row.times))
            name = kernels.fitted(row.kernel, room, sheet.glyph("…")) + row.times
            label = f"{spot} {name}".strip()
            pad = " " * max(0, wide - sheet.cells(label))
            sm, mem, occ = row.figures
            told = f" {row.time:>9} {row.share:>6} {row.bound_by:<12} {sm:>3} {mem:>3} {occ:>3}"
            sheet.clipped("  ", (spot, "place"), f"{' ' if spot else ''}{name}{pad}", told)


def _other_ranks(sheet: Sheet, report: Report) -> None:
    shown = steps.across(report.steps)
    others = [r for r in report.steps if r not in shown]
    for row in others[: steps.RANKS]:
        who = f"rank {row.rank}" if row.rank is not None else short_path(row.input)
        first = "; ".join(f"{b.name} {b.share:.0%}" for b in steps.bars(row)[:4])
        sheet.clipped(f"  {who:<8} {steps.milliseconds(row.ns / max(row.steps, 1)):>9} a step: {first}")
    if len(others) > steps.RANKS:
        sheet.line((f"  +{len(others) - steps.RANKS:,} more ranks", "dim"))


def _ranks(sheet: Sheet, report: Report) -> None:
    """A table of ranks: who failed, who died with it, what each said last; alike ones share a row."""
    groups = outline.like_ranks(report.runs)
    if not groups:
        return
    sheet.gap()
    sheet.line(("Ranks", "head"))
    wide = min(24, max(len(words.ranks(g.ranks)) for g in groups[:_RANKS]))
    for group in groups[:_RANKS]:
        style = "fatal" if group.role == "root" else "dim"
        what = " ".join(part for part in (group.ended or "no error seen", group.first_error) if part)
        sheet.clipped(f"  {words.ranks(group.ranks):<{wide}}  ", (f"{what:<22}", style), f"  {group.last}")
    if len(groups) > _RANKS:
        sheet.line((f"  +{len(groups) - _RANKS} more rows", "dim"))


def _foot(sheet: Sheet, report: Report, plan: outline.Outline) -> None:
    sheet.gap()
    if plan.stories or plan.lead:
        sheet.para((f"Read {words.sources(report, sheet.view.base)}: {words.tally(report.findings)}.", "dim"))
    shown = [story.root for story in plan.stories] + ([plan.lead] if plan.lead else []) + plan.notes
    if shown and shown[0].rule:
        sheet.para((f"necropsy explain {shown[0].rule}", "command"), (" says more about the first finding.", "dim"))


def _label(name: str) -> tuple[str, str]:
    return (name.ljust(_ROW), "head")


def _row(sheet: Sheet, name: str, text: str) -> None:
    sheet.para(text, indent=_ROW, first=_label(name))
