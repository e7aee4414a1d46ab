"""What is looked for in a chunk of a log, and what makes two messages alike."""

from __future__ import annotations

import re
from typing import Final

from necropsy_parsers.tensorrt_log import builds
from necropsy_parsers.tensorrt_log.collect import NODE_LITERALS
from necropsy_parsers.tensorrt_log.kinds import KINDS, UNKNOWN, Kind
from necropsy_parsers.text.search import database_for, search_for

LARGE: Final = 1 << 20  # bytes of a chunk from which the quicker search is asked for
PLANS: Final = (b".engine", b".plan", b".trt")
RANGE: Final = b"to [-4,4]"  # trtexec's placeholder for a tensor's range, one line a tensor
LIST: Final = ("Engine Layer Information:", "] Layers:")
_DIGITS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
_BY_LITERAL: Final = {literal: kind for kind in KINDS for literal in kind.literals}
_LITERALS: Final = tuple(
    literal.encode()
    for literal in dict.fromkeys(
        (*_BY_LITERAL, *NODE_LITERALS, *UNKNOWN, *(f.literal for f in builds.FACTS), *builds.MEMORY_LITERALS,
         builds.REFORMAT_LITERAL, *LIST, RANGE.decode(), *(p.decode() for p in PLANS))
    )
)  # fmt: skip


def hits(chunk: bytes) -> set[int]:
    """Where literals stand."""
    if len(chunk) >= LARGE and (database := database_for(_LITERALS)) is not None:
        return {position for _, position in database.find(chunk)}
    return {position for _, position in search_for(_LITERALS).find(chunk)}


def kind_of(text: str) -> Kind | None:
    """The kind of a line's message, None if none is known."""
    for literal, kind in _BY_LITERAL.items():
        if literal in text and kind.regex.search(text) is not None:
            return kind
    return None


def alike(name: str, words: dict[str, str], text: str, build: int) -> tuple[object, ...]:
    """What makes messages alike: kind and build; where numbers tell them apart, those, too."""
    if name in (
        "missing-scale",
        "not-obeyed",
        "int8-rejected",
        "tactic-memory",
        "tactic-device",
        "workspace-more",
        "scratch-short",
    ):
        return name, build
    if name in ("error", "warning", "tactic-failed"):
        return name, build, _DIGITS.sub("0", text)[:300]
    return name, build, *sorted(words.items())
