"""Named ranges on the host: steps, optimizers, loaders, record_function, one row a range."""

from __future__ import annotations

from typing import ClassVar

from necropsy.evidence._trace_columns import TRACED, TraceTable


class Annotations(TraceTable):
    """Named ranges on the host: steps, optimizers, loaders, record_function, one row a range."""

    name = "annotations"
    kinds = ("annotation",)
    numbers = ("external",)
    columns: ClassVar[dict[str, str]] = {
        **TRACED,
        "external": "number of the range",
    }
