"""Keeps torch's compiler from looking at the marks' own functions.

Dynamo sees each frame of Python that begins below a compiled function, those of our callbacks included, and would try
to compile them. Its `skip_code` says of a code object that there is nothing to compile (since torch 2.0).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

PACKAGE = "_necropsy_capture.marking"


def hide() -> None:
    """Tell the compiler of every function of this package that is loaded; raises nothing."""
    try:
        skip: Any = importlib.import_module("torch._C._dynamo.eval_frame").skip_code
    except (ImportError, AttributeError):
        return
    for name, module in list(sys.modules.items()):
        if name.startswith(PACKAGE):
            for code in codes_of(vars(module)):
                skip(code)


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
