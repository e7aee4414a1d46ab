"""How DistributedDataParallel's optimizer split a compiled graph, so that gradients are reduced during the backward.

DDPOptimizer used bucket cap 26214400 and created 5 buckets. Enable debug logs for detailed bucket info.
DDPOptimizer captured no parameters and did not split this graph.

`TORCH_LOGS=+dynamo` or `torch._dynamo.backends.distributed` (torch/_dynamo/backends/distributed.py, INFO and DEBUG, 2.1
to 2.13); the artifact `ddp_graphs` prints the graphs themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "ddp_split"
TITLE: Final = "Buckets of compiled graphs under DistributedDataParallel"
TRIGGERS: Final = (b"DDPOptimizer used bucket cap ", b"DDPOptimizer captured no parameters")
READS: Final = (Reads("", "2.1", "`dynamo`: buckets that DDPOptimizer made of each graph, and their cap"),)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "DDPOptimizer used bucket cap 26214400 and created 5 buckets. Enable debug logs for detailed bucket info.": {
        "cap": 26214400,
        "buckets": 5,
    },
    "DDPOptimizer captured no parameters and did not split this graph.": {"cap": 0, "buckets": 0},
}
_MADE: Final = lazily(
    r"^DDPOptimizer used bucket cap (?P<cap>\d{1,15})(?:\.\d+)? and created (?P<buckets>\d{1,9}) buckets"
)
_NONE: Final = lazily(r"^DDPOptimizer captured no parameters and did not split this graph")


class DdpSplit(Record, frozen=True):
    """One graph: `buckets` made of it (0: it holds no parameters) of at most `cap` bytes each."""

    cap: int
    buckets: int


def read(message: Message) -> Iterator[DdpSplit]:
    """The graphs in `message`."""
    if message.exception is not None:
        return
    for line in message.text.split("\n"):
        if (m := _MADE.match(line)) is not None:
            yield DdpSplit(message.anchor, int(m["cap"]), int(m["buckets"]), **message.common)
        elif _NONE.match(line) is not None:
            yield DdpSplit(message.anchor, 0, 0, **message.common)
