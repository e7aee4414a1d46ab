"""Notes of the program itself about bad batches and samples."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.bad_batch import BadBatch

from necropsy.evidence._records import COMMON, RecordTable


class BadBatches(RecordTable[BadBatch]):
    """One row a note."""

    name = "bad_batches"
    row = BadBatch
    accepts = (BadBatch,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "nan or zero",
        "subject": "what it names",
        "text": "the note",
        "loud": "logged as a warning or worse",
    }
