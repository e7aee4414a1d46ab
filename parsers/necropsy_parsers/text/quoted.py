"""Triggers that stand in code which torch's compiler only quotes.

`TORCH_LOGS` prints graphs, generated kernels, guards and bytecode by the hundred thousand lines, and programs hold any
word: `scale`, `Error`, `exit`, `File "a.py"`. In lines under a head of the compiler only triggers of messages that the
compiler itself writes count.

A few hits are judged one by one. Thousands in a chunk are judged by numpy: the line that each stands in, and whether
that line begins with the head as torch 2.3 and later write it. Lines with something before the head go the long way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NAMES: Final = (b"_dynamo", b"_inductor", b"_functorch", b"_higher_order_ops", b"_export", b"export", b"fx")
_MODULES: Final = b"(?:" + b"|".join(_NAMES) + b")"
# `V1129 12:21:04.426000 502 torch/_dynamo/guards.py:4760]`; 2.1, 2.2: `] torch._dynamo.guards.__recompiles: [DEBUG]`.
_HEAD: Final = re.compile(
    rb"[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\s\]]*?torch/" + _MODULES + rb"/[^\]\n]*\]"
    rb"|\] torch\." + _MODULES + rb"\.[\w.]+: \[[A-Z]+\]"
)
_MARKS: Final = (b" torch/_", b"/torch/_", b" torch/fx", b" torch._")  # a chunk without any holds no such head
HEAD_WITHIN: Final = 260  # bytes of a line in which a head of the compiler stands, launchers' prefixes before it
FEW: Final = 10_000  # hits in a chunk up to which each is looked at: numpy takes 10 ms a chunk, and 0.1 s to import
_FORM: Final = b"V0000 00:00:00.000000 "  # 0: any digit
_WINDOW: Final = 112  # bytes of a line in which such a head ends; longer ones go the long way
_PID: Final = slice(len(_FORM), len(_FORM) + 22)
_LONGEST: Final = max(map(len, _NAMES)) + len(b"torch//")


def counting(chunk: bytes, hits: Iterable[tuple[int, int]], own: frozenset[int]) -> list[int]:
    """Positions of the hits that count, sorted; `hits` are (position, number of the trigger), `own` the compiler's."""
    ordered = sorted(hits)
    if not ordered or (len(ordered) > FEW and not any(mark in chunk for mark in _MARKS)):
        return [position for position, _ in ordered]
    found, quoted = [], False
    begun, head = -1, b""  # where the line of the hit before begins; the compiler's head seen last: lines share it
    for position, number in ordered:
        if number not in own:
            begin = chunk.rfind(b"\n", 0, position) + 1
            if begin != begun:
                begun, behind = begin, begin + len(head)
                quoted = position >= behind > begin and chunk.startswith(head, begin)
                if not quoted and (m := _HEAD.search(chunk, begin, min(position, begin + HEAD_WITHIN))) is not None:
                    quoted, head = True, chunk[begin : m.end()]
            if quoted:
                continue
        found.append(position)
    return found


def outside_quotes(chunk: bytes, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of many positions, sorted, stand in no line of the compiler, or before its head has ended."""
    import numpy as np

    data = np.frombuffer(chunk, np.uint8)
    ends = np.flatnonzero(data == 10)
    before = np.searchsorted(ends, positions)  # line feeds before each position
    lines, line = np.unique(before, return_inverse=True)
    begins = np.where(lines > 0, ends[lines - 1] + 1, 0) if len(ends) else np.zeros(len(lines), np.int64)
    behind = _heads(data, begins)
    unknown = np.flatnonzero(behind < 0)
    if len(unknown) > FEW and not any(mark in chunk for mark in _MARKS):
        behind[unknown] = len(chunk)
    else:
        for n in unknown.tolist():
            begin = int(begins[n])
            head = _HEAD.search(chunk, begin, begin + HEAD_WITHIN)
            behind[n] = len(chunk) if head is None or b"\n" in head[0] else head.end()
    outside: NDArray[np.bool_] = positions < behind[line]
    return outside


def _heads(data: NDArray[np.uint8], begins: NDArray[Any]) -> NDArray[np.int64]:
    """Where the head ends that a line begins with; -1 where the line does not plainly begin with one."""
    import numpy as np

    behind = np.full(len(begins), -1, np.int64)
    rows = np.flatnonzero(begins + _WINDOW + _LONGEST <= len(data))
    at = data[begins[rows][:, None] + np.arange(_WINDOW)]
    digit, form = (at - 48) < 10, np.frombuffer(_FORM, np.uint8)
    fine = (at[:, 1 : len(form)] == form[1:]) | (digit[:, 1 : len(form)] & (form[1:] == 48))
    good = fine.all(1) & np.isin(at[:, 0], np.frombuffer(b"VIWEC", np.uint8))
    place = (~(digit | (at == 32)))[:, _PID].argmax(1) + _PID.start
    each = np.arange(len(rows))
    good &= (place > _PID.start + 1) & (at[each, place - 1] == 32) & digit[each, place - 2]
    path = data[(begins[rows] + place)[:, None] + np.arange(_LONGEST)]
    known = np.zeros(len(rows), np.bool_)
    for name in _NAMES:
        module = np.frombuffer(b"torch/" + name + b"/", np.uint8)
        known |= (path[:, : len(module)] == module).all(1)
    stop = (at == 93).argmax(1)  # `]`
    good &= known & (stop > place) & ~((at == 10) & (np.arange(_WINDOW) < stop[:, None])).any(1)
    behind[rows[good]] = (begins[rows] + stop + 1)[good]
    return behind
