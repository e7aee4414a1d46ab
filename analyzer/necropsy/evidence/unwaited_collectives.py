"""Collectives never waited for."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.unwaited import Unwaited

from necropsy.evidence._records import COMMON, RecordTable


class UnwaitedCollectives(RecordTable[Unwaited]):
    """One row a count at the end of a process."""

    name = "unwaited_collectives"
    row = Unwaited
    accepts = (Unwaited,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "count": "collectives without a wait",
    }
