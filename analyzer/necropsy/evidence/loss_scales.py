"""Loss scale and skipped steps of mixed precision."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.loss_scale import LossScale

from necropsy.evidence._records import COMMON, RecordTable


class LossScales(RecordTable[LossScale]):
    """One row a reading."""

    name = "loss_scales"
    row = LossScale
    accepts = (LossScale,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "scale": "scale after it",
        "skipped": "steps skipped since the reading before",
        "floor": "the minimum was reached",
    }
