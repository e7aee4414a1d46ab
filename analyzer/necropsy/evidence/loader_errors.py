"""Programs and libraries that the dynamic loader refused."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.loader_error import LoaderError

from necropsy.evidence._records import COMMON, RecordTable


class LoaderErrors(RecordTable[LoaderError]):
    """One row a refusal."""

    name = "loader_errors"
    row = LoaderError
    accepts = (LoaderError,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "program": "the program that was started",
        "library": "the library at fault",
        "what": "the loader's words",
    }
