"""A program went on without an engine: TensorRT had returned None

What it means
    `build_serialized_network`, `build_engine` and `deserialize_cuda_engine` return None when they fail, and print the
    reason through their logger. The exception that ends the program (None has no attribute
    `create_execution_context`, a bytes-like object is required) is only where it was noticed.

Why it happens
    The return value is not checked, and the logger is quiet, or its output went elsewhere.

How to confirm
    Run again with `trt.Logger(trt.Logger.VERBOSE)`, and read the first [E] line.

How to fix
    Check for None right after the call, and look at TensorRT's own error.

Limits
    Whether None came of a build or of a file is told by the call in the traceback, where it is in user code.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/python-api-docs.html
    - https://github.com/NVIDIA/TensorRT/issues/3805
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_exception, one_line
from necropsy.conditions import NO_ENGINE, PROCESS_DIED
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule

# Attributes that only an engine, a context or a serialized engine has.
_SURE: Final = re.compile(
    r"'NoneType' object has no attribute '"
    r"(?:create_execution_context|create_engine_inspector|num_io_tensors|num_bindings"
    r"|num_optimization_profiles|get_tensor_name|get_binding_\w+|binding_is_input|device_memory_size(?:_v2)?|execute_async_v\d"
    r"|execute_v2|set_input_shape|set_tensor_address|get_tensor_shape|max_batch_size)'"
    r"|deserialize_cuda_engine\(\): incompatible function arguments"
)
_MAYBE: Final = re.compile(
    r"'NoneType' object has no attribute '(?:serialize|__enter__|nbytes|tobytes)'"
    r"|bytes-like object is required, not 'NoneType'|object of type 'NoneType' has no len"
)
_CALL: Final = re.compile(r"engine|serialized|plan|trt|tensorrt|build_serialized_network|deserialize", re.I)
_CHECK: Final = Fix(
    "Check the result right after the call, and print TensorRT's errors", "code",
    command="logger = trt.Logger(trt.Logger.VERBOSE); assert engine is not None",
)  # fmt: skip


@rule("TRT027", "engine-is-none", Severity.FATAL)
def check(exceptions: Exceptions, messages: TrtMessages | None) -> Iterator[Finding]:
    """One finding an exception."""
    for row in exceptions:
        if not _about_engine(row):
            continue
        logged = messages is not None and any(
            m.level in ("E", "F") and m.anchor.input == row.anchor.input and m.seq < row.seq for m in messages
        )
        what = (
            "TensorRT's error above says why"
            if logged
            else "why is undetermined, because TensorRT's own error is not here"
        )
        yield from_exception(
            row,
            f"There is no TensorRT engine (None) and the program used it: {one_line(row.message, 120)}; {what}.",
            confidence=Confidence.CERTAIN if logged else Confidence.LIKELY,
            facts={"exception": row.type},
            fixes=(_CHECK,),
            shows=frozenset({NO_ENGINE}),
            leaves=frozenset({PROCESS_DIED}),
        )


def _about_engine(row: ExceptionRow) -> bool:
    text = f"{row.name}: {row.text}"
    if _SURE.search(text):
        return True
    if _MAYBE.search(text) is None:
        return False
    frames = [f for exc in row.chain for f in exc.frames[-3:]]
    return any(_CALL.search(f.text) for f in frames)
