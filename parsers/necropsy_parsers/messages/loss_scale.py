"""Loss scaling of mixed precision: skipped steps and the scale after them.

Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 4096.0          (apex)
[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768
Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.
step 3 loss nan scale 8192.0
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "loss_scale"
TITLE: Final = "Loss scale and skipped steps"
# What stands behind the word where a scale is told. The word alone is in one line of ten of a TensorRT build log of a
# quantized network (`Registering layer: conv1_scale for ONNX node`), and each costs a tenth of a millisecond.
_SIGNS: Final = (*"0123456789.:=|",)
_BEHIND: Final = (*_SIGNS, "'", '"', "\t", "  ", " \t", *(f" {sign}" for sign in _SIGNS))
TRIGGERS: Final = (
    b"oss scale",
    b"oss Scale",
    b"scaling factor",
    *(f"{word}{behind}".encode() for word in ("scale", "Scale") for behind in _BEHIND),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 4096.0": {"skipped": 1, "scale": 4096.0},
}
_N: Final = r"(?P<{}>[\d.]+(?:[eE][-+]?\d+)?)"
_SKIP: Final = lazily(
    r"(?:[Oo]verflow|OVERFLOW)[.!]?.{0,60}?[Ss]kipping step.{0,60}?"
    r"(?:reducing (?:loss scale )?(?:to|from \S+ to) "
    + _N.format("to")
    + r"|loss scale(?:r \d+)? "
    + _N.format("at")
    + r")"
    r"|Attempted loss scale: ?"
    + _N.format("was")
    + r", (?:but hysteresis|reducing to ?(?P<down>[\d.]+(?:[eE][-+]?\d+)?))"
)
_FLOOR: Final = lazily(
    r"loss scale already at minimum|Minimum loss scale reached"
    r"|[Ll]oss scale has been (?:reduced|decreased).{0,40}minimum"
)
_PLAIN: Final = lazily(
    r"\b(?:loss[ _]?scale|amp[ _]?scale|grad[ _]?scale|scale)['\"]?\s*[:=|]?\s*" + _N.format("scale") + r"(?![\w%])",
    re.IGNORECASE,
)


_SKIPPED: Final = lazily(r"number of skipped iterations:\s*(\d+)")  # Megatron-LM


class LossScale(Record, frozen=True):
    """One reading: the `scale` after it, how many steps were `skipped`, whether the `floor` was hit."""

    scale: float | None
    skipped: int
    floor: bool


def read(message: Message) -> Iterator[LossScale]:
    """The scale that `message` reports."""
    text = message.text if message.exception is not None else message.first[:2000]
    skipped = _SKIPPED.search(text)
    if _FLOOR.search(text):
        yield LossScale(message.anchor, None, 1, True, **message.common)
    elif message.exception is None and (m := _SKIP.search(text)) is not None:
        number = m["to"] or m["down"] or m["at"] or m["was"]
        yield LossScale(message.anchor, _float(number), 1, False, **message.common)
    elif (
        message.exception is None
        and (m := _PLAIN.search(text)) is not None
        and re.search(r"loss|step|iter|epoch", text, re.I)
    ):
        yield LossScale(message.anchor, _float(m["scale"]), int(skipped[1]) if skipped else 0, False, **message.common)


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
