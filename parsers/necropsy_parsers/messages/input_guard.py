"""Guards on tensors that enter a compiled function: which line of the program used them first.

| | +- TENSOR_MATCH: check_tensor(L['ids'], Tensor, DispatchKeySet(CPU, ...), torch.int64, device=None, size=[4,
48], stride=[48, 1])  # b, t = ids.shape  # ome/trainer/lm.py:13 in forward                     (2.4 and later)
hasattr(L['ids'], '_dynamo_dynamic_indices') == False         # b, t = ids.shape  # lm.py:13 in forward   (2.1 to 2.3)

`TORCH_LOGS=guards`. When such a guard fails, its reason names no line (it is made in C++,
torch/csrc/dynamo/guards.cpp); only this list does. Guards on parameters and buffers of modules are
passed over: those do not change their size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.text.guard_failure import failure
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "input_guard"
TITLE: Final = "Guards on tensors that enter a compiled function"
TRIGGERS: Final = (b"TENSOR_MATCH: check_tensor(", b"'_dynamo_dynamic_indices') == False  ")
READS: Final = (
    Reads("guards", "2.1", "tensors that enter a compiled function, and the line that used them first", quotes=True),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "| | +- TENSOR_MATCH: check_tensor(L['ids'], Tensor, size=[4, 48], stride=[48, 1])"
    "  # b, t = ids.shape  # ome/trainer/lm.py:13 in forward": {"source": "L['ids']"},
    "hasattr(L['ids'], '_dynamo_dynamic_indices') == False         # b, t = ids.shape  # lm.py:13 in forward": {
        "source": "L['ids']"
    },
}
_GUARD: Final = lazily(
    r"(?:^[| ]*\+- TENSOR_MATCH: check_tensor\((?P<tensor>[^\n]+?), (?=\w*Tensor\b|Parameter\b|[\w.]+, Dispatch)"
    r"|^ *hasattr\((?P<older>[^\n]+?), '_dynamo_dynamic_indices'\) == False +(?=#))"
)
_STATE: Final = ("._parameters[", "._buffers[")


class InputGuard(Record, frozen=True):
    """A tensor that enters a compiled function as `source`; `frame` is the line that used it first, path shortened."""

    source: str
    frame: Frame


def read(message: Message) -> Iterator[InputGuard]:
    """The guards in `message`."""
    if message.exception is not None:
        return
    for line in message.text.split("\n"):
        m = _GUARD.match(line)
        source = (m["tensor"] or m["older"]) if m is not None else ""
        if m is None or any(part in source for part in _STATE):
            continue
        found = failure(line[m.end() :] if m["tensor"] else f"{source} {line[m.end() :]}")
        if found is not None and found.comment is not None:
            yield InputGuard(message.anchor, source, found.comment, **message.common)
