"""What GPUs named in `deviceProperties` of a trace are: peaks, vendor, compute capability."""

from __future__ import annotations

import re

from necropsy_parsers.trace.model import Device

from necropsy.hardware import Peaks, peaks_named

__all__ = ["Peaks", "capability", "is_nvidia", "peaks_of"]


def peaks_of(device: Device | None) -> Peaks | None:
    """The peaks of a device, or None for one that is not known for sure."""
    return None if device is None else peaks_named(device.name, memory=device.memory, units=device.units)


def is_nvidia(device: Device | None) -> bool:
    """Whether compute capabilities mean NVIDIA's: its warps have 32 threads, those of AMD's Instinct 64."""
    return device is not None and device.warp in (0, 32) and not re.search(r"AMD|Instinct|Radeon|gfx", device.name)


def capability(device: Device | None) -> tuple[int, int]:
    """Compute capability of an NVIDIA GPU; (0, 0) for any other."""
    return (device.major, device.minor) if device is not None and is_nvidia(device) else (0, 0)
