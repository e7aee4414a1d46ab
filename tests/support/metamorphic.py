"""Changes of a log that change nothing about its story, or change it in a known way.

Every change is a function of the text alone; what it does to a finding's place is told by
the same function on `file` and `line`. Libraries keep their names: which files are the
user's is part of the story.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from necropsy_parsers.text.clean import pieces
from necropsy_parsers.text.vote import vote

from necropsy.finding import Finding
from necropsy.provenance.frames import is_library
from necropsy.report import Report

SHIFT: Final = 7
NEUTRAL: Final = (
    "preparing the environment",
    "modules are ready",
    "using the default profile",
    "reading the settings",
    "the settings are complete",
    "opening the data",
    "the data is open",
)

# Also in colour, in a JSON string, in IPython's listings (`----> 12 main()`), and as Dynamo puts it (`net.py line 12`).
_LINE_OF: Final = re.compile(
    r"(?P<file>[\w./\\+@-]*[\w-]+\.py)"
    r'(?P<between>(?:\\?")?(?:\x1b\[[\d;]*m)*, line (?:\x1b\[[\d;]*m)*|:| line )(?P<line>\d+)'
)
# Structured logs: heads, interned names of files, frames and metrics that name a line.
_ENTRY: Final = re.compile(r"V\d{4} [^\n\]]+\] (?=\{)")
_INTERNED: Final = re.compile(r'(?m)^V[^\n]*\] \{"str": \["(?P<file>[^"\n]+)", (?P<number>\d+)\]')
_JSON_LINE: Final = re.compile(
    r'(?P<frame>"line": )(?P<line>\d+)(?P<rest>, "name": "[^"\n]*", "filename": (?P<number>\d+))'
    r'|(?P<metric>"\w+filename": "(?P<named>[^"\n]+)", "\w+line(?:no)?": )(?P<first>\d+)'
)
_ARROW: Final = re.compile(r"(?m)^(-{2,}> )(\d+)(?= )")
# Dynamo names what it resumes behind a break after the line of the break.
_RESUMED: Final = re.compile(r"(\btorch_dynamo_resume_in_\w+?_at_)(\d+)")
_PID: Final = re.compile(
    r"(?:\bpid(?:\(s\))?[:= ]+|\bPID[: ]+|\b[Pp]rocess |line \d+: +|\w\[)(\d{4,8})\b"
    r"|\d\.\d{6} (\d{4,8}) |[\w-]+:(\d{4,8}):\d+ \[\d\]"
)
_HEX: Final = re.compile(r"0x[0-9a-f]{6,16}")
_CLOCK: Final = re.compile(r"(?<![\d:])([01]\d|2[0-3]):([0-5]\d:[0-5]\d)(?![\d:])")
_YEAR: Final = re.compile(r"\b(20\d\d)(?=[-/]\d\d[-/]\d\d)")
_SIZE: Final = re.compile(r"(?<![\w.])(\d+)(\.\d+)?( ?(?:[KMGT]i?B|kB)\b)")
_BYTES: Final = re.compile(r"(?<![\w.])(\d{5,})(?= bytes\b)")


def new_name(file: str) -> str:
    """Another name for a user's file, folders included; libraries keep theirs, cut from the left or not."""
    if is_library(file) or is_library(f"torch/{file}"):
        return file
    if file.startswith("<"):  # a cell, which no file name of the log stands for
        return file
    *folders, name = re.split(r"([/\\])", file)
    stem = name.removesuffix(".py")
    renamed = [f if f in ("", ".", "..", "/", "\\") or f.endswith(":") else f"{f}q" for f in folders]
    return "".join(renamed) + "zz" + stem[::-1] + ".py"


def files_renamed(text: str) -> str:
    """Every file of the user's has another name."""
    return re.sub(r"[\w./\\+@-]*[\w-]+\.py\b", lambda m: new_name(m[0]), text)


def code_moved(text: str) -> str:
    """Every line of the user's files stands `SHIFT` lines further down."""

    def moved(m: re.Match[str]) -> str:
        line = int(m["line"])
        return m[0] if is_library(m["file"]) else f"{m['file']}{m['between']}{line + SHIFT}"

    text = _ARROW.sub(lambda m: f"{m[1]}{int(m[2]) + SHIFT}", text)
    text = _RESUMED.sub(lambda m: f"{m[1]}{int(m[2]) + SHIFT}", text)
    return _structured_moved(_LINE_OF.sub(moved, text))


def _structured_moved(text: str) -> str:
    """The same of numbers in JSON: frames name their file by the number of a `str` entry, metrics in words."""
    files = {int(m["number"]): m["file"] for m in _INTERNED.finditer(text)}

    def moved(m: re.Match[str]) -> str:
        if is_library(m["named"] or files.get(int(m["number"] or 0), "")):
            return m[0]
        if m["metric"] is not None:
            return f"{m['metric']}{int(m['first']) + SHIFT}"
        return f"{m['frame']}{int(m['line']) + SHIFT}{m['rest']}"

    return _JSON_LINE.sub(moved, text)


def neutral_top(text: str) -> str:
    """`SHIFT` lines of no meaning, with the prefixes that the first line has."""
    if (entry := _ENTRY.match(text)) is not None:
        return "".join(f'{entry[0]}{{"describe_source": {{"source": "L[{n}]"}}}}\n' for n in range(SHIFT))
    head = [pieces(line.encode())[-1] for line in text.split("\n")[:400]]
    first = next((line for line in head if line.strip()), "")
    prefix = ""
    for pattern, _ in vote(head):
        if (m := pattern.match(first[len(prefix) :])) is not None:
            prefix += m[0]
    return "".join(f"{prefix}{line}\n" for line in NEUTRAL)


def ids_changed(text: str) -> str:
    """Other process ids (the same for the same process), addresses, hours and years."""
    numbers = {n for m in _PID.finditer(text) for n in m.groups() if n}
    if numbers:
        text = re.sub(rf"(?<![\w.])(?:{'|'.join(sorted(numbers))})(?![\w.])", lambda m: str(int(m[0]) + 10111), text)
    rotated = str.maketrans("123456789abcdef", "23456789abcdef1")
    text = _HEX.sub(lambda m: "0x" + m[0][2:].translate(rotated), text)
    text = _CLOCK.sub(lambda m: f"{(int(m[1]) + 1) % 24:02d}:{m[2]}", text)
    return _YEAR.sub(lambda m: str(int(m[1]) + 4), text)


def sizes_doubled(text: str) -> str:
    """Every amount of memory is twice as large."""

    def doubled(m: re.Match[str]) -> str:
        digits = m[2] or ""
        return f"{2 * float(m[1] + digits):.{max(0, len(digits) - 1)}f}{m[3]}"

    text = _SIZE.sub(doubled, text)
    return _BYTES.sub(lambda m: str(2 * int(m[1])), text)


Place = tuple[str, int | None]
PlaceChange = Callable[[str, int | None], Place]


def same_place(file: str, line: int | None) -> Place:
    """Nothing moves."""
    return file, line


def renamed_place(file: str, line: int | None) -> Place:
    """What `files_renamed` does to a place."""
    return new_name(file), line


def moved_place(file: str, line: int | None) -> Place:
    """What `code_moved` does to a place."""
    return file, line if line is None or is_library(file) else line + SHIFT


def story(report: Report, change: PlaceChange = same_place) -> list[tuple[object, ...]]:
    """What a report says, without numbers of the log: rules, severities, roles, who explains whom, places, ranks."""
    order = {f.fingerprint: n for n, f in reversed(list(enumerate(report.findings)))}
    return [
        (
            f.rule, f.severity.label, f.role.value, f.confidence.value, f.count, f.ranks, order.get(f.explained_by),
            [(*change(p.file, p.line), p.function, p.exactness) for p in f.code],
        )
        for f in report.findings
    ]  # fmt: skip


def anchor_lines(findings: list[Finding], shift: int = 0) -> list[int]:
    """The log's lines on which findings rest."""
    return [f.anchor.line + shift for f in findings]
