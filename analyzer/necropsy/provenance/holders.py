"""Whose memory a block is: the innermost frame of the user's, and what the frames of torch around it say it is.

Stacks of a memory snapshot are innermost first, and may hold frames of C++. A block is
called weights, optimizer state or the like only if a function that makes nothing else is
in its stack; the backward pass runs on threads of its own, whose allocations have no
Python stack at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.records import Frame

from necropsy.provenance.frames import is_library

WEIGHTS: Final = "weights"
OPTIMIZER: Final = "optimizer state"
FORWARD: Final = "forward pass"
BACKWARD: Final = "backward pass"
NO_STACK: Final = "no Python stack"

_OPTIMIZER: Final = re.compile(r"[/\\]torch[/\\]optim[/\\](?!lr_scheduler)|[/\\](?:bitsandbytes|apex)[/\\]optim")
_MODULE: Final = re.compile(r"[/\\]torch[/\\]nn[/\\]modules[/\\]module\.py$")
_MODULES: Final = re.compile(r"[/\\]torch[/\\]nn[/\\]modules[/\\]\w+\.py$")
_MOVING: Final = frozenset({"_apply", "convert", "to_empty"})  # what moves or casts parameters and buffers
_CALLING: Final = frozenset({"_call_impl", "_wrapped_call_impl", "_slow_forward"})
_ENGINE: Final = ("torch::autograd::Engine", "torch::autograd::python::PythonEngine")


def user_frame(stack: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's own Python; None where there is none."""
    return next(user_frames(stack), None)


def user_frames(stack: Sequence[Frame]) -> Iterator[Frame]:
    """The frames of the user's own Python, the innermost first."""
    return (f for f in stack if f.line and _is_python(f.file) and not is_library(f.file))


def part_of(stack: Sequence[Frame]) -> str:
    """What a block is, as far as its stack tells; "" where it does not."""
    if any(f.function.startswith(_ENGINE) for f in stack):
        return BACKWARD
    python = [f for f in stack if _is_python(f.file)]
    if not python:
        return NO_STACK
    for f in python:
        if _OPTIMIZER.search(f.file):
            return OPTIMIZER
        if _MODULE.search(f.file):
            if f.function in _MOVING:
                return WEIGHTS
            if f.function in _CALLING:
                return FORWARD
        elif f.function == "__init__" and _MODULES.search(f.file):
            return WEIGHTS  # made on the device at once: nn.Linear(..., device="cuda")
    return ""


def _is_python(file: str) -> bool:
    return file.endswith(".py") or file.startswith(("<ipython-input", "<stdin>"))
