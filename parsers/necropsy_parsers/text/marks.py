"""Where the lines worth reading stand in a chunk of text: those with a trigger, and a sample of progress lines.

Progress lines may be most of a log. They are searched for together with the triggers until a chunk shows many of them;
from then on apart, because each match costs more than a second pass.
"""

from __future__ import annotations

import re
from collections.abc import Container
from itertools import islice
from typing import Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.text.held import Held
from necropsy_parsers.text.quoted import FEW, counting, outside_quotes
from necropsy_parsers.text.search import Database, database_for, search_for

SAMPLED: Final = b"oss"  # loss, Loss: progress lines, of which a sample is enough
_SAMPLED: Final = re.compile(SAMPLED)
SAMPLES_PER_CHUNK: Final = 1000  # fewer than twice as many are all read; each costs a tenth of a millisecond
# Inputs of a run that may each take so many; a job has a log a rank, and all of them tell the same losses.
FULLY_SAMPLED: Final = 16
SAMPLES_LEAST: Final = 100
LATER: Final = 2  # of chunks behind the first, half as many: a series keeps 128 values, and every NaN is read anyway
CROWDED: Final = 3_000  # places of a word in a chunk from which on a search for that word alone takes less time
ENOUGH: Final = 4 * SAMPLES_PER_CHUNK  # read of one input; of the chunks behind them the least

Marked = tuple[list[int], list[int]]  # positions of triggers, and of the sample; both sorted


class Marks:
    """Finds them in the chunks of one input, the `number`th of the run.

    `compilers` are the triggers that count in lines of torch's compiler (see `quoted`). `watched` are literals of which
    it is of interest which of them a chunk holds: `held`, and where those stand that were asked for with `place`.
    """

    def __init__(
        self,
        triggers: tuple[bytes, ...],
        compilers: Container[bytes],
        name: str,
        issues: Issues,
        number: int,
        watched: tuple[bytes, ...] = (),
    ) -> None:
        self._triggers = triggers
        self._all_watched = self._watched = watched
        self._placed: tuple[bytes, ...] = ()
        self._crowded: set[bytes] = set()
        self.held = Held()
        self._search = search_for(triggers)
        self._own = frozenset(n for n, literal in enumerate(triggers) if literal in compilers)
        self._name, self._issues = name, issues
        self._samples = max(SAMPLES_LEAST, SAMPLES_PER_CHUNK * FULLY_SAMPLED // max(FULLY_SAMPLED, number + 1))
        self._first = True
        self._taken = 0
        self._dense = False  # the chunk before was full of progress lines

    def place(self, words: frozenset[bytes]) -> None:
        """From the next chunk on `held` tells where these words stand, but for those that turn out to be many."""
        if len(words) != len(self._placed) + len(self._crowded):
            self._set_placed(words - self._crowded)

    def _set_placed(self, words: frozenset[bytes]) -> None:
        self._placed = tuple(sorted(words))
        self._watched = tuple(word for word in self._all_watched if word not in words)

    def find(self, chunk: bytes) -> Marked:
        """The marks in the next chunk."""
        wanted = self._wanted()
        self._first = False
        starts, sampled = self._marked(chunk, wanted)
        self._taken += len(sampled)
        return starts, sampled

    def _wanted(self) -> int:
        if self._first:
            return self._samples
        return SAMPLES_LEAST if self._taken > ENOUGH else max(SAMPLES_LEAST, self._samples // LATER)

    def _marked(self, chunk: bytes, wanted: int) -> Marked:
        watched = len(self._watched)
        if not self._search.is_large(chunk) or (
            (both := database_for((*self._triggers, SAMPLED, *self._placed, *self._watched), watched)) is None
        ):
            self.held = Held(frozenset(word for word in self._all_watched if word in chunk))
            starts = counting(chunk, [(begin, number) for number, begin in self._search.find(chunk)], self._own)
            return starts, self._sample(chunk, wanted)
        if not self._dense:
            soft = len(self._triggers)
            found = both.ends_unless(chunk, soft, 2 * wanted)
            if found is not None:
                return self._judged(chunk, both, *found, soft)
            self._dense = True
        plain = database_for((*self._triggers, *self._placed, *self._watched), watched)
        assert plain is not None  # as `both` is
        starts, _ = self._judged(chunk, plain, *plain.ends(chunk))
        return starts, self._sample(chunk, wanted)

    def _hold(self, database: Database, numbers: list[int], ends: list[int], first: int) -> None:
        """Keep which of the watched literals were found, and where the placed, the first of which has that number."""
        literals = (*self._placed, *self._watched)
        told = [(n, end) for n, end in zip(numbers, ends, strict=True) if n >= first]
        found: dict[bytes, list[int]] = {word: [] for word in self._placed}
        for n, end in told:  # those of one literal, which has one length, are in order
            if n - first < len(found):
                found[literals[n - first]].append(end - database.lengths[n])
        self.held = Held(frozenset(literals[n - first] for n, _ in told), found)
        if crowded := {word for word, at in found.items() if len(at) > CROWDED}:
            self._crowded |= crowded
            self._set_placed(frozenset(self._placed) - crowded)

    def _judged(
        self, chunk: bytes, database: Database, numbers: list[int], ends: list[int], soft: int | None = None
    ) -> Marked:
        """Those of all matches that count; matches of literal `soft` apart."""
        watched = len(database.lengths) - len(self._placed) - len(self._watched)  # number of the first of them
        self._hold(database, numbers, ends, watched)
        if len(ends) <= FEW or sum(n < watched for n in numbers) <= FEW:
            found = zip(numbers, ends, strict=True)
            hits = [(end - database.lengths[n], n) for n, end in found if n < watched]
            starts = counting(chunk, [hit for hit in hits if hit[1] != soft], self._own)
            return starts, counting(chunk, [hit for hit in hits if hit[1] == soft], self._own)
        import numpy as np

        number = np.array(numbers, np.int64)
        position = np.array(ends, np.int64) - np.array(database.lengths, np.int64)[number]
        order = np.argsort(position, kind="stable")
        order = order[number[order] < watched]
        number, position = number[order], position[order]
        own = np.zeros(len(database.lengths), np.bool_)
        own[list(self._own)] = True
        counts = own[number]
        others = np.flatnonzero(~counts)
        counts[others] = outside_quotes(chunk, position[others])
        sampled = counts & (number == soft) if soft is not None else np.zeros(len(counts), np.bool_)
        return position[counts & ~sampled].tolist(), position[sampled].tolist()

    def _sample(self, chunk: bytes, wanted: int) -> list[int]:
        """Of the progress lines in `chunk` all, if they are fewer than twice `wanted`, or every so manieth."""
        found = chunk.count(SAMPLED)
        self._dense = found >= 2 * wanted
        if not found:
            return []
        stride = max(1, found // wanted)
        if stride > 1:
            self._issues.add("text/sampled", self._name, unit="chunks")
        sample = self._spread(chunk, wanted) if stride > 4 else []
        if len(sample) < wanted // 2:
            sample = [(m.start(), -1) for m in islice(_SAMPLED.finditer(chunk), 0, None, stride)]
        return counting(chunk, sample, self._own)

    @staticmethod
    def _spread(chunk: bytes, wanted: int) -> list[tuple[int, int]]:
        """The first behind each of `wanted` places: many times faster than to go through all."""
        found = {chunk.find(SAMPLED, place) for place in range(0, len(chunk), max(1, len(chunk) // wanted))}
        return [(position, -1) for position in sorted(found) if position >= 0]
