"""Lines that their own writer calls errors and that nothing here reads: counted for the report."""

from __future__ import annotations

from array import array
from collections.abc import Container
from typing import Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor

_KEPT: Final = 1000  # lines of which more is kept than where they stand; the first is shown


class UnknownErrors:
    """Those of one input. Which of them a tally reads is known at the end."""

    def __init__(self, name: str, issues: Issues) -> None:
        self._name, self._issues = name, issues
        self._starts = array("q")  # byte offsets of lines
        self._first: list[Anchor] = []

    def add(self, anchor: Anchor) -> None:
        """A line that no message format reads."""
        self._starts.append(anchor.start)
        if len(self._first) < _KEPT:
            self._first.append(anchor)

    def settle(self, explained: Container[int]) -> None:
        """Count those whose lines do not begin at offsets that are `explained`."""
        count = sum(start not in explained for start in self._starts)
        first = next((a for a in self._first if a.start not in explained), None)
        if count:
            detail = first.text[:200] if first is not None else ""
            self._issues.add("text/unknown-error", self._name, count=count, unit="lines", detail=detail, first=first)
