"""Keeps torch's compiler from looking at the marks' own functions.

Dynamo sees each frame of Python that begins below a compiled function, those of our callbacks included, and would try
to compile them. Of a code object it can be told that there is nothing to compile: by `skip_code` until torch 2.6, by a
strategy since.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

PACKAGE = "_necropsy_capture.marking"


def hide() -> None:
    """Tell the compiler of every function of this package that is loaded; does nothing where it cannot be told."""
    try:
        skip = _skip()
    except (ImportError, AttributeError):
        return
    for name, module in list(sys.modules.items()):
        if name.startswith(PACKAGE):
            for code in codes_of(vars(module)):
                skip(code)


def _skip() -> Callable[[CodeType], Any]:
    # The compiler's own part in C; its Python package is not loaded for this.
    module: Any = importlib.import_module("torch._C._dynamo.eval_frame")
    if hasattr(module, "skip_code"):
        known: Callable[[CodeType], Any] = module.skip_code
        return known
    action = module._FrameAction
    strategy = module._FrameExecStrategy(action.SKIP, action.DEFAULT)
    return lambda code: module.set_code_exec_strategy(code, strategy)


def codes_of(names: dict[str, Any]) -> Iterator[CodeType]:
    """Code of the functions and classes among the names of a module, with those inside them."""
    for value in list(names.values()):
        if isinstance(value, FunctionType):
            yield from _nested(value.__code__)
        elif isinstance(value, property) and isinstance(value.fget, FunctionType):
            yield from _nested(value.fget.__code__)
        elif isinstance(value, type) and value.__module__.startswith(PACKAGE):
            yield from codes_of(dict(vars(value)))


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _nested(value)
