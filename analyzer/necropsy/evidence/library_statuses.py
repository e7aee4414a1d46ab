"""Failed calls of cuBLAS, cuDNN and their relatives."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.library_status import LibraryStatus

from necropsy.evidence._records import COMMON, RecordTable


class LibraryStatuses(RecordTable[LibraryStatus]):
    """One row a status."""

    name = "library_statuses"
    row = LibraryStatus
    accepts = (LibraryStatus,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "library": "cuBLAS, cuDNN, ...",
        "status": "its symbol or sentence",
        "call": "the function called, if told",
        "from_exception": "said by an exception",
    }
