"""Where waiting ranks called the collective that did not finish."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.collective_timeout import CollectiveStack

from necropsy.evidence._records import COMMON, RecordTable


class CollectiveStacks(RecordTable[CollectiveStack]):
    """One row a stack, outermost call first."""

    name = "collective_stacks"
    row = CollectiveStack
    accepts = (CollectiveStack,)
    columns: ClassVar[dict[str, str]] = {**COMMON, "rank": "the waiting rank", "frames": "its Python stack"}
