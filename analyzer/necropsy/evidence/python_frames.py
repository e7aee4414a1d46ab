"""Python functions while they ran (with_stack), one row a call."""

from __future__ import annotations

from typing import ClassVar

from necropsy.evidence._trace_columns import TRACED, TraceTable


class PythonFrames(TraceTable):
    """Python functions while they ran (with_stack), one row a call; the number in its name is where it starts."""

    name = "python_frames"
    kinds = ("frame",)
    numbers = ("number", "parent", "module")
    columns: ClassVar[dict[str, str]] = {
        **TRACED,
        "number": "of this call",
        "parent": "of the calling one",
        "module": "number of the nn.Module, else -1",
    }
