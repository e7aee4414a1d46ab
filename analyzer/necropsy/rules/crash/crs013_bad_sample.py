"""A sample of the data set cannot be used

What it means
    Reading or preparing one sample failed, or it is longer than the model can take. The job is
    fine; one item of its data is not.

Why it happens
    A truncated or mislabelled file, a broken shard, an annotation out of range, a text longer
    than the model's window.

How to confirm
    Load the sample alone, with the index or path that the frame at this place knows.

How to fix
    Repair or drop it; let the data set skip broken samples with a count; truncate texts to the
    window.

Limits
    Which sample it was, the log says only if the data set's own message does. A warning about
    length is a note unless an index out of range follows.

References
    - https://docs.pytorch.org/docs/stable/data.html
    - https://huggingface.co/docs/transformers/pad_truncation
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, from_record, one_line
from necropsy.conditions import OUT_OF_RANGE
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.token_windows import TokenWindows
from necropsy.finding import Finding, Fix, Role, Severity
from necropsy.rule import rule

_DECODE: Final = lazily(
    r"cannot identify image file|image file is truncated|broken (?:data stream|PNG)"
    r"|[Tt]runcated File Read|LibsndfileError"
    r"|Failed to (?:load|decode) (?:audio|video|image)|not a (?:JPEG|PNG|WAV) file"
    r"|unexpected end of (?:file|data)|[Cc]orrupt JPEG"
    r"|(?:moov atom|Invalid data) found when processing input"
)
_SAMPLE_FUNCTIONS: Final = frozenset({"__getitem__", "__getitems__", "__iter__", "__next__"})
_TRUNCATE: Final = Fix("Truncate or split the text: tokenizer(text, truncation=True, max_length=...)", "code")
_SKIP: Final = Fix(
    "Load that sample alone to see it; repair it, or let the data set skip and count such samples", "code"
)

_OF_DEVICE: Final = lazily(r"in forked subprocess|CUDA error|CUDA out of memory")  # whatever sample it is


def _of_sample(row: ExceptionRow) -> bool:
    """Whether the exception arose while a sample was read: by its words, or in a worker inside the data set."""
    if _OF_DEVICE.search(row.text):
        return False
    if _DECODE.search(row.text):
        return True
    worker = any("in DataLoader worker process" in e.message for e in row.chain)
    place = row.places[0] if row.places else None
    return worker and place is not None and (place.function in _SAMPLE_FUNCTIONS or "collate" in place.function)


@rule("CRS013", "bad-sample", Severity.FATAL, aliases=("X13", "token-window"))
def check(exceptions: Exceptions, windows: TokenWindows) -> Iterator[Finding]:
    """Exceptions of reading a sample, and sequences too long for the model."""
    for row in exceptions:
        if _of_sample(row):
            yield from_exception(
                row,
                f"A sample could not be read or prepared: {row.name}: {one_line(row.message).rstrip('.')}.",
                facts={"exception": row.type},
                fixes=(_SKIP,),
            )
    for w in windows:
        yield from_record(
            w,
            (
                f"A sequence of {w.length} tokens is longer than the model's window of {w.window}: "
                "its last positions have no embedding."
            ),
            Severity.NOTE,
            role=Role.SYMPTOM,
            facts={"tokens": w.length, "window": w.window},
            fixes=(_TRUNCATE,),
            leaves=frozenset({OUT_OF_RANGE}),
        )
