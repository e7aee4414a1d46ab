"""Refused command lines and configurations."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.usage_error import UsageError

from necropsy.evidence._records import COMMON, RecordTable


class UsageErrors(RecordTable[UsageError]):
    """One row a refusal."""

    name = "usage_errors"
    row = UsageError
    accepts = (UsageError,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "program": "who refused",
        "what": "what it said",
    }
