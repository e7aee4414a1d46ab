"""What keeps the results of lines that go on holding more: statements of the source, in words, places and fixes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from necropsy_parsers.records import Frame
from necropsy_parsers.snapshot.model import MemorySnapshot

from necropsy.claim import one_line
from necropsy.finding import Fix, Place
from necropsy.provenance.files import SourceTree
from necropsy.provenance.holders import user_frames
from necropsy.provenance.kept import Kept, keepers, sources_of
from necropsy.rules.memory._growing import GRAIN, Growing

HOW: Final = "source read along the stack"
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")
UNKNOWN: Final = Fix(
    "See what keeps that line's results from step to step (a list, a cache); keep `x.detach().cpu()` or `x.item()`",
    "code",
)


def kept_of(s: MemorySnapshot, found: Sequence[Growing], tree: SourceTree) -> dict[Frame, tuple[Kept, ...]]:
    """Line -> the statements that may keep what it makes; none where the source is not at hand."""
    if not found:
        return {}
    lines_of = sources_of(tree, (tuple(user_frames(stack)) for stack in s.stacks), Path(s.anchor.input).parent)
    return {g.frame: tuple(keepers(g.frames, lines_of)) for g in found}


def certain(kept: Sequence[Kept]) -> Kept | None:
    """The one statement that keeps them, for as long as the program runs."""
    return kept[0] if len(kept) == 1 and not kept[0].bounded else None


def place_of(kept: Kept) -> Place:
    """A statement as a place."""
    return Place(kept.file, kept.line, None, kept.function, kept.text, how=HOW)


def at(where: Frame | Kept | Place) -> str:
    """`fit.py:41`."""
    return f"{where.file.replace(chr(92), '/').rpartition('/')[2]}:{where.line}"


def quoted(kept: Kept) -> str:
    """`` `history.append(loss)` (fit.py:41) ``."""
    return f"`{one_line(kept.says, 60)}` ({at(kept)})"


def listed(kept: Iterable[Kept]) -> list[str]:
    """Statements as a fact."""
    return [quoted(k) for k in kept]


def fix_of(kept: Sequence[Kept], each: int) -> Fix:
    """What to store instead; `each` are the bytes of one block (0: they differ)."""
    if not kept:
        return UNKNOWN
    k = kept[0]
    number = each == GRAIN and not k.adds
    stored = k.stored.removesuffix(".detach()")
    stored = stored if _NAME.fullmatch(stored) else "x"
    if k.adds:
        return Fix(f"Add up numbers at {at(k)}: `{k.holder} += {stored}.item()`, or `.detach()`", "code")
    if number:
        return Fix(
            f"Store a number at {at(k)}: `{stored}.item()`, every so many steps (it waits for the GPU)",
            "code",
        )
    return Fix(f"Store it off the GPU at {at(k)}: `{stored}.detach().cpu()`, or only what is needed", "code")
