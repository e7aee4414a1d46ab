"""Calibration caches: the scale of each tensor that TensorRT's INT8 calibrators found."""

from __future__ import annotations

import struct

from msgspec import Struct

from necropsy_parsers.records import Record


class TensorScale(Struct, frozen=True):
    """One tensor's scale: the real value of one step of its INT8. `line` is where it stands."""

    tensor: str
    scale: float
    line: int

    @property
    def range(self) -> float:
        """The largest magnitude that does not clip: 127 steps."""
        return 127.0 * self.scale


class CalibrationCache(Record, frozen=True):
    """A cache: `release` of TensorRT (8, 6, 1), `calibrator` (EntropyCalibration2, MinMaxCalibration, ..)."""

    release: tuple[int, ...]
    calibrator: str
    scales: tuple[TensorScale, ...]


def scale_of(digits: str) -> float:
    """The float of a cache's hexadecimal digits: big-endian bits without leading zeros (`3d15a525`, `0`).

    Raises `ValueError` for more than eight digits or what is no hexadecimal number.
    """
    bits = int(digits, 16)
    if bits < 0 or bits >= 1 << 32:
        raise ValueError(digits)
    value: float = struct.unpack(">f", bits.to_bytes(4, "big"))[0]
    return value


def release_of(digits: str) -> tuple[int, ...]:
    """A release as TensorRT writes it without points: `8601` is 8.6.1, `100100` 10.1.0, `7103` 7.1.3."""
    number = int(digits)
    if number >= 10_000:  # since 10.0: major * 10000 + minor * 100 + patch
        return number // 10_000, number // 100 % 100, number % 100
    return number // 1_000, number // 100 % 10, number % 100
