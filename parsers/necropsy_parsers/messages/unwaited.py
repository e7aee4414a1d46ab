"""Collectives that were started and never waited for, as torch counts them at exit.

    [W Functional.cpp:47] Warning: At the time of process termination, there are still 4 unwaited collective calls.
    Please review your program to ensure c10d_functional.wait_tensor() is invoked on all tensors returned from
    c10d_functional collective ops before they are used. (function ~WorkRegistry)

torch/csrc/distributed/c10d/Work registry (`~WorkRegistry`), since 2.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "unwaited"
TITLE: Final = "Collectives never waited for"
TRIGGERS: Final = (b"unwaited collective",)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Warning: At the time of process termination, there are still 4 unwaited collective calls.": {"count": 4},
}
_LINE: Final = lazily(r"there (?:are|is) still (?P<count>\d+) unwaited collective calls?")


class Unwaited(Record, frozen=True):
    """torch's count of collectives without a wait when the process ended."""

    count: int


def read(message: Message) -> Iterator[Unwaited]:
    """The count in `message`, if it is above zero."""
    m = _LINE.search(message.text)
    if m is not None and int(m["count"]) > 0:
        yield Unwaited(message.anchor, int(m["count"]), **message.common)
