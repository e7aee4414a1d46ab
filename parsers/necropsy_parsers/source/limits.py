"""How far reading goes: the limits that keep a hostile archive from filling time and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.source.notes import Note


class Limits(Struct, frozen=True):
    """Where reading stops with a `source/limit` issue. Plain files have no limit.

    The two limits on expansion hold for each compressed source and each archive member,
    and again for all members of an archive together.
    """

    expanded_bytes: int = 64 << 30  # decompressed bytes
    expansion_ratio: int = 2000  # decompressed per compressed byte (repetitive real logs reach a few hundred) ...
    ratio_free_bytes: int = 64 << 20  # ... not counting the first 64 MiB
    members: int = 100_000  # of an archive
    files: int = 100_000  # of a folder, or matched by a pattern


DEFAULT: Final = Limits()
UNLIMITED: Final = Limits(1 << 62, 1 << 62, 1 << 62, 1 << 62, 1 << 62)


class Budget:
    """Decompressed bytes that one source, or all members of one archive, may still yield."""

    def __init__(self, limits: Limits, parent: Budget | None = None, packed: Callable[[], int] | None = None) -> None:
        """`packed()`: compressed bytes that count, if not those of the stream; `parent`: the archive's budget."""
        self.spent = 0
        self._charged = 0  # to the parent; a second reading costs nothing more
        self._limits = limits
        self._parent = parent
        self._packed = packed

    def watch(self, blocks: Iterable[bytes], consumed: Callable[[], int], note: Note) -> Iterator[bytes]:
        """Pass `blocks` on until a limit is reached; `consumed()` is the compressed bytes read so far."""
        for block in blocks:
            room, why = self._room(consumed())
            if len(block) > room:
                self._spend(room)
                if room:
                    yield block[:room]
                note("source/limit", why)
                return
            self._spend(len(block))
            yield block

    def again(self) -> Budget:
        """Itself, for another reading from the start."""
        self.spent = 0
        return self

    def exhausted(self) -> str:
        """Why nothing more may be read, or "" when something may."""
        room, why = self._room(0)
        return "" if room else why

    def _spend(self, count: int) -> None:
        self.spent += count
        if self._parent and self.spent > self._charged:
            self._parent._spend(self.spent - self._charged)
            self._charged = self.spent

    def _room(self, consumed: int) -> tuple[int, str]:
        limits = self._limits
        packed = self._packed() if self._packed else consumed
        by_ratio = limits.ratio_free_bytes + limits.expansion_ratio * packed
        room, why = min(
            (limits.expanded_bytes - self.spent, f"more than {limits.expanded_bytes:,} bytes when decompressed"),
            (by_ratio - self.spent, f"expands more than {limits.expansion_ratio}-fold"),
        )
        if self._parent:
            shared, reason = self._parent._room(consumed)
            room, why = min((room, why), (shared + max(0, self._charged - self.spent), reason))
        return max(0, room), why
