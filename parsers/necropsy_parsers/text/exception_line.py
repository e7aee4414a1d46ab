"""Tells the line that names an exception (`RuntimeError: ...`) from other text."""

from __future__ import annotations

import re
from typing import Final

# The suffixes of exception classes met in torch, CUDA, NCCL and launcher tracebacks and in the builtins.
_SUFFIX: Final = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Warning|Iteration|Group|Timeout|Fault|Failure|Failed|Violation|Unsupported"
    r"|Cancelled|Killed|Denied|NotFound|Overflow|Abort|Empty|Full|Refused|Traceback|Unimplemented|Mismatch"
    r"|Specialization|FailureType|TaskError)\d*$"
)
_LINE: Final = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.)*(?:<locals>\.)?[A-Za-z_]\w*(?:\([\w.]+\))?)(?::(?: (?P<message>.*)|$)|$)"
)
_NOT_TYPES: Final = frozenset(
    "ERROR WARNING INFO DEBUG CRITICAL FATAL NOTE HINT Warning Error Hint Note Output Command".split()
)


def parse_exception_line(text: str, *, expected: bool) -> tuple[str, str] | None:
    """(type, message) if `text` names an exception, else None.

    `expected` says that a stack of frames stands right before it, where also class
    names without a telling suffix are believed (`StopTraining`, `mypkg.Boom`).
    """
    m = _LINE.match(text)
    if m is None:
        return None
    name, message = m["type"], m["message"] or ""
    last = name.split("(")[0].rsplit(".", 1)[-1]
    if name in _NOT_TYPES or not last:
        return None
    if _SUFFIX.search(last):
        return name, message
    told = expected and last[:1].isupper() and not last.isupper()
    return (name, message) if told and (m["message"] is not None or "." in name or text == name) else None
