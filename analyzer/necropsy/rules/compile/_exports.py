"""Failures under torch.export, which captures a program as one graph: what it says instead of torch.compile's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from necropsy_parsers.patterns import lazily

from necropsy.finding import Fix

if TYPE_CHECKING:
    from necropsy.evidence.exceptions import ExceptionRow

_FILE: Final = lazily(r"(?:^|[/\\])torch[/\\]_?export[/\\]")
# torch/fx/experimental/symbolic_shapes.py and torch/_export (2.1 to 2.13); a cut log may end within it.
_SUGGESTED: Final = lazily(r"Suggested fixes:[^\n]*\n(?P<lines>(?:[ \t]+[\w.]+ = [^\n]+(?:\n|$))+)")


def exported(row: ExceptionRow) -> bool:
    """Whether torch.export was at work when this was raised."""
    return any(_FILE.search(f.file) for e in row.chain for f in e.frames)


def suggested(text: str) -> tuple[Fix, ...]:
    """The declarations of dynamic sizes that torch suggests; none where it does not."""
    m = _SUGGESTED.search(text)
    if m is None:
        return ()
    lines = "\n".join(line.strip() for line in m["lines"].splitlines()[:8])
    return (Fix("Declare the sizes as torch suggests, if the narrower range is what you want", "code", command=lines),)
