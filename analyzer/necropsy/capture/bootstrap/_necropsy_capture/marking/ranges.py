"""How a range is opened: for torch's profiler, and for tools that read NVTX."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from _necropsy_capture.marking.stacks import Enter


def profiled() -> Enter:
    """Ranges in torch's profiler, as operators (cat `cpu_op`): those leave no second range on each stream."""
    module: Any = importlib.import_module("torch._C._profiler")
    fast = getattr(module, "_RecordFunctionFast", None)
    if fast is None:  # not in a build of its own kind; since torch 2.1 in all of torch's
        fast = importlib.import_module("torch.profiler").record_function

    def enter(name: str) -> Callable[..., Any]:
        opened = fast(name)
        opened.__enter__()
        close: Callable[..., Any] = opened.__exit__
        return close

    return enter


def nvtx() -> Enter:
    """Ranges of NVTX: through the package `nvtx` (a C extension), else through torch; raises where there is neither."""
    try:
        module: Any = importlib.import_module("nvtx")
        push, pop = module.push_range, module.pop_range
    except (ImportError, AttributeError):
        module = importlib.import_module("torch.cuda.nvtx")
        push, pop = module.range_push, module.range_pop
        push("necropsy")  # a build without CUDA says so now
        pop()

    def close(*_: object) -> None:
        pop()

    def enter(name: str) -> Callable[..., Any]:
        push(name)
        return close

    return enter


def both(first: Enter, second: Enter) -> Enter:
    """A range in each."""

    def enter(name: str) -> Callable[..., Any]:
        inner, outer = first(name), second(name)

        def close(*error: object) -> None:
            outer(*error)
            inner(*error)

        return close

    return enter
