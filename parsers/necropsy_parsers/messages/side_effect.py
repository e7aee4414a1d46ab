"""What a compiled function changes outside itself, and on which lines.

[0/0] [__side_effects] Mutating object of type list (source name: L['self'].history)
[0/0] [__side_effects]
[0/0] [__side_effects]       File "/home/trainer/projects/meter/train.py", line 12, in forward
[0/0] [__side_effects]         self.history.append(y.detach())

`TORCH_LOGS=side_effects`, since torch 2.11 (torch/_dynamo/side_effects.py, `_format_side_effect_message`): a stack each
way that led to a change, parted by asterisks. Of an object the attribute that changes stands in the code only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "side_effect"
TITLE: Final = "What compiled functions change outside themselves"
TRIGGERS: Final = (b"Mutating object of type ",)
READS: Final = (Reads("side_effects", "2.11", "object that a compiled function changes, and the lines that do"),)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Mutating object of type list (source name: L['self'].history)": {"type": "list", "source": "L['self'].history"},
    "Mutating object of type dict (no source) (unable to find user stacks for mutations)": {
        "type": "dict",
        "source": "",
    },
}
_BEGINS: Final = lazily(
    r"^Mutating object of type (?P<type>[^\n(]{1,200}?) \((?:source name: (?P<source>[^\n]{1,500}))?"
)
_FRAME: Final = lazily(
    r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9}), in (?P<function>[^\n]{1,200})(?:\n *(?P<text>\S[^\n]*))?',
    re.MULTILINE,
)
_APART: Final = "\n    ********"
MAX_FRAMES: Final = 12  # innermost ones kept of a stack
MAX_STACKS: Final = 16


class SideEffect(Record, frozen=True):
    """An object of a `type`, as guards name it ("" where it has no name), and the stacks that change it."""

    type: str
    source: str
    stacks: tuple[tuple[Frame, ...], ...]


def read(message: Message) -> Iterator[SideEffect]:
    """The change in `message`."""
    m = _BEGINS.match(message.text)
    if m is None or message.exception is not None:
        return
    source = (m["source"] or "").split(" (unable to find")[0].strip().removesuffix(")")
    parts = message.text[m.end() :].split(_APART)[:MAX_STACKS]
    stacks = (_frames(part) for part in parts)
    yield SideEffect(
        message.anchor, m["type"].strip(), source, tuple(s for s in dict.fromkeys(stacks) if s), **message.common
    )


def _frames(text: str) -> tuple[Frame, ...]:
    found = []
    for f in _FRAME.finditer(text):
        code = (f["text"] or "").strip()
        code = "" if code.startswith('File "') or not code.strip("^~ ") else code
        found.append(Frame(f["file"], int(f["line"]), f["function"].strip(), code))
    return tuple(found[-MAX_FRAMES:])
