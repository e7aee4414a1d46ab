"""Where a source's troubles go: into the report's issues, each kind once per source."""

from __future__ import annotations

from collections.abc import Callable

from necropsy_parsers.issues import Issues

Note = Callable[[str, str], None]  # kind from the catalogue, detail


class Notes:
    """Callable as `notes(kind, detail)`. A kind counts once however often a source is read."""

    def __init__(self, issues: Issues, name: str) -> None:
        self.name = name
        self.kinds: set[str] = set()
        self._issues = issues

    def __call__(self, kind: str, detail: str) -> None:
        """Count `kind` unless this source had it already."""
        if kind not in self.kinds:
            self.kinds.add(kind)
            self._issues.add(kind, self.name, detail=detail)


def ignore(kind: str, detail: str) -> None:
    """A `Note` for a first look: the real reading will tell."""


def shown(name: str) -> str:
    """A file or member name that is safe to print: what is not printable is written as an escape.

    Archive members may be called anything; a name must not move the cursor, reverse the
    reading direction or fail to encode.
    """
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
