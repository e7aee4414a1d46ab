"""Losses and gradient norms that a training loop reports, in any trainer's style.

    step 12 loss 0.4211                                        iteration 120/ 5000 | lm loss: 1.23E+01 |
    {'loss': 2.31, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': 0.3}
    Epoch 3:  41%|####  | 12/391 [00:41<21:33,  3.41s/it, loss=0.871]

Every line with a NaN or Inf is read; of the others a sample, on inputs where they are
too many to matter one by one (`text.marks.SAMPLES_PER_CHUNK`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.records import Record

NAME: Final = "training_value"
TITLE: Final = "Losses and gradient norms"
TRIGGERS: Final = (
    b"nan",
    b"NaN",
    b"NAN",
    b"=inf",
    b": inf",
    b" inf,",
    b" inf ",
    b"-inf",
    b"Infinity",
    b": Inf",
    b"=Inf",
    b" Inf ",
)
SAMPLED: Final = (b"oss",)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "step 12 loss nan": {"name": "loss", "step": 12, "finite": False},
    "{'loss': 2.31, 'learning_rate': 5e-05, 'epoch': 0.3}": {"name": "loss", "value": 2.31},
}
_NUMBER: Final = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|NaN|NAN|inf(?:inity)?|Inf(?:inity)?)"
_VALUE: Final = re.compile(
    r"(?P<name>(?:\b[A-Za-z]\w*[ /_.-])?(?<![A-Za-z])(?:[A-Za-z][\w/]*[_/-])?"
    r"(?:[Ll]oss|LOSS)(?:[/_]\w+)?"
    r"|grad(?:ient)?[ _]?norm|ppl|perplexity)['\"]?"
    r"(?:\s+value)?\s*(?:[:=|]|is|->)?\s*(?:tensor\()?['\"]?(?P<value>" + _NUMBER + r")(?![\w.]*[A-Za-z])"
)
_NAMES: Final = ("oss", "OSS", "norm", "ppl", "perplexity")
_STEP: Final = re.compile(
    (
        r"\b(?P<unit>global_?step|num_updates|steps?|iter(?:ation)?s?|updates?|batch(?:_idx)?|epochs?)"
        r"['\"]?\s*[:=#\[ ]?\s*['\"\[]?(?P<step>\d+)(?![\d.]*\.\d)"
    ),
    re.IGNORECASE,
)
_RANK: Final = ("num_", "step", "glob", "iter", "upda", "batc", "epoc")
# Megatron-LM leaves the loss out of reports in which every iteration was NaN.
_COUNTED: Final = re.compile(r"number of nan iterations:\s*(?P<count>[1-9]\d*)")


class TrainingValue(Record, frozen=True):
    """One reported value: `name` as printed, `value` (NaN and infinities included), `step` if told."""

    name: str
    value: float
    step: int | None
    unit: str
    text: str

    @property
    def finite(self) -> bool:
        """Neither NaN nor infinite."""
        return math.isfinite(self.value)


def _rank(m: re.Match[str]) -> int:
    unit = m["unit"][:4].lower()
    return _RANK.index(unit) if unit in _RANK else 9


def read(message: Message) -> Iterator[TrainingValue]:
    """The losses in the message's first line; nothing from tracebacks and warnings."""
    if message.exception is not None:
        return
    text = message.first[:2000]
    found = list(_VALUE.finditer(text)) if any(map(text.__contains__, _NAMES)) else []
    counted = _COUNTED.search(text) if "number of nan" in text else None
    if not found and counted is None:
        return
    step = min(_STEP.finditer(text), key=_rank, default=None)
    values = {m["name"].strip(): float(m["value"]) for m in reversed(found[:6])}
    if counted is not None:
        values.setdefault("lm loss", math.nan)
    number, unit = (int(step["step"]), step["unit"].lower()) if step else (None, "")
    quoted, common = text.strip()[:200], message.common
    for name, value in values.items():
        yield TrainingValue(message.anchor, name=name, value=value, step=number, unit=unit, text=quoted, **common)
