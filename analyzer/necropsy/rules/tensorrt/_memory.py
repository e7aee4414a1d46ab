"""Sizes in TensorRT's messages about tactics, whose units changed between releases.

"requested size of N": bytes in 8.0 to 8.2 and in 10.x, MB in 8.4 to 9.x (beside "Tactic Device request: 9385MB").
"""

from __future__ import annotations

from typing import Final

from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtMessage

BYTES_FROM: Final = 1 << 20  # a million MB is more than any GPU has, so that larger numbers are bytes
_OLD_DEFAULT: Final = 16 << 20  # trtexec's --workspace up to 8.3 (samples/common/sampleOptions.h: defaultWorkspace)


def is_bytes(size: int, device: TrtMessage | None) -> bool:
    """Whether a size without unit is in bytes, as far as that can be known."""
    if device is not None and device.words.get("size") == str(size):
        return False
    return size >= BYTES_FROM


def amount(device: TrtMessage) -> str:
    """`9385 MB asked for, 7649 MB free`."""
    words = device.words
    unit = words.get("unit", "MB")
    return f"{words.get('size', '?')} {unit} asked for, {words.get('free', '?')} {words.get('free_unit', unit)} free"


def default_workspace(build: TrtBuild | None) -> int | None:
    """The workspace that trtexec allowed where its command line sets none, in bytes; None where it was all memory."""
    if build is None or "trtexec" not in build.tool or {"workspace", "memPoolSize"} & build.flags.keys():
        return None
    return _OLD_DEFAULT if build.release and build.release < (8, 4) else None
