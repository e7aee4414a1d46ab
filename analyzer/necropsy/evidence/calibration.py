"""Scales of tensors in calibration caches."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt.calibration import CalibrationCache

from necropsy.evidence import Table


class ScaleRow(Struct, frozen=True):
    """One tensor's scale; see `Calibration.columns`."""

    cache: str
    calibrator: str
    release: str
    tensor: str
    scale: float
    range: float
    line: int
    anchor: Anchor


class Calibration(Table[ScaleRow]):
    """One row a tensor and cache; `caches` are the files."""

    name = "calibration"
    row = ScaleRow
    accepts = (CalibrationCache,)
    formats = ("calibration_cache",)
    supply = "the calibration cache of the INT8 build (trtexec --calib=FILE, TensorRT 10 and older)"
    columns: ClassVar[dict[str, str]] = {
        "cache": "the file",
        "calibrator": "EntropyCalibration2, MinMaxCalibration, ...",
        "release": "TensorRT's release that wrote it: 8.6.1",
        "tensor": "the tensor's name",
        "scale": "real value of one step of the INT8 tensor",
        "range": "largest magnitude that does not clip (127 steps)",
        "line": "line of the file",
        "anchor": "the file's head",
    }

    def __init__(self) -> None:
        super().__init__()
        self.caches: list[CalibrationCache] = []

    def add(self, record: Any) -> None:
        """One row a tensor."""
        self.caches.append(record)
        release = ".".join(str(n) for n in record.release)
        for s in record.scales:
            self.rows.append(
                ScaleRow(
                    record.anchor.input, record.calibrator, release, s.tensor, s.scale, s.range, s.line, record.anchor
                )
            )
