"""Captures of the backward pass by compiled autograd."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.backward_capture import BackwardCapture

from necropsy.evidence._records import COMMON, RecordTable


class BackwardCaptures(RecordTable[BackwardCapture]):
    """One row a capture."""

    name = "backward_captures"
    row = BackwardCapture
    accepts = (BackwardCapture,)
    supply = "the log of a run with TORCH_LOGS=compiled_autograd_verbose"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "cause": "node (of autograd, not seen there before) or sizes",
        "node": "the node, as autograd names it, empty where untold",
        "sizes": "how many sizes changed, 0 where untold",
        "first": "whether it is the first of the process",
    }
