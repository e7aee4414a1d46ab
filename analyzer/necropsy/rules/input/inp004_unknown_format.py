"""An input is of no format that Necropsy knows

What it means
    The input is neither text nor any other format that is read. Nothing of it is in this
    report.

Why it happens
    A checkpoint, a core dump or a picture in the folder; a trace or report of a tool that is
    not supported (yet).

How to confirm
    `necropsy sniff FILE` says what the formats made of it.

How to fix
    Give the log of the job; export reports as text or JSON.

Limits
    Only the first 64 KiB are looked at.

References
    - https://man7.org/linux/man-pages/man1/file.1.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy_parsers.records import Anchor

from necropsy.evidence.reading_issues import ReadingIssues
from necropsy.finding import Finding, Fix, Role, Severity
from necropsy.rule import rule


@rule("INP004", "unknown-format", Severity.WARNING)
def check(issues: ReadingIssues) -> Iterator[Finding]:
    """One finding an input that no format claims."""
    for i in issues:
        if i.kind == "sniff/unknown":
            detail = f" ({i.detail})" if i.detail else ""
            yield Finding(
                message=f"{i.input} is of no known format{detail} and was not read.",
                anchor=Anchor(i.input, 0, 0, 1),
                severity=Severity.WARNING,
                role=Role.SYMPTOM,
                fixes=(
                    Fix(
                        "Give the job's log, or export the report as text or JSON",
                        "command",
                        command="necropsy sniff FILE",
                    ),
                ),
                event=f"{i.kind}@{i.input}",
            )
