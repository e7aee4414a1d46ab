"""What DistributedDataParallel's reducer and torch's collective checks refuse.

RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. ...
Parameters which did not receive grad for rank 3: mask_encoder.update.weight
Parameter indices which did not receive grad for rank 3: 282 283
RuntimeError: Expected to mark a variable ready only once. ...
Parameter at index 3 with name head.weight has been marked as ready twice.
RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(...),
but Rank 0 is running collective: CollectiveFingerPrint(...)
RuntimeError: DDP expects same model across all ranks, but Rank 1 has 100 params,
while rank 0 has inconsistent 98 params.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "ddp_error"
TITLE: Final = "Refusals of DDP's reducer and of collective checks"
TRIGGERS: Final = (
    b"Expected to have finished reduction",
    b"mark a variable ready only once",
    b"Detected mismatch between collectives",
    b"DDP expects same model",
    b"did not receive grad",
    b"appears not to match",
    b"appears not to match",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 100 params, "
    "while rank 0 has inconsistent 98 params.": {"kind": "model"},
}
_NAMES: Final = lazily(r"Parameters? which did not receive grad for rank (?P<rank>\d+): (?P<names>[^\n]+)")
_INDICES: Final = lazily(r"Parameter indices which did not receive grad for rank (?P<rank>\d+): (?P<indices>[\d ]+)")
_TWICE: Final = lazily(
    r"Parameter at index (?P<index>\d+)(?: with name (?P<name>[\w.]+))? has been marked as ready twice"
)
_PRINT: Final = lazily(
    r"Rank (?P<rank>\d+) is running (?:inconsistent )?collective: "
    r"(?P<print>CollectiveFingerPrint\((?:[^()]|\([^()]*\))*\)?|\w+)"
)
_FIELDS: Final = lazily(
    r"SequenceNumber=(?P<seq>\d+)|OpType=(?P<op>\w+)|TensorShape=\[(?P<shape>[\d, ]*)\]|TensorDtypes=(?P<dtype>[\w ]+)"
)
_MODEL: Final = lazily(
    r"DDP expects same model across all ranks, but Rank (?P<a>\d+) has (?P<na>\d+) params, "
    r"while rank (?P<b>\d+) has inconsistent (?P<nb>\d+) params"
    r"|(?:params|Params)\[(?P<index>\d+)\] in this process with sizes (?P<sa>\[[^\]]*\]) "
    r"appears not to match sizes of the same param in process (?P<p>\d+)"
)


class DdpError(Record, frozen=True):
    """One refusal. `kind`: unused, twice, collectives, model.

    `rank` is the one named, `names` and `indices` the parameters; `calls` are (rank, sequence, operation, shape, dtype)
    of mismatching collectives, "" or None where untold; `text` is the first sentence.
    """

    kind: str
    rank: int | None
    names: tuple[str, ...]
    indices: tuple[int, ...]
    calls: tuple[tuple[int, int | None, str, str, str], ...]
    text: str


def read(message: Message) -> Iterator[DdpError]:
    """The refusal in `message`, if it is an exception's."""
    if message.exception is None:
        return
    text = message.text
    first = text.split(". ", 1)[0]
    if "Expected to have finished reduction" in text:
        named, indexed = _NAMES.search(text), _INDICES.search(text)
        spoken = named or indexed
        names = tuple(n.strip() for n in named["names"].split(",") if n.strip()) if named else ()
        indices = tuple(int(i) for i in indexed["indices"].split()) if indexed else ()
        yield DdpError(
            message.anchor,
            "unused",
            int(spoken["rank"]) if spoken else message.origin.rank,
            names,
            indices,
            (),
            first,
            **message.common,
        )
    elif "mark a variable ready only once" in text:
        m = _TWICE.search(text)
        names = (m["name"],) if m and m["name"] else ()
        indices = (int(m["index"]),) if m else ()
        yield DdpError(message.anchor, "twice", message.origin.rank, names, indices, (), first, **message.common)
    elif "Detected mismatch between collectives" in text:
        calls = tuple(_call(m) for m in _PRINT.finditer(text))
        yield DdpError(message.anchor, "collectives", message.origin.rank, (), (), calls, first, **message.common)
    elif (m := _MODEL.search(text)) is not None:
        yield DdpError(
            message.anchor,
            "model",
            message.origin.rank,
            (),
            (int(m["index"]),) if m["index"] else (),
            (),
            m[0],
            **message.common,
        )


def _call(m: re.Match[str]) -> tuple[int, int | None, str, str, str]:
    part: dict[str, str] = {}
    for field in _FIELDS.finditer(m["print"]):
        part |= {k: v for k, v in field.groupdict().items() if v is not None}
    operation = part.get("op") or (m["print"] if "(" not in m["print"] else "")
    return (
        int(m["rank"]),
        int(part["seq"]) if "seq" in part else None,
        operation,
        part.get("shape", ""),
        part.get("dtype", "").strip(),
    )
