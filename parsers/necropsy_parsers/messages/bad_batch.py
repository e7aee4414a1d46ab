"""Lines in which a training program itself notes that its data or values are bad.

    WARNING  : Skipping prediction for ERA5 because of 40320 NaN in tc_tokens.
    found NaN in input batch 311, skipping        Loss is 0.0 for sample(s): [39363]
    WARNING: batch 17 contains non-finite values

Such a line is in the program's own words; only its shape is read: something not finite
(or a zero loss, an empty batch), said of data or of a step that is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "bad_batch"
TITLE: Final = "Notes about bad batches and samples"
TRIGGERS: Final = (
    b"nan", b"NaN", b"NAN", b" Inf ", b" Infs", b" inf ", b" infs", b"infinit", b"Infinit", b"non-finite",
    b"not finite", b"nonfinite", b"Loss is 0", b"loss is 0", b"all zero", b"all-zero", b"empty batch",
)  # fmt: skip
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Skipping prediction for ERA5 because of 40320 NaN in tc_tokens.": {"kind": "nan", "subject": "tc_tokens"},
}
_NAN: Final = lazily(r"\b(?:n?[Nn][Aa][Nn]s?|NaNs?|[Ii]nf(?:inite|inity|s)?|non-?finite(?: values?)?|not finite)\b")
_ZERO: Final = lazily(
    r"[Ll]oss is 0(?:\.0+)? for"
    r"|all[- ]zeros? (?:batch|input|sample|target)"
    r"|(?:batch|input|sample|target)s? (?:is|are|contains?) all[- ]zeros?"
    r"|empty batch"
)
_DATA: Final = lazily(
    (
        r"\b(?:"
        r"inputs?|batch(?:es)?|samples?|data|tokens?|targets?|labels?|images?|features?|pixel\w*"
        r"|shards?|records?|frames?|\w+_(?:tokens|ids|values|mask|batch|input|data|labels))\b"
    ),
    re.IGNORECASE,
)
_ACT: Final = lazily(
    (
        r"\b(?:"
        r"skip\w*|contain\w*|found|detect\w*|are|were|is|encounter\w*"
        r"|because|in|has|have|ignor\w*|dropp\w*|bad|corrupt\w*|invalid)\b"
    ),
    re.IGNORECASE,
)
_NOT: Final = lazily(
    (
        r"\b(?:"
        r"no|zero|0|without|check(?:ing)? for|assert no|remov\w+"
        r"|replac\w+|fill\w*|drop(?:ped)? 0|handl\w+|mask\w* out"
        r") \w{0,12} ?(?:nan|inf|non-?finite)"
        r"|nan_to_num|isnan|nanmean|fillna|allow_nan|nan_policy|check_nan|detect_nan|skip_nan"
    ),
    re.IGNORECASE,
)
_SUBJECT: Final = lazily(
    r"\b(?:in|for|of|input|batch|tensor|sample\(s\):?|samples?)\s+[\[('\"`]?(?P<subject>[\w.\[\]-]+)"
)
_VALUE: Final = lazily(
    (
        r"learning[ _]rate|\blr\b|nan iterations|loss\W{1,3}\d"
        r"|(?:loss|norm|lr|ppl|acc\w*|psnr|metric)\S*\s*[:=]?\s*-?(?:nan|inf)"
    ),
    re.IGNORECASE,
)


class BadBatch(Record, frozen=True):
    """One note: `kind` `nan` or `zero`, the `subject` it names, its text, whether it was a warning."""

    kind: str
    subject: str
    text: str
    loud: bool


def read(message: Message) -> Iterator[BadBatch]:
    """The note that `message` is, if it is one."""
    text = message.first
    if message.exception is not None or len(text) > 600 or "Warning: Error detected" in text:
        return
    nan, zero = _NAN.search(text), _ZERO.search(text)
    if (
        not (zero or (nan and _DATA.search(text) and _ACT.search(text)))
        or _NOT.search(text)
        or (_VALUE.search(text) and not zero)
    ):
        return
    subjects = [m["subject"] for m in _SUBJECT.finditer(text)]
    yield BadBatch(
        message.anchor,
        "nan" if nan else "zero",
        subjects[-1].strip(".[]") if subjects else "",
        text.strip()[:300],
        (message.origin.level or "").upper()[:1] in ("W", "E", "C", "F"),
        **message.common,
    )
