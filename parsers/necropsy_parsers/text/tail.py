"""The end of a stretch that nobody read, to the last line of each of its writers.

A rank that falls silent says its last words among lines of others that are of no interest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from necropsy_parsers.text.clean import pieces
from necropsy_parsers.text.entry import of_compiler
from necropsy_parsers.text.prefix import Peeled, Peeler

LAST_LINES: Final = 24  # lines at the end of a gap that are asked who wrote them
_CLOCK: Final = re.compile(rb"\d:\d\d")  # in whatever `stamp` reads


def last_words(tail: bytes, peeler: Peeler, placed: Callable[[Peeled], Peeled]) -> list[Peeled]:
    """The last line of a gap; before it the last line of each other writer, where lines bear writers.

    `placed` keeps the last clock reading, whoever's line it is on, for lines without one.
    """
    final = placed(peeler.peel(pieces(tail[tail.rfind(b"\n") + 1 :])[-1]))
    last, found = final.key, {"": final}
    if not last or of_compiler(final.origin):
        return [final]
    lines = tail.split(b"\n")
    clocks = _CLOCK.search(tail) is not None
    quick = not clocks or final.origin.time is not None
    passed: list[str] = []  # lines of writers that are known: no more is asked of them than their clock
    for line in reversed(lines[-1 - LAST_LINES : -1]):
        text = pieces(line)[-1]
        if quick and ((key := peeler.key(text)) == last or key in found):
            passed.append(text)
            continue
        peeled = peeler.peel(text)
        if clocks and peeled.origin.time is None:
            for other in passed:
                placed(peeler.peel(other))
        passed.clear()
        peeled = placed(peeled)
        if peeled.key != last and peeled.key not in found and peeled.text.strip():
            found[peeled.key] = peeled
    return [*(p for key, p in found.items() if key), final]
