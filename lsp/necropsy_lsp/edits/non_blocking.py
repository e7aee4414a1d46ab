"""`x.to(device)` and `x.cuda()` to the same with `non_blocking=True`: the CPU goes on while the copy runs."""

from __future__ import annotations

import ast
from typing import Final

from necropsy_lsp.edit import Changes, Edit
from necropsy_lsp.edits._calls import Shape, call_on, is_constant, with_true
from necropsy_lsp.edits._names import Names
from necropsy_lsp.edits._tensors import is_tensor
from necropsy_lsp.edits._text import Text

CUDA: Final = Shape("non_blocking", 1)
TO: Final = Shape("non_blocking", 2)
DTYPES: Final = frozenset(
    "bfloat16 bool complex128 complex32 complex64 cdouble cfloat chalf double float float16 float32 float64 half int "
    "int16 int32 int64 int8 long short uint16 uint32 uint64 uint8 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz".split()
)


def change(text: Text, line: int) -> Changes:
    """The keyword on the line's only copy to a device."""
    names = text.names
    call = call_on(text, line, lambda c: _copies(c, names))
    if call is None or not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr == "cuda":
        return with_true(text, call, CUDA) if is_tensor(call.func.value, text.tree, names) else None
    return with_true(text, call, TO) if _device_first(call, names) else None


def _copies(call: ast.Call, names: Names) -> bool:
    """Whether the call is a `.to(...)` or `.cuda(...)` of some value, not a conversion to a type only."""
    if not isinstance(call.func, ast.Attribute) or names.qualified(call.func):
        return False  # a function of a module: torch.cuda(...) is none of these
    if call.func.attr == "cuda":
        return True
    given = [*call.args, *(k.value for k in call.keywords if k.arg in (None, "device", "other"))]
    return call.func.attr == "to" and bool(given) and not (len(given) == 1 and _is_dtype(given[0], names))


def _device_first(call: ast.Call, names: Names) -> bool:
    """Whether the positional arguments are those of `to(device, dtype, non_blocking)`."""
    if any(isinstance(value, ast.Starred) for value in call.args):
        return False
    if len(call.args) < 2:
        return not (call.args and (_is_dtype(call.args[0], names) or is_constant(call.args[0], None)))
    return not _is_dtype(call.args[0], names) and (_is_dtype(call.args[1], names) or is_constant(call.args[1], None))


def _is_dtype(node: ast.expr, names: Names) -> bool:
    """`torch.float16`, or the type of another tensor."""
    name = names.qualified(node)
    if name:
        return name.startswith("torch.") and name.removeprefix("torch.") in DTYPES
    return isinstance(node, ast.Attribute) and node.attr == "dtype"


EDIT = Edit("non_blocking", "Add non_blocking=True", change)
