"""Command lines and configurations refused before the program really started.

train.py: error: unrecognized arguments: --lr-sheduler cosine
usage: train.py [-h] [--lr LR]
Key 'modle' is not in struct                                              (Hydra, OmegaConf)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "usage_error"
TITLE: Final = "Refused command lines and configurations"
TRIGGERS: Final = (
    b": error: ",
    b"Could not override",
    b"Error: No such option",
    b"Error: Missing option",
    b"Error: Invalid value",
    b"is not in struct",
    b"Usage: ",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "train.py: error: unrecognized arguments: --lr-sheduler cosine": {
        "program": "train.py",
        "what": "unrecognized arguments: --lr-sheduler cosine",
    },
}
_ARGPARSE: Final = lazily(
    r"(?P<program>[\w./\\-]+(?: [\w-]+)?): error: "
    r"(?P<what>(?:unrecognized arguments|the following arguments are required"
    r"|argument \S.*?: |one of the arguments"
    r"|ambiguous option|expected (?:one|at least one) argument|invalid choice|No such option).*)"
)
_CLICK: Final = lazily(
    r"^(?P<program>)Error: "
    r"(?P<what>(?:No such option|Missing (?:option|argument|parameter)"
    r"|Invalid value for|Got unexpected extra).*)"
)
_HYDRA: Final = lazily(r"(?P<program>)(?P<what>Could not override '[^']+'.*|Key '[^']+' is not in struct.*)")


class UsageError(Record, frozen=True):
    """One refusal: the program that refused, and what it said."""

    program: str
    what: str


def read(message: Message) -> Iterator[UsageError]:
    """The refusal that `message` is, if it is one."""
    if message.exception is not None:
        return
    text = message.first.strip()
    m = _ARGPARSE.match(text) or _CLICK.match(text) or _HYDRA.match(text)
    if m is not None:
        yield UsageError(
            message.anchor,
            m["program"],
            m["what"],
            **message.common,
        )
