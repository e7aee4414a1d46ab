"""An input ends too early

What it means
    A compressed file or archive is cut, or a traceback stops before the line that names its
    exception. The reason of a failure may be in the part that is missing.

Why it happens
    The job was killed while it wrote; the copy was taken while the job ran; a log collector
    has a size limit.

How to confirm
    Compare the size with the file on the machine that wrote it.

How to fix
    Copy the file again after the job has ended; raise the collector's limit.

Limits
    A text file that is cut between two messages cannot be told from a whole one.

References
    - https://docs.python.org/3/library/gzip.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy_parsers.records import Anchor

from necropsy.evidence.reading_issues import ReadingIssues
from necropsy.finding import Finding, Fix, Role, Severity
from necropsy.rule import rule


@rule("INP002", "truncated-input", Severity.NOTE)
def check(issues: ReadingIssues) -> Iterator[Finding]:
    """One finding an input that is cut."""
    for i in issues:
        if i.kind not in ("source/truncated", "text/cut-traceback"):
            continue
        what = (
            "ends inside its compressed data"
            if i.kind == "source/truncated"
            else "holds a traceback without its last line"
        )
        yield Finding(
            message=f"{i.input} {what}: what followed is missing from this report.",
            anchor=i.first or Anchor(i.input, 0, 0, 1),
            severity=Severity.WARNING if i.kind == "source/truncated" else Severity.NOTE,
            role=Role.SYMPTOM,
            fixes=(Fix("Copy the file again, whole, after the job has ended", "investigate"),),
            event=f"{i.kind}@{i.input}",
        )
