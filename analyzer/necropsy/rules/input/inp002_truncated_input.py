"""An input ends too early

What it means
    A compressed file, an archive, a trace or a flight-recorder dump is cut, or a traceback stops before
    the line that names its exception. The reason of a failure may be in the part that is missing.

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
from typing import Final

from necropsy_parsers.records import Anchor

from necropsy.evidence.reading_issues import ReadingIssues
from necropsy.finding import Finding, Fix, Role, Severity
from necropsy.rule import rule

_SAYS: Final = {
    "source/truncated": ("ends inside its compressed data: what followed", Severity.WARNING),
    "text/cut-traceback": ("holds a traceback without its last line: what followed", Severity.NOTE),
    "trace/cut": ("is a trace that ends inside its list of events: what followed", Severity.WARNING),
    "ncu/cut": ("is an Nsight Compute report that ends too early: what followed", Severity.WARNING),
    "ncu/page": ("is an Nsight Compute CSV with rows that are cut or damaged: what they held", Severity.NOTE),
    "flight/cut": ("is a flight-recorder dump that ends too early: the newest entries of that rank", Severity.WARNING),
}


@rule("INP002", "truncated-input", Severity.NOTE)
def check(issues: ReadingIssues) -> Iterator[Finding]:
    """One finding an input that is cut."""
    for i in issues:
        if i.kind not in _SAYS:
            continue
        what, severity = _SAYS[i.kind]
        missing = "are missing" if "entries" in what else "is missing"
        yield Finding(
            message=f"{i.input} {what} {missing} from this report.",
            anchor=i.first or Anchor(i.input, 0, 0, 1),
            severity=severity,
            role=Role.SYMPTOM,
            fixes=(Fix("Copy the file again, whole, after the job has ended", "investigate"),),
            event=f"{i.kind}@{i.input}",
        )
