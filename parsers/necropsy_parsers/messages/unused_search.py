"""DDP's warning that it searches for unused parameters where there are none.

    [W1129 12:21:29.136000 947 reducer.cpp:1457] Warning: find_unused_parameters=True was specified in DDP constructor,
    but did not find any unused parameters in the forward pass. This flag results in an extra traversal of the autograd
    graph every iteration, which can adversely affect performance. ... (function operator())

Written once a process by torch/csrc/distributed/c10d/reducer.cpp (`Reducer::prepare_for_backward`), since 1.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "unused_search"
TITLE: Final = "DDP finds no unused parameters"
TRIGGERS: Final = (b"did not find any unused parameters",)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters in "
    "the forward pass. This flag results in an extra traversal of the autograd graph every iteration": {
        "option": "find_unused_parameters"
    },
}
_LINE: Final = lazily(r"find_unused_parameters\s*=\s*True was specified.{0,80}?did not find any unused parameters")


class UnusedSearch(Record, frozen=True):
    """One process's warning; `option` is what to leave out."""

    option: str


def read(message: Message) -> Iterator[UnusedSearch]:
    """The warning in `message`."""
    if _LINE.search(" ".join(message.text.split())) is not None:
        yield UnusedSearch(message.anchor, "find_unused_parameters", **message.common)
