"""Times by layer of TensorRT engines, as measured."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt.measured import EngineProfile

from necropsy.evidence import Table


class LayerTimeRow(Struct, frozen=True):
    """One layer's time; see `TrtProfile.columns`."""

    input: str
    name: str
    average_ms: float
    median_ms: float | None
    share: float | None
    runs: int
    anchor: Anchor


class TrtProfile(Table[LayerTimeRow]):
    """One row a layer and profile."""

    name = "trt_profile"
    row = LayerTimeRow
    accepts = (EngineProfile,)
    formats = ("trt_profile",)
    supply = "trtexec --exportProfile=profile.json --separateProfileRun"
    columns: ClassVar[dict[str, str]] = {
        "input": "the profile",
        "name": "TensorRT's name of the layer",
        "average_ms": "milliseconds a run, averaged",
        "median_ms": "median of runs in milliseconds, None before TensorRT 8.4",
        "share": "fraction of the sum of all layers, as printed",
        "runs": "runs that were timed",
        "anchor": "where it stands",
    }

    def add(self, record: Any) -> None:
        """One row a layer."""
        for t in record.layers:
            self.rows.append(
                LayerTimeRow(record.anchor.input, t.name, t.average, t.median, t.share, record.count, record.anchor)
            )
