"""The line of a compiled function that changes a value which a guard compares: where the next recompilation is made.

Guards name the line that reads a value. Which line changes it tells the log of side effects (TORCH_LOGS=side_effects,
torch 2.11 and later): of a list, dict or set its own name is told, of an attribute the object that has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from necropsy_parsers.grammars.guard import Guard, shown
from necropsy_parsers.messages.side_effect import SideEffect
from necropsy_parsers.records import Frame, Origin

from necropsy.finding import Place
from necropsy.provenance.dynamo import claimed_frame, plain_function
from necropsy.provenance.frames import place_of

HOW: Final = "side effects"
_CHANGED: Final = r"\b\s*(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)"
_KINDS: Final = frozenset({"int", "float", "bool", "str", "none", "value", "length", "keys", "membership", "type"})


def changed_at(guard: Guard, origin: Origin, compile_id: str, effects: Iterable[SideEffect]) -> Place | None:
    """The one line at which the function with that guard changes what it compares; None where that is not told."""
    if guard.kind not in _KINDS or not guard.source:
        return None
    source, owner, attribute = shown(guard.source), *shown(guard.source).rpartition(".")[::2]
    found: dict[tuple[str, int | None], Frame] = {}
    for effect in effects:
        if not _same(effect.origin, origin, compile_id):
            continue
        name = shown(effect.source)
        for frame in _lines(effect):
            if name == source or (name == owner and attribute and _assigns(frame.text, attribute)):
                found.setdefault((frame.file, frame.line), frame)
    if len(found) != 1:  # which of several lines runs is not told
        return None
    (frame,) = found.values()
    place = place_of(frame, how=HOW)
    return Place(place.file, place.line, None, plain_function(place.function), place.text, place.exactness, HOW)


def _lines(effect: SideEffect) -> Iterator[Frame]:
    for stack in effect.stacks:
        if (frame := claimed_frame(stack)) is not None:
            yield frame


def _assigns(text: str, attribute: str) -> bool:
    return re.search(rf"\.{re.escape(attribute)}{_CHANGED}", text) is not None


def _same(effect: Origin, origin: Origin, compile_id: str) -> bool:
    """Whether both are of one function in one process: the number before the slash."""
    mine, other = compile_id.rpartition("/")[0], effect.compile_id.rpartition("/")[0]
    return bool(mine) and mine == other and (effect.rank, effect.pid) == (origin.rank, origin.pid)
