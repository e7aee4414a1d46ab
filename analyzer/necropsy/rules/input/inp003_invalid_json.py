"""A trace is not valid JSON and was repaired

What it means
    Some events of the trace are not valid JSON. They were read all the same where it was
    clear what is meant; those that could not be are missing. Other tools refuse the whole file.

Why it happens
    The profiler wrote a name as it is: with a quotation mark, a backslash or a control
    character in it (names of generated code, of files on Windows), or numbers that JSON does not have
    (`inf`, `nan`); with a decimal comma, in some locales; a disk was full.

How to confirm
    `python -m json.tool trace.json` stops at the first such event.

How to fix
    A newer torch escapes names. Until then, profile with `with_stack=False` if Python's names
    are the cause. Nothing is needed for this report.

Limits
    A repaired name may differ from what the program had.

References
    - https://github.com/pytorch/kineto/pull/1459
    - https://github.com/pytorch/pytorch/issues/136180
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.records import Anchor

from necropsy.evidence.reading_issues import ReadingIssues
from necropsy.finding import Finding, Fix, Role, Severity
from necropsy.rule import rule

_SAYS: Final = {
    "trace/repaired": (
        "not valid JSON (a raw quotation mark, escape or control character in a name, or a number such as inf) and "
        "{were} repaired: nothing is missing",
        Severity.NOTE,
    ),
    "trace/args": (
        "read without {their} arguments, which are not valid JSON: shapes and links of {them} are missing",
        Severity.NOTE,
    ),
    "trace/dropped": (
        "not valid JSON and could not be repaired: {they} {are} missing from this report",
        Severity.WARNING,
    ),
}
_ONE: Final = {"were": "was", "are": "is", "they": "it", "them": "it", "their": "its"}
_MANY: Final = {word: word for word in _ONE}


@rule("INP003", "invalid-json", Severity.NOTE)
def check(issues: ReadingIssues) -> Iterator[Finding]:
    """One finding a kind of damage and input."""
    for i in issues:
        if i.kind not in _SAYS:
            continue
        what, severity = _SAYS[i.kind]
        number = "1 event is" if i.count == 1 else f"{i.count:,} events are"
        yield Finding(
            message=f"{i.input}: {number} {what.format(**(_ONE if i.count == 1 else _MANY))}.",
            anchor=i.first or Anchor(i.input, 0, 0, 1),
            severity=severity,
            role=Role.SYMPTOM,
            facts={"events": i.count},
            fixes=(Fix("Update torch, which escapes names since, or profile with `with_stack=False`", "investigate"),),
            event=f"{i.kind}@{i.input}",
        )
