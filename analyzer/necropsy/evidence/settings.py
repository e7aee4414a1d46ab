"""Environment variables and versions in force."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

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

    def __init__(self) -> None:
        super().__init__()
        self._named: dict[str, list[Setting]] = {}
        self._of_attempt: dict[int, list[Setting]] = {}
        self.valueless: dict[str, None] = {}  # names told without a value, in order of reading
        self.told: dict[Hashable, Any] = {}  # what `recovery` made of the rows

    def add(self, record: Setting) -> None:  # type: ignore[override]
        """Take a setting."""
        super().add(record)
        self._named.setdefault(record.name, []).append(record)
        self._of_attempt.setdefault(record.attempt, []).append(record)
        if not record.value:
            self.valueless[record.name] = None
        self.told.clear()

    def named(self, name: str) -> Sequence[Setting]:
        """The rows of one name, in order of reading."""
        return self._named.get(name, ())

    def of_attempt(self, attempt: int) -> Sequence[Setting]:
        """The rows of one attempt, in order of reading."""
        return self._of_attempt.get(attempt, ())
