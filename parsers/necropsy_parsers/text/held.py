"""What a chunk of text holds of the words that tallies count: which, and of some where they stand."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from necropsy_parsers.tallies import places


class Held(Struct, frozen=True):
    """Words of one chunk. `found` has the places, sorted, of those that the search for all words told of."""

    words: frozenset[bytes] = frozenset()
    found: dict[bytes, list[int]] = field(default_factory=dict)

    def __contains__(self, word: object) -> bool:
        return word in self.words

    def places(self, chunk: bytes, word: bytes) -> Sequence[int]:
        """Where a word stands in the chunk that this was told of."""
        known = self.found.get(word)
        return list(places(chunk, word)) if known is None else known
