"""An input could not be read, or is damaged

What it means
    A path does not exist or may not be read, or a compressed file is damaged. What it held
    is missing from this report.

Why it happens
    A typing error, a file that another user owns, a copy that broke, two writers in one
    gzip file.

How to confirm
    `ls -l` and `file` on the path; `gzip -t`, `xz -t`, `zstd -t`.

How to fix
    Correct the path, or copy the file again.

Limits
    What stands before the damage has been read and judged.

References
    - https://www.rfc-editor.org/rfc/rfc1952
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy_parsers.records import Anchor

from necropsy.evidence.reading_issues import ReadingIssues
from necropsy.finding import Finding, Fix, Role, Severity
from necropsy.rule import rule


@rule("INP001", "unreadable-input", Severity.WARNING)
def check(issues: ReadingIssues) -> Iterator[Finding]:
    """One finding an input that cannot be read or is damaged."""
    for i in issues:
        if i.kind not in ("source/unreadable", "source/corrupt"):
            continue
        detail = f": {i.detail}" if i.detail else ""
        yield Finding(
            message=f"{i.input} could not be read{' to its end' if i.kind == 'source/corrupt' else ''}{detail}.",
            anchor=i.first or Anchor(i.input, 0, 0, 1),
            severity=Severity.WARNING,
            role=Role.SYMPTOM,
            fixes=(Fix("Check the path and its permissions, or copy the file again", "investigate"),),
            event=f"{i.kind}@{i.input}",
        )
