"""Environment variables and versions in force."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.setting import Setting

from necropsy.evidence._records import COMMON, RecordTable


class Settings(RecordTable[Setting]):
    """One row a setting shown by the log; advice does not count."""

    name = "environment"
    row = Setting
    accepts = (Setting,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "name": "variable, or torch",
        "value": "as printed, or empty where only the name is told",
        "spoken_by": "rank that says it, or None",
    }
