"""Compiled autograd captures the backward pass again, and why.

[__compiled_autograd_verbose] Cache miss due to new autograd node: TanhBackward0 (NodeCall 2) with key size 38, previous
key sizes=[]                                                                                        (2.4 and later)
[__compiled_autograd_verbose] Cache miss due to 7 changed tensor shapes (total of 7): sizes[0], sizes[1]   (since 2.6)
[__compiled_autograd_verbose] Cache miss due to changed shapes: marking size idx 3 of MulBackward0 as dynamic (2.4, 2.5)

`TORCH_LOGS=compiled_autograd_verbose` (torch/csrc/dynamo/python_compiled_autograd.cpp, `VerboseLogger`). The first
capture of a process misses at the graph's root: nothing was there before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "backward_capture"
TITLE: Final = "Captures of the backward pass (compiled autograd)"
TRIGGERS: Final = (b"Cache miss due to ",)
READS: Final = (
    Reads("compiled_autograd_verbose", "2.4", "why the backward pass was captured again: node of autograd, or sizes"),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Cache miss due to new autograd node: TanhBackward0 (NodeCall 2) with key size 38, previous key sizes=[]": {
        "cause": "node",
        "node": "TanhBackward0",
        "first": False,
    },
    "Cache miss due to new autograd node: torch::autograd::GraphRoot (NodeCall 0) with key size 39, previous key "
    "sizes=[]": {"cause": "node", "node": "torch::autograd::GraphRoot", "first": True},
    "Cache miss due to 7 changed tensor shapes (total of 7): sizes[0], sizes[1]": {"cause": "sizes", "sizes": 7},
    "Cache miss due to changed shapes: marking size idx 3 of MulBackward0 as dynamic": {
        "cause": "sizes",
        "node": "MulBackward0",
    },
}
_NODE: Final = lazily(
    r"^Cache miss due to new autograd node: (?P<node>[^\n(]+?)(?: \(NodeCall (?P<call>\d+)\))?"
    r"(?: with key size \d+)?(?:, previous key sizes=\[(?P<before>[^\]\n]*)\])?\s*$"
)
_SIZES: Final = lazily(
    r"^Cache miss due to (?:(?P<sizes>\d{1,9}) changed tensor shapes"
    r"|changed shapes: marking size idx \d+ of (?P<node>[^\n(]+?)(?: \(NodeCall \d+\))? as dynamic)"
)


class BackwardCapture(Record, frozen=True):
    """One capture of the backward pass for a new `node` of autograd or changed `sizes` (0: not told how many).

    `first` ones follow no other: they are what any run pays.
    """

    cause: str
    node: str = ""
    sizes: int = 0
    first: bool = False


def read(message: Message) -> Iterator[BackwardCapture]:
    """The captures in `message`."""
    if message.exception is not None:
        return
    for line in message.text.split("\n"):
        if (m := _NODE.match(line)) is not None:
            first = m["call"] in ("0", None) and not m["before"] and "GraphRoot" in m["node"]
            yield BackwardCapture(message.anchor, "node", m["node"], 0, first, **message.common)
        elif (m := _SIZES.match(line)) is not None:
            yield BackwardCapture(message.anchor, "sizes", m["node"] or "", int(m["sizes"] or 0), **message.common)
