"""Numbers, places and facts in words: `20.00 GiB`, `ranks 0-3, 7`, `train.py:88 in step`."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Sequence
from typing import Final

from necropsy_parsers.issues import ParseIssue
from necropsy_parsers.records import Anchor

from necropsy.finding import Confidence, Cost, Fact, Finding, Place
from necropsy.report import InputRow, Report, short_path

CONFIDENCE: Final = {
    Confidence.LIKELY: "likely: several signs agree, none says it outright",
    Confidence.POSSIBLE: "possible: it fits a known pattern, nothing confirms it",
}
EXACTNESS: Final = {
    "function": "the function is certain, the line in it is not",
    "module": "the file is certain, the line in it is not",
}
# What `how` of places begins with whose line was found by reading the source (provenance/resolvers/statements.py).
READ: Final = "source read against the trace"
MARKED: Final = "marked while it ran"
# Numbers that are names: 12345 is a process, 12,345 would be an amount.
_NAMES: Final = frozenset({"pid", "port", "id", "seed", "code", "line", "xid", "version", "year", "sm", "signal"})
_LIST_SHOWN: Final = 8


def line_note(code: Sequence[Place]) -> str:
    """How far to trust the first place's line, and what the source says of it; "" for a line that the input tells."""
    first = code[0]
    read = [
        p for p in code if p.how.startswith((READ, MARKED)) and (p.file, p.function) == (first.file, first.function)
    ]
    if first.how == READ:
        others = " and ".join(str(p.line) for p in read)
        return f"{READ}: {others if len(read) > 1 else 'its events fit no other line'}"
    if first.how == MARKED:
        return f"{MARKED}: {' and '.join(str(p.line) for p in read)}" if len(read) > 1 else ""
    doubt = EXACTNESS.get(first.exactness, "")
    if not doubt or not read:
        return doubt
    if all(p.how in (READ, MARKED) for p in read):
        how = read[0].how
        return f"it runs on {' and '.join(str(p.line) for p in read)} ({how}); what to change may stand elsewhere"
    return f"{doubt}: {' or '.join(str(p.line) for p in read)} ({READ})"


def plural(count: int, word: str) -> str:
    """`1 rule`, `2,000 rules`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def size(count: float) -> str:
    """Bytes with a binary unit, as PyTorch prints them: `20.00 GiB`."""
    if abs(count) < 1024:
        return f"{count:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if abs(count) < 1024:
            return f"{count:.2f} {unit}"
    return f"{count / 1024:.2f} TiB"


def duration(ns: float) -> str:
    """Nanoseconds with a readable unit: `12.4 ms`, `30 min 0 s`."""
    for limit, unit, scale in ((1e3, "ns", 1.0), (1e6, "us", 1e3), (1e9, "ms", 1e6), (120e9, "s", 1e9)):
        if abs(ns) < limit:
            return f"{ns / scale:.3g} {unit}"
    seconds = round(ns / 1e9)
    if seconds < 7200:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600:,} h {seconds % 3600 // 60} min"


def share(part: float) -> str:
    """A fraction of one as a percentage."""
    return f"{part * 100:.3g} %"


def spans(numbers: Iterable[int]) -> str:
    """`0-3, 7` from 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and runs[-1][-1] == n - 1:
            runs[-1] = [runs[-1][0], n]
        else:
            runs.append([n])
    return ", ".join("-".join(map(str, run)) for run in runs)


def ranks(numbers: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-2, 4`, or nothing."""
    return f"{'rank' if len(set(numbers)) == 1 else 'ranks'} {spans(numbers)}" if numbers else ""


def fact(name: str, value: Fact) -> str:
    """One fact: `requested_bytes`, 2**30 -> `requested 1.00 GiB`."""
    stem, _, unit = name.rpartition("_")
    if stem and isinstance(value, (int, float)) and not isinstance(value, bool) and (text := _with_unit(value, unit)):
        return f"{stem.replace('_', ' ')} {text}"
    return f"{name.replace('_', ' ')} {_plain(value, unit)}"


def is_listing(value: Fact) -> bool:
    """Whether a fact is a list of phrases, which commas would run together."""
    return isinstance(value, list) and any(isinstance(item, str) and " " in item for item in value)


def _with_unit(value: float, unit: str) -> str:
    scales = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "seconds": 1e9}
    if unit in scales:
        return duration(value * scales[unit])
    if unit == "percent":
        return share(value / 100)
    return size(value) if unit == "bytes" else share(value) if unit == "share" else ""


def _plain(value: Fact, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if abs(value) < 10_000 or unit in _NAMES else f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return value
    numbers = [v for v in value if isinstance(v, int)]
    if unit == "ranks" and len(numbers) == len(value):  # elsewhere order counts: a shape is no set
        return spans(numbers)
    more = f" and {len(value) - _LIST_SHOWN} more" if len(value) > _LIST_SHOWN else ""
    return ", ".join(map(str, value[:_LIST_SHOWN])) + more


def cost(price: Cost) -> str:
    """`12.4 ms, 31 % of the time (measured)`, or nothing where it is not known."""
    parts = [duration(price.ns)] if price.ns is not None else []
    if price.share is not None:
        parts.append(f"{share(price.share)} of the time")
    return f"{', '.join(parts)} ({price.basis})" if parts else ""


def path(name: str, base: str = "", room: int | None = None) -> str:
    """A path to click on: relative below `base`, whole if it fits `room` cells, else its end.

    Where room is scarce, a library's file is told from its package on: where it was
    installed helps nobody.
    """
    if base and os.path.isabs(name):
        inside = os.path.relpath(name, base)
        if inside.split(os.sep)[0] != os.pardir:
            name = inside
    if room is None or len(name) <= room:
        return name
    plain = name.replace("\\", "/")
    for marker in ("/site-packages/", "/dist-packages/"):
        if marker in plain:
            return plain.rpartition(marker)[2]
    return short_path(name)


def place(where: Place, base: str = "", room: int | None = None) -> str:
    """`file:line in function`; `room` is for the whole of it."""
    line = f":{where.line}" if where.line is not None else ""
    function = f" in {where.function}" if where.function and where.function != "<module>" else ""
    left = None if room is None else room - len(line) - len(function)
    return path(where.file, base, left) + line + function


def anchor(where: Anchor, base: str = "") -> str:
    """`input:line`, whole, so that it can be clicked on."""
    return f"{path(where.input, base)}:{where.line}"


def issue(row: ParseIssue, base: str = "") -> str:
    """`run.log:12: a traceback ends without its exception line (3 times)`."""
    where = path(row.input, base) + (f":{row.first.line}" if row.first else "")
    times = f" ({row.count:,} {row.unit})" if row.count > 1 else ""
    detail = f": {row.detail}" if row.detail else ""
    return f"{where}: {row.meaning}{detail}{times}"


def unknown(row: ParseIssue, base: str = "") -> str:
    """What keeps "no failure found" from being an all-clear."""
    lines = f"{plural(row.count, 'line')} marked as {'an error' if row.count == 1 else 'errors'} that no rule knows"
    at = f"Line {row.first.line}" if row.first else "The first"
    return f"That is no all-clear: {path(row.input, base)} holds {lines}. {at}: {row.detail}"


def source(row: InputRow, base: str = "") -> str:
    """`run.log (log, 1.20 MiB, 12,345 records)`."""
    return f"{path(row.path, base)} ({row.format}, {size(row.bytes)}, {plural(row.records, 'record')})"


def sources(report: Report, base: str = "", shown: int = 2) -> str:
    """The inputs in one phrase; many of them are summed up by format."""
    rows = report.inputs
    if not rows:
        return "nothing"
    if len(rows) <= shown:
        return " and ".join(source(r, base) for r in rows)
    formats: dict[str, int] = {}
    for row in rows:
        formats[row.format] = formats.get(row.format, 0) + 1
    kinds = ", ".join(f"{count:,} {name}" for name, count in formats.items())
    total = f"{size(sum(r.bytes for r in rows))}, {plural(sum(r.records for r in rows), 'record')}"
    return f"{plural(len(rows), 'input')} ({kinds}; {total})"


def tally(findings: Sequence[Finding]) -> str:
    """`1 fatal, 7 errors`, worst first."""
    counts: dict[str, int] = {}
    for f in sorted(findings, key=lambda f: -f.severity):
        counts[f.severity.label] = counts.get(f.severity.label, 0) + 1
    return ", ".join(f"{n:,} fatal" if label == "fatal" else plural(n, label) for label, n in counts.items())


def unread(found: Finding) -> str:
    """What is the matter with an input, and what to do first."""
    first = next(iter(found.fixes), None)
    if first is None:
        return found.message
    return f"{found.message} {first.title}{f' ({first.command})' if first.command else ''}."


def nothing(report: Report) -> tuple[str, str]:
    """What to say where no rule spoke, and the word before the inputs.

    A trace is of a run that went on, and slow at worst. Where no input could be read, findings tell why.
    """
    if nothing_read(report):
        return "Nothing was read", "from"
    return ("No problem found" if report.steps else "No failure found"), "in"


def nothing_read(report: Report) -> bool:
    """Whether no input could be read, as findings about the inputs tell."""
    about = [f.rule.startswith("INP") for f in report.findings]
    return bool(about) and all(about) and not any(row.records for row in report.inputs)
