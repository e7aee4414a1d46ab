"""Triggers that stand in code which torch's compiler only quotes.

`TORCH_LOGS` prints graphs, generated kernels, guards and bytecode by the hundred thousand lines, and programs hold any
word: `scale`, `Error`, `exit`, `File "a.py"`. In lines under a head of the compiler only triggers of messages that the
compiler itself writes count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_MODULES: Final = rb"(?:_dynamo|_inductor|_functorch|_higher_order_ops|_export|export|fx)"
# `V1129 12:21:04.426000 502 torch/_dynamo/guards.py:4760]`; 2.1, 2.2: `] torch._dynamo.guards.__recompiles: [DEBUG]`.
_HEAD: Final = re.compile(
    rb"[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\s\]]*?torch/" + _MODULES + rb"/[^\]\n]*\]"
    rb"|\] torch\." + _MODULES + rb"\.[\w.]+: \[[A-Z]+\]"
)
_MARKS: Final = (b" torch/_", b"/torch/_", b" torch/fx", b" torch._")  # a chunk without any holds no such head
HEAD_WITHIN: Final = 260  # bytes of a line in which a head of the compiler stands, launchers' prefixes before it


def counting(chunk: bytes, hits: Iterable[tuple[int, int]], own: frozenset[int]) -> list[int]:
    """Positions of the hits that count, sorted; `hits` are (position, number of the trigger), `own` the compiler's."""
    ordered = sorted(hits)
    if not ordered or not any(mark in chunk for mark in _MARKS):
        return [position for position, _ in ordered]
    found, quoted, passed = [], 0, 0  # a line known to be the compiler's or not ends at `passed`
    for position, number in ordered:
        if number not in own:
            if position >= passed:
                begin = chunk.rfind(b"\n", 0, position) + 1
                end = chunk.find(b"\n", position)
                passed = len(chunk) if end < 0 else end
                quoted = _HEAD.search(chunk, begin, min(position, begin + HEAD_WITHIN)) is not None
            if quoted:
                continue
        found.append(position)
    return found
