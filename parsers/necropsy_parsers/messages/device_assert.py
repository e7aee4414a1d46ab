"""Assertions that failed inside a kernel, as the CUDA driver prints them.

    /pytorch/aten/src/ATen/native/cuda/Loss.cu:245: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0],
    thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.

One line a thread, dozens to thousands; they come when the device printf buffer is
drained, before or after the traceback, and never carry a rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "device_assert"
TITLE: Final = "Assertions inside kernels"
TRIGGERS: Final = (b"Assertion `", b"Assertion '", b"Assertion failed", b"GPU assertion failure")
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [12,0,0], thread: [3,0,0] "
    "Assertion `srcIndex < srcSelectDimSize` failed.": {
        "kernel": "indexSelectLargeIndex",
        "condition": "srcIndex < srcSelectDimSize",
    },
}

_LINE: Final = lazily(
    r"(?P<file>[\w./\\:-]+\.\w+):(?P<line>\d+): (?P<kernel>.+?): block: \[(?P<block>[\d,]+)\], "
    r"thread: \[(?P<thread>[\d,]+)\],? Assertion [`'](?P<condition>.+)[`'] ?failed"
)


# c10/cuda/CUDADeviceAssertionHost.cpp, since torch 2.0.
_DSA: Final = lazily(
    r"GPU assertion failure message = (?P<condition>[^\n]+)\n\s*File containing assertion = (?P<file>\S+):(?P<line>\d+)"
    r"(?:\n[^\n]*?Thread ID[^\n=]*= \[(?P<thread>[\d,]+)\]"
    r"|\n[^\n]*?Block ID[^\n=]*= \[(?P<block>[\d,]+)\]"
    r"|\n\s*Device function[^\n]*)*"
)
_DSA_KERNEL: Final = lazily(r"Name of kernel launched that led to failure = (?P<kernel>[^\n]+)")


class DeviceAssert(Record, frozen=True):
    """One thread's failed assertion: kernel, its source place, the condition."""

    file: str
    line: int
    kernel: str
    condition: str
    block: str
    thread: str


def read(message: Message) -> Iterator[DeviceAssert]:
    """The assertion that `message` reports, if it does."""
    if message.exception is not None:
        yield from _reported(message)
        return
    m = _LINE.search(message.first)
    if m is None:
        return
    yield DeviceAssert(
        message.anchor,
        file=m["file"],
        line=int(m["line"]),
        kernel=_short(m["kernel"]),
        condition=m["condition"],
        block=m["block"],
        thread=m["thread"],
        **message.common,
    )


def _reported(message: Message) -> Iterator[DeviceAssert]:
    """Assertions in torch's own report (builds with TORCH_USE_CUDA_DSA), inside the exception."""
    for m in _DSA.finditer(message.text):
        kernel = _DSA_KERNEL.search(message.text, m.end())
        yield DeviceAssert(
            message.anchor,
            m["file"],
            int(m["line"]),
            _short(kernel["kernel"]) if kernel else "",
            m["condition"],
            m["block"] or "",
            m["thread"] or "",
            **message.common,
        )


def _short(kernel: str) -> str:
    """The bare function name: clang prints the whole signature, template arguments included."""
    head = kernel.split("(", maxsplit=1)[0].split("<", maxsplit=1)[0].strip()
    return head.split(" ")[-1].rsplit("::", 1)[-1] or kernel
