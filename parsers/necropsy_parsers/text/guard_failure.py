"""Reasons of a recompilation, as Dynamo lists them, to guards and the lines of code behind them.

    - 4/3: self.steps == 3      # self.steps += 1  # trainer/net.py:70 in forward (HINT: torch.compile considers ...)
    - User stack trace:
    -   File "/home/trainer/net.py", line 70, in forward
    -     self.steps += 1

A reason belongs to a compiled version of the function (a cache entry) whose id stands before it since torch 2.5; the
version used last comes first. The comment names the code that made the guard (since 2.2), the stack all of it (2.11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from necropsy_parsers.grammars.guard import Guard, parse
from necropsy_parsers.records import Frame

MAX_ENTRIES: Final = 8  # compiled versions whose reasons are kept; a function has as many as its limit allows
_BULLET: Final = re.compile(r"^\s*-(?: |$)")
_ENTRY: Final = re.compile(r"^(?P<id>!?\d+(?:/\d+){0,2}(?:_\d+)?): ?(?P<rest>.*)$")
_ENTRY_HEAD: Final = re.compile(r"^guard \d+ failures:$")
_STACK: Final = "User stack trace:"
_FILE: Final = re.compile(r'^File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')
# `EXPR  # source text  # path:line in function (notes)`; a guard that Dynamo itself made has no source text.
_COMMENT: Final = re.compile(r"\s+# ")
_WHERE: Final = re.compile(r":(?P<line>\d+) in (?P<function><?[\w.]+>?)")
_HINT: Final = re.compile(r"HINT: (.*?)\)?$")


class GuardFailure(Struct, frozen=True):
    """A guard of one compiled version that did not hold.

    `entry` is the compiled version (`4/3`, "" before torch 2.5). `comment` is the line of code that made the guard, its
    path perhaps shortened; `stack` the frames of a user stack trace, outermost first. `note` is what torch remarks.
    The guard is parsed when it is asked for: of 64 versions that a recompilation lists few are.
    """

    text: str
    entry: str = ""
    comment: Frame | None = None
    stack: tuple[Frame, ...] = ()
    note: str = ""

    @property
    def guard(self) -> Guard:
        """What the guard compares."""
        return parse(self.text)


class _Open(Struct):
    """A reason that is being read."""

    parts: list[str]
    entry: str
    stack: list[Frame] = field(default_factory=list)


def failures(lines: Iterable[str]) -> tuple[list[list[GuardFailure]], int]:
    """The failed guards of each compiled version, the one used last first, and how many versions there were."""
    opened: list[list[_Open]] = []
    total, in_stack, grouped = 0, False, False
    for line in lines:
        text = _BULLET.sub("", line, count=1).strip()
        if _ENTRY_HEAD.match(text):
            total, grouped, in_stack = total + 1, True, False
            opened.append([])
        elif text == _STACK:
            in_stack = True
        elif in_stack and _of_stack(text, opened):
            continue
        elif text and not text.endswith("guard failure(s):"):
            in_stack = False
            m = _ENTRY.match(text)
            reason = _Open(_parts(m["rest"] if m else text), m["id"] if m else "")
            if grouped and opened:
                opened[-1].append(reason)
            else:
                total += 1
                opened.append([reason])
    read = [[f for reason in entry for f in _read(reason)] for entry in opened[:MAX_ENTRIES]]
    return [entry for entry in read if entry], total


def failure(text: str) -> GuardFailure | None:
    """The first guard of a single reason, such as follows `last reason: `."""
    found, _ = failures(text.split("\n"))
    return found[0][0] if found else None


def _of_stack(text: str, opened: list[list[_Open]]) -> bool:
    """Whether a line goes on with the stack of the reason above."""
    if not opened or not opened[-1]:
        return False
    stack = opened[-1][-1].stack
    if (m := _FILE.match(text)) is not None:
        stack.append(Frame(m["file"], int(m["line"]), m["function"]))
        return True
    if stack and not stack[-1].text and not _ENTRY.match(text):
        stack[-1] = replace(stack[-1], text=text)
        return True
    return not text.strip("^~ ")


def _parts(reason: str) -> list[str]:
    """The guards of a reason: several are joined by `; `, which may stand in a quoted line of code, too."""
    parts: list[str] = []
    for piece in reason.split("; "):
        if parts and _COMMENT.search(parts[-1]) and _commented(parts[-1])[1] is None:
            parts[-1] += "; " + piece
        else:
            parts.append(piece)
    return parts


def _read(reason: _Open) -> Iterator[GuardFailure]:
    for part in reason.parts:
        if part.strip() and part.strip() != "Unable to find recompilation reasons":
            expression, frame, note = _commented(part)
            hint = _HINT.search(note)
            yield GuardFailure(expression, reason.entry, frame, tuple(reason.stack), hint[1] if hint else note)


def _commented(part: str) -> tuple[str, Frame | None, str]:
    """A guard, the line of code in the comment behind it, and the notes behind that."""
    begin = _COMMENT.search(part)
    if begin is None:
        return part, None, ""
    expression, rest = part[: begin.start()], part[begin.end() :].rstrip()
    for m in _WHERE.finditer(rest):
        after = rest[m.end() :].lstrip()
        if after and not (after.startswith("(") and after.endswith(")")):
            continue
        text, _, file = rest[: m.start()].rpartition("  # ")
        return expression, Frame(file.strip(), int(m["line"]), m["function"], text.strip()), after.strip("()")
    return expression, None, ""
