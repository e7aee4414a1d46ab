"""Counts the attempts in a log: restarts by a launcher, and re-runs by a person.

Attempts are told apart by what announces a new one, never by guessing from content.
"""

from __future__ import annotations

import re
from typing import Final

_MARK: Final = re.compile(
    r".{0,120}?(?:[Rr]estarting worker group|\bRestart(?:ing)? (?:count|attempt)\b|Rendezvous'ing worker group"
    r"|[Aa]ttempt (?:number )?[1-9]\d* (?:of|/)|--- ?re-?run|\brerun(?:ning)? with\b|requeu(?:e|ing|ed))"
    r"|(?:\$|\+|>|#|\S+[@:]\S*[$#]) ?(?:[A-Z_][A-Z0-9_]*=\S* )*(?:\S*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|mpirun) "
)
_RUNS: Final = re.compile(r".{0,120}?Rendezvous'ing worker group")


class AttemptCounter:
    """`current` is the number of the attempt that the next record belongs to, from 0.

    The first announcement before anything else happened does not start a second attempt.
    """

    def __init__(self, first: int = 0) -> None:
        self.current = first
        self._lines = 0

    def see(self, text: str) -> None:
        """Look at a line."""
        self._lines += 1
        if self._lines > 3 and len(text) < 2000 and _MARK.match(text) and not _RUNS.match(text):
            self.current += 1
