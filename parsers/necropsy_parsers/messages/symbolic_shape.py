"""Symbolic sizes: which dimension became a symbol, at which line, and what was then assumed of it.

create_symbol s27 = 576 for L['ids'].size()[1] [2, int_oo] b, t = ids.shape  # trainer/lm.py:49 in forward
(_dynamo/variables/builder.py:4049 in <lambda>), for more info run with TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL=...
create_symbol s0 = 4 for L['x'].size()[0] at /home/trainer/lm.py:3 in f (_dynamo/variables/b.py:1901 in ...)   (2.1)
eval s27 <= 1024 [guard added] att = mask[:t]  # trainer/lm.py:21 in forward (_subclasses/fake_impls.py:939 in ...)
set_replacement s27 = 576 (solve) VR[576, 576]

`TORCH_LOGS=dynamic`, at INFO, torch/fx/experimental/symbolic_shapes.py of 2.1 to 2.13. Paths are shortened as in guard
comments. Guards that the compiler adds for its own ends ("[guard suppressed]", no line of the user's) are counted by
their place, not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "symbolic_shape"
TITLE: Final = "Symbolic sizes and what is assumed of them"
TRIGGERS: Final = (b"create_symbol ", b"[guard added]", b"set_replacement ")
READS: Final = (Reads("", "2.1", "`dynamic`: symbols with their source and line, guards with their line, constants"),)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "create_symbol s0 = 4 for L['x'].size()[0] [2, int_oo] y = f(x)  # app/net.py:12 in g (_dynamo/b.py:3 in v)": {
        "kind": "symbol",
        "symbol": "s0",
        "value": "4",
    },
    "eval Eq(s0, 4) [guard added] if x.shape[0] == 4:  # app/net.py:5 in f (_dynamo/variables/tensor.py:9 in v)": {
        "kind": "guard",
        "expression": "Eq(s0, 4)",
    },
}
_SYMBOL: Final = lazily(
    r"create_symbol (?P<symbol>\w+) = (?P<value>-?[\w.]+) for (?P<source>\S+(?: \S+)??)(?= \[| at | \(|$)"
)
_GUARD: Final = lazily(
    r"(?:eval|runtime_assert)(?: \([\w ]+\))? (?P<quiet>\[guard suppressed\] )?(?P<expression>.+?) \[guard added\]"
)
_REPLACED: Final = lazily(
    r"(?<!skipped )set_replacement (?P<symbol>\w+) = (?P<value>-?\d+)(?= |$)(?: \((?P<reason>\w+)\))?"
)
# ` text  # path:line in function (framework)`; up to 2.5 ` at path:line in function (framework)`.
_PLACE: Final = lazily(
    r"(?:(?: at)? (?P<text>\S.*?)  # | at )(?P<file>\S+\.py):(?P<line>\d+) in (?P<function>[\w<>]+)(?: \(|$)"
)


class SymbolicShape(Record, frozen=True):
    """One step of reasoning about sizes. `kind`: symbol, guard, constant.

    A `symbol` stands for `source` and was `value` when it was created; a `guard` is an `expression` that must hold
    from now on; `constant`: the symbol turned out to have one `value` only (`expression` is torch's reason). `frame`
    is the line of the program, its path shortened as printed, None where only the compiler's own is told.
    """

    kind: str
    symbol: str
    value: str
    source: str
    expression: str
    frame: Frame | None


def read(message: Message) -> Iterator[SymbolicShape]:
    """The steps in `message`."""
    if message.exception is not None:
        return
    for line in message.text.split("\n"):
        if (m := _SYMBOL.search(line)) is not None:
            yield _shape(message, "symbol", m, line, m["source"], "")
        elif (m := _GUARD.search(line)) is not None:
            if not m["quiet"] and (frame := _frame(line, m.end())) is not None:
                yield SymbolicShape(message.anchor, "guard", "", "", "", m["expression"], frame, **message.common)
        elif (m := _REPLACED.search(line)) is not None:
            yield _shape(message, "constant", m, line, "", m["reason"] or "")


def _shape(message: Message, kind: str, m: re.Match[str], line: str, source: str, expression: str) -> SymbolicShape:
    frame = _frame(line, m.end())
    return SymbolicShape(message.anchor, kind, m["symbol"], m["value"], source, expression, frame, **message.common)


def _frame(line: str, start: int) -> Frame | None:
    rest = re.sub(r"^ \[[^\]]*\]", "", line[start:])  # the range of a symbol
    m = _PLACE.match(rest)
    return None if m is None else Frame(m["file"], int(m["line"]), m["function"], (m["text"] or "").strip())
