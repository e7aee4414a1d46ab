"""Keeps torch.compile away from frames of ours, by the C functions that Dynamo itself uses (torch 2.1 to 2.14)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def _functions() -> Any:
    return import_module("torch._C._dynamo.eval_frame")  # loaded with torch; `torch._dynamo` would take a second


def skip(function: Callable[..., Any]) -> None:
    """Run this function's frame as it is; what it calls is compiled as ever."""
    c: Any = _functions()
    if hasattr(c, "skip_code"):  # before 2.7
        c.skip_code(function.__code__)
    else:
        strategy = c._FrameExecStrategy(c._FrameAction.SKIP, c._FrameAction.DEFAULT)
        c.set_code_exec_strategy(function.__code__, strategy)


def set_eval_frame() -> Callable[[Any], Any]:
    """The function that sets what compiles frames in this thread (None: nothing does), and gives what did."""
    function: Callable[[Any], Any] = _functions().set_eval_frame
    return function
