"""faulthandler's stacks: where each Python thread stood when the process crashed.

    Current thread 0x00007f3a (most recent call first):
      File "/home/trainer/projects/vit/ops.py", line 44 in roi_gather
      File "/home/trainer/projects/vit/train.py", line 121 in <module>

Most recent call *first*, unlike tracebacks, and no comma before `in`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record

NAME: Final = "thread_stack"
TITLE: Final = "Stacks printed by faulthandler"
TRIGGERS: Final = (b"(most recent call first)",)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    'Current thread 0x00007f3a (most recent call first):\n  File "ops.py", line 44 in gather': {"current": True},
}
_HEAD: Final = lazily(r"(?P<current>Current thread|Thread) 0x[0-9a-f]+ (?:\[[^\]]*\] )?\(most recent call first\)")
_FRAME: Final = lazily(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+|\?\?\?) in (?P<function>.+?)\s*$')


class ThreadStack(Record, frozen=True):
    """One thread's stack, outermost call first (turned round to match tracebacks)."""

    current: bool
    frames: tuple[Frame, ...]


def read(message: Message) -> Iterator[ThreadStack]:
    """The stack that `message` holds, if it does."""
    head = _HEAD.search(message.first)
    if head is None:
        return
    found = [m for line in message.text.split("\n")[1:] if (m := _FRAME.match(line)) is not None]
    frames = [Frame(m["file"], int(m["line"]) if m["line"].isdigit() else None, m["function"]) for m in found]
    yield ThreadStack(
        message.anchor,
        head["current"].startswith("Current"),
        tuple(reversed(frames)),
        **message.common,
    )
