"""Calibration caches of TensorRT's INT8 calibrators (up to TensorRT 10).

    TRT-8601-EntropyCalibration2
    image: 3d15a525
    /stem/stem.2/Relu_output_0: 3cb14095

One line a tensor: the scale as the bits of a float, big-endian, in hexadecimal. Written by `trtexec --calib` and
whatever implements `write_calibration_cache`; onnxruntime's TensorRT provider keeps the same file. TensorRT 11 has no
calibrators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor, Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "calibration_cache"
TITLE: Final = "Calibration caches of TensorRT"
PRIORITY: Final = 310
SAMPLES: Final = ("TRT-8601-EntropyCalibration2\nimage: 3d15a525\nfc: 0\n", "TRT-7103-MinMaxCalibration\nx: 3c010a14\n")
MAX_BYTES: Final = 64 << 20
_HEAD: Final = re.compile(r"TRT-(?P<release>\d{3,6})-(?P<calibrator>[A-Za-z]\w*)\s*$")
_SNIFF: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*TRT-\d{3,6}-[A-Za-z]\w*[ \t]*\r?(?:\n|$)")
_LINE: Final = re.compile(r"(?P<tensor>.+): *(?:0x)?(?P<digits>[0-9a-fA-F]{1,8})\s*$")


def sniff(head: bytes, name: str) -> str | None:
    """Claims the head line."""
    return "the head of a calibration cache" if _SNIFF.match(head) else None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """One `CalibrationCache`."""
    from necropsy_parsers.tensorrt.calibration import CalibrationCache, TensorScale, release_of, scale_of

    data = b""
    for chunk in source.chunks():
        data += chunk
        if len(data) > MAX_BYTES:
            issues.add("source/limit", source.name)
            break
    lines = data.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    start = next(i for i, line in enumerate(lines) if line.strip())
    head = _HEAD.match(lines[start].strip())
    scales = []
    for number, line in enumerate(lines[start + 1 :], start + 2):
        if not line.strip():
            continue
        m = _LINE.match(line.rstrip("\r"))
        if m is None:
            issues.add(
                "calibration/line", source.name, unit="lines", first=Anchor(source.name, 0, 0, number, line[:200])
            )
            continue
        scales.append(TensorScale(m["tensor"], scale_of(m["digits"]), number))
    anchor = Anchor(source.name, 0, len(data), start + 1, lines[start].strip()[:200])
    release = release_of(head["release"]) if head else ()
    yield CalibrationCache(anchor, release, head["calibrator"] if head else "", tuple(scales), seq=seq)
