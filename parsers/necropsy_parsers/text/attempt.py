"""Counts the attempts in a log: restarts by a launcher, and re-runs by a person.

Attempts are told apart by what announces a new one, never by guessing from content: torchrun at its default log
level restarts in silence, and such attempts stay one. What ends an attempt (the launcher's announcement, Slurm's
requeue) still belongs to it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

# torch/distributed/elastic/agent/server/api.py: the node whose worker failed says the first, all others the second;
# every node stops its workers and, after the rendezvous, starts them.
_ELASTIC: Final = re.compile(
    r".{0,120}?(?:(?P<left>\d+)/\d+ attempts left; ?will restart worker group|will restart worker group"
    r"|[Rr]estarting worker group|Stopping worker group)"
)
_STARTED: Final = re.compile(r".{0,120}?(?:Starting worker group|starting workers for entrypoint)")
_REQUEUED: Final = re.compile(r".{0,120}?(?:(?<!-)\brequeu(?:e[ds]|ing)\b|DUE TO JOB REQUEUE|Requeued SLURM job)")
_OTHER: Final = re.compile(
    r".{0,120}?(?:\bRestart(?:ing)? (?:count|attempt)\b(?!\D{0,4}0\b)|--- ?re-?run|\brerun(?:ning)? with\b)"
    # "attempt 2 of 5" counts tries of the job only where it opens the line; "shard 24: attempt 2 of 5" does not.
    r"|[=*#\- ]{0,12}(?:[Tt]raining |[Jj]ob |[Rr]un |[Ll]aunch )?[Aa]ttempt (?:number )?(?:[2-9]|[1-9]\d+) ?(?:of|/)"
    r" ?\d"
    # A prompt (user@node:~/vit$); bounded, because a line of colons alone has a thousand places to look for its end.
    r"|(?:\$|\+|>|#|\S[^\s@:]{0,80}[@:]\S{0,160}[$#]) ?(?:[A-Z_][A-Z0-9_]*=\S* )*(?:\S{0,200}/)?"
    r"(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|mpirun) "
)
_TROUBLE: Final = re.compile(r"Traceback|rror\b|Killed|exit|FAILED|Aborted")
# Literals one of which each of the patterns above needs: nearly every line of a log holds none.
_WORDS: Final = (
    *("worker group", "starting workers", "equeu", "REQUEUE", "estart", "run", "ttempt", "python", "accelerate"),
    "deepspeed",
)
_TROUBLES: Final = ("Traceback", "rror", "Killed", "exit", "FAILED", "Aborted")
COPIES: Final = 60  # lines within which the same announcement is another rank's or launcher's copy


class AttemptCounter:
    """`current` is the number of the attempt that the next record belongs to, from 0.

    The first announcement before anything else happened does not start a second attempt; nor does a copy of
    one that another rank or launcher prints.
    """

    def __init__(self, first: int = 0) -> None:
        self.current = self._first = first
        self._turns: list[int] = []  # where each further attempt began
        self._lines = 0
        self._pending = False
        self._restarting = 0  # line of the announcement of the restart that is under way
        self._left = ""
        self._said = ""
        self._said_at = 0
        self._calm = True  # nothing failed since the last announcement

    def see(self, text: str, position: int = 0) -> None:
        """Look at a line, and keep where it stands if it begins an attempt."""
        before = self.current
        self._see(text)
        if self.current != before:
            self._turns.append(position)

    def at(self, position: int) -> int:
        """The number of the attempt that a line at a position belongs to."""
        return self._first + bisect_right(self._turns, position)

    def _see(self, text: str) -> None:
        self.current += self._pending
        self._pending = False
        self._lines += 1
        if len(text) >= 2000:
            return
        if not any(map(text.__contains__, _WORDS)):
            if self._calm and any(map(text.__contains__, _TROUBLES)) and _TROUBLE.search(text):
                self._calm = False
        elif (m := _ELASTIC.match(text)) is not None:
            self._pending = self._begins(m["left"])
        elif _STARTED.match(text):
            self._restarting = 0
        elif _REQUEUED.match(text):
            self._pending = self._lines > 3 and self._begins("requeued")
        elif _OTHER.match(text) is not None:
            # A person's re-run: its command line, with the variables it sets, is the new attempt's.
            self.current += self._lines > 3 and self._is_new(text)
        elif _TROUBLE.search(text):
            self._calm = False

    def _begins(self, left: str | None) -> bool:
        """Whether a word of an agent or scheduler announces a restart that no other word announced before."""
        under_way = self._restarting and self._lines - self._restarting <= COPIES
        known = under_way and (left is None or not self._left or left == self._left)
        self._left = left or ("" if not under_way else self._left)
        self._restarting = self._lines
        return not known

    def _is_new(self, text: str) -> bool:
        """Whether an announcement is no copy of the one before."""
        copy = text == self._said and self._calm and self._lines - self._said_at <= COPIES
        self._said, self._said_at, self._calm = text, self._lines, True
        return not copy
