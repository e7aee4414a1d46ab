"""Warnings of the Python interpreter."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.python_warning import PythonWarning

from necropsy.evidence._records import COMMON, RecordTable


class PythonWarnings(RecordTable[PythonWarning]):
    """One row a warning."""

    name = "python_warnings"
    row = PythonWarning
    accepts = (PythonWarning,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "category": "UserWarning, ...",
        "message": "its first line",
        "file": "where it was raised",
        "line": "where it was raised",
        "frames": "stack quoted behind it",
        "node": "autograd node of an anomaly report",
    }
