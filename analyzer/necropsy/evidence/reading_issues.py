"""What could not be read, as evidence for the INP rules."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.issues import ParseIssue

from necropsy.evidence import Table


class ReadingIssues(Table[ParseIssue]):
    """One row a kind of trouble and input. Covered always."""

    name = "reading_issues"
    row = ParseIssue
    columns: ClassVar[dict[str, str]] = {
        "kind": "its name in the catalogue",
        "input": "the input",
        "count": "how often, in `unit`",
        "unit": "times, bytes, messages, ...",
        "detail": "in words",
        "first": "where it was first met",
    }

    def covered(self, formats: frozenset[str]) -> bool:
        """Always."""
        return True
