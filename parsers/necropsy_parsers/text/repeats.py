"""How often each writer said the same, numbers aside: what comes by the thousand is only counted from then on."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Origin

_NUMBER: Final = re.compile(r"0x[0-9a-f]+|\d+")
FOLD_AFTER: Final = 200  # identical messages (numbers aside) of one writer that are still read one by one
FOLD_ENTRIES_AFTER: Final = 2000  # the same of entries of torch's log, whose repeats are what is to be counted
MOST: Final = 50_000  # shapes that are told apart


@lru_cache(maxsize=1024)  # ranks say the same
def shape_of(text: str) -> str:
    """A text without its numbers."""
    return _NUMBER.sub("0", text)


class Repeats:
    """Counts the messages of one input by writer and shape."""

    def __init__(self, name: str, issues: Issues) -> None:
        self._name = name
        self._issues = issues
        self._seen: dict[tuple[object, ...], int] = {}

    def folded(self, origin: Origin, text: str, after: int = FOLD_AFTER) -> bool:
        """Whether so many alike ones of this writer were read that this one is only counted."""
        shape = (origin.rank, origin.local_rank, origin.source, shape_of(text))
        seen = self._seen.get(shape, 0) + 1
        if len(self._seen) < MOST or shape in self._seen:
            self._seen[shape] = seen
        if seen <= after:
            return False
        self._issues.add("text/repeats-folded", self._name, unit="messages")
        return True
