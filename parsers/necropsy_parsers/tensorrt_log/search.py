"""What is looked for in a chunk of a log, and what makes two messages alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from msgspec import Struct

from necropsy_parsers.tensorrt_log import builds
from necropsy_parsers.tensorrt_log.collect import NODE_LITERALS
from necropsy_parsers.tensorrt_log.kinds import KINDS, UNKNOWN, Kind
from necropsy_parsers.text.search import database_for, search_for

PLANS: Final = (b".engine", b".plan", b".trt")
RANGE: Final = b"to [-4,4]"  # trtexec's placeholder for a tensor's range, one line a tensor
LIST: Final = ("Engine Layer Information:", "] Layers:")
PROFILE: Final = b"=== Profile ("  # trtexec's table of times by layer
SHORTAGES: Final = ("on requested size of", "Scratch requested:")  # a tactic was left out for lack of memory
_DIGITS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
_BY_LITERAL: Final = {literal: kind for kind in KINDS for literal in kind.literals}
_LITERALS: Final = tuple(
    literal.encode()
    for literal in dict.fromkeys(
        (*_BY_LITERAL, *NODE_LITERALS, *UNKNOWN, *(f.literal for f in builds.FACTS), *builds.MEMORY_LITERALS,
         builds.REFORMAT_LITERAL, *LIST, RANGE.decode(), *SHORTAGES, PROFILE.decode(), *(p.decode() for p in PLANS))
    )
)  # fmt: skip
_RANGE: Final = _LITERALS.index(RANGE)
# Heads that loggers put before all that TensorRT says, with the level before them: of two hundred thousand such lines
# only those of a warning or an error are of interest.
_EVERY: Final = {
    _LITERALS.index(literal): len(literal)
    for literal in (b"torch_tensorrt [TensorRT Conversion Context]", b"/trt_logger.cc:")
}
_LOUD: Final = re.compile(
    rb"\[[WEF!]\]|WARN|ERROR|FATAL|CRITICAL|INTERNAL|[Ww]arning|[Ee]rror|\b[WEF]\d{4} |: [WEF] tensorflow/"
)


class Marks(Struct, frozen=True):
    """What the literals in a line make worth asking: a line holds few of them, and there are some two hundred."""

    facts: tuple[builds.Fact, ...]
    kinds: tuple[tuple[str, Kind], ...]
    plan: bool
    memory: bool
    reformat: bool
    begins_list: bool
    node: bool
    short: bool
    profile: bool
    quantizes: bool  # it holds nothing but the name of a node that quantizes


class Marked(Struct, frozen=True):
    """A line that holds literals: where it stands in the chunk, and what to ask of it; `ranges`: how many it tells."""

    begin: int
    end: int
    ranges: int
    marks: Marks | None


def marked(chunk: bytes) -> Iterator[Marked]:
    """Lines that hold literals, in order."""
    found = sorted(_loud(chunk, _hits(chunk)))
    index, count = 0, len(found)
    while index < count:
        position = found[index][0]
        begin, stop = chunk.rfind(b"\n", 0, position) + 1, chunk.find(b"\n", position)
        end = len(chunk) if stop < 0 else stop
        numbers: list[int] = []
        while index < count and found[index][0] < end:
            numbers.append(found[index][1])
            index += 1
        ranges = numbers.count(_RANGE)
        others = frozenset(numbers) - {_RANGE} if ranges else frozenset(numbers)
        yield Marked(begin, end, ranges, _marks(others) if others else None)


def _loud(chunk: bytes, hits: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without heads of lines that are no warning and no error, unless colours may hide what such a line says."""
    if b"\x1b" in chunk or not any(number in _EVERY for _, number in hits):
        return hits
    told: dict[bytes, bool] = {}  # heads seen: most logs have few
    found = []
    for at, number in hits:
        if number in _EVERY:
            head = chunk[chunk.rfind(b"\n", 0, at) + 1 : at + _EVERY[number]]
            loud = told.get(head)
            if loud is None:
                loud = told[head] = _LOUD.search(head) is not None
            if not loud:
                continue
        found.append((at, number))
    return found


def _hits(chunk: bytes) -> list[tuple[int, int]]:
    """Positions and numbers of literals."""
    search = search_for(_LITERALS)
    quick = database_for(_LITERALS) if search.is_large(chunk) else None
    return [(position, number) for number, position in (quick or search).find(chunk)]


@lru_cache(maxsize=4096)
def _marks(numbers: frozenset[int]) -> Marks:
    return _asked(tuple(_LITERALS[n].decode() for n in sorted(numbers)))


def _asked(literals: tuple[str, ...]) -> Marks:
    """What to ask of a line in which these stand, in the order of `_LITERALS`."""
    held = frozenset(literals)
    return Marks(
        tuple(f for f in builds.FACTS if f.literal in held),
        tuple((x, _BY_LITERAL[x]) for x in literals if x in _BY_LITERAL),
        any(x.encode() in PLANS for x in literals),
        any(x in held for x in builds.MEMORY_LITERALS),
        builds.REFORMAT_LITERAL in held,
        any(x in held for x in LIST),
        any(x in held for x in NODE_LITERALS),
        any(x in held for x in SHORTAGES),
        PROFILE.decode() in held,
        literals == (builds.QUANTIZED_LITERAL,),
    )


# Of a line in whose text something was hidden, by colours say, all is asked.
ANY: Final = _asked(tuple(x.decode() for x in _LITERALS))


def kind_of(text: str, marks: Marks) -> Kind | None:
    """The kind of a line's message, None if none is known."""
    for literal, kind in marks.kinds:
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
