"""A tokenizer's warning that a sequence is longer than the model's window.

    Token indices sequence length is longer than the specified maximum sequence length for this model (1307 > 1024).
    Running this sequence through the model will result in indexing errors

transformers/tokenization_utils_base.py, once a process. What comes of it is an index out of range, on the GPU a
device-side assertion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "token_window"
TITLE: Final = "Sequences longer than the model's window"
TRIGGERS: Final = (b"sequence length is longer than",)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Token indices sequence length is longer than the specified maximum sequence length "
    "for this model (1307 > 1024).": {
        "length": 1307,
        "window": 1024,
    },
}
_LINE: Final = lazily(
    r"[Tt]oken indices sequence length is longer than the specified maximum sequence length for this model "
    r"\((?P<length>\d+) > (?P<window>\d+)\)"
)


class TokenWindow(Record, frozen=True):
    """One warning: tokens of the sequence, and tokens that the model has positions for."""

    length: int
    window: int


def read(message: Message) -> Iterator[TokenWindow]:
    """The warning that `message` is, if it is one."""
    m = _LINE.search(message.first)
    if m is not None and message.exception is None:
        yield TokenWindow(message.anchor, int(m["length"]), int(m["window"]), **message.common)
