"""What tar and zip share: naming and counting members, and reading them from a one-way stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from necropsy_parsers.issues import Issues
from necropsy_parsers.source.limits import Budget, Limits
from necropsy_parsers.source.notes import Note, Notes, shown
from necropsy_parsers.source.stream import ByteStream

Reopen = Callable[[int], ByteStream]  # opens the archive (decompressed) again, at this position


class Archive:
    """An archive being read. `path` is its file, None for a pipe; `packed()` its bytes on disk, or read so far."""

    def __init__(
        self, notes: Notes, path: Path | None, packed: Callable[[], int], issues: Issues, limits: Limits
    ) -> None:
        self.path = path
        self.limits = limits
        self.notes = notes
        self.budget = Budget(limits, packed=packed)
        self._issues = issues
        self._names: dict[str, int] = {}
        self._count = 0

    def full(self) -> bool:
        """True, with an issue, once no more members may be read."""
        why = self.budget.exhausted()
        if self._count >= self.limits.members:
            why = f"more than {self.limits.members:,} members"
        if why:
            self.notes("source/limit", f"{why}: the members behind were not read")
        return bool(why)

    def admit(self, member: str) -> Notes:
        """Count a member that becomes a source. Its display name is the notes' `name`."""
        self._count += 1
        name = f"{self.notes.name}!{shown(member)}"
        again = self._names[name] = self._names.get(name, 0) + 1
        return Notes(self._issues, name if again == 1 else f"{name}#{again}")

    def share(self) -> Budget:
        """A member's own budget, within the archive's."""
        return Budget(self.limits, self.budget)

    def skip(self, member: str, why: str) -> None:
        """Report a member that is not opened; they add up to one issue of the archive."""
        self._count += 1
        self._issues.add("source/skipped-member", self.notes.name, unit="members", detail=f"{shown(member)}: {why}")


class Turn:
    """A member's turn on a one-way stream: its source may read it there until the walk moves on."""

    def __init__(self, stream: ByteStream, offset: int, reopen: Reopen | None) -> None:
        self._stream: ByteStream | None = stream
        self._offset = offset
        self._reopen = reopen
        self._over = False

    def take(self, note: Note) -> tuple[ByteStream, bool] | None:
        """The archive's stream at the member's first byte, and whether the caller must close it.

        None, with an issue, when the bytes are gone.
        """
        stream, self._stream = self._stream, None
        if stream is not None:
            return stream, False
        if self._reopen is not None:
            return self._reopen(self._offset), True
        note("source/unreadable", "a pipe can be read once, and an archive's members there only in their turn")
        return None

    def watch(self, blocks: Iterator[bytes], note: Note) -> Iterator[bytes]:
        """Pass on what is read from the taken stream, which stands elsewhere when the turn is over."""
        for block in blocks:
            yield block
            if self._over:
                note("source/unreadable", "the rest was asked for after the next input: an archive is read in order")
                return

    def over(self) -> bool:
        """End the turn. True if the member was taken."""
        taken, self._stream, self._over = self._stream is None, None, True
        return taken
