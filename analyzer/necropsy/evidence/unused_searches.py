"""DDP's warnings that it searches for unused parameters where there are none."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.unused_search import UnusedSearch

from necropsy.evidence._records import COMMON, RecordTable


class UnusedSearches(RecordTable[UnusedSearch]):
    """One row a process that warns."""

    name = "unused_searches"
    row = UnusedSearch
    accepts = (UnusedSearch,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "option": "the constructor's option that asks for the search",
    }
