"""What a piece of work costs, in lines of this project's code that it runs: the same on every machine, at any load.

Counted line by line, so that a loop over everything inside a loop over everything shows while both are small, before
the rest of the work hides it. What C code does inside one line (a search in a list, a regular expression) does not
show here; `tests/benchmarks/growing_costs.py` takes times for that.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

_OWN: Final = re.compile(r"[/\\]necropsy(?:_parsers)?[/\\]")
TIMES: Final = 4  # how many times as large the second input is
MOST: Final = 6  # times as often as before that any line may run: quadratic work runs its line 16 times as often
# Runs of a line for each line of the input that are no growth: code that only the larger input reaches has no base.
FREE: Final = 0.25


def lines_run(work: Callable[[], object]) -> Counter[tuple[str, str, int]]:
    """How often each line of the packages ran: (file, function, line) -> times; an iteration in one line counts too."""
    codes: dict[CodeType, defaultdict[int, int]] = {}
    tracers: dict[CodeType, Any] = {}  # one a function, not one a call: calls are many

    def tracer(code: CodeType) -> Any:
        if not _OWN.search(code.co_filename):
            return None
        seen = codes[code] = defaultdict(int)

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                seen[frame.f_lineno] += 1
            return line

        return line

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code not in tracers:
            tracers[code] = tracer(code)
        return tracers[code]

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    found: Counter[tuple[str, str, int]] = Counter()
    for code, seen in codes.items():
        for number, times in seen.items():
            found[Path(code.co_filename).name, code.co_name, number] += times
    return found


def too_often(work: Callable[[bytes], object], small: bytes, large: bytes) -> dict[str, tuple[int, int]]:
    """The functions a line of which ran more often than the growth of the input explains -> times before and after."""
    work(large)  # imports and caches, those that only a larger input needs too
    before, after = lines_run(lambda: work(small)), lines_run(lambda: work(large))
    free = FREE * (small.count(b"\n") + small.count(b"\r"))
    return {
        f"{place[0]} {place[1]}": (before[place], times)
        for place, times in after.items()
        if times > MOST * max(before[place], free)
    }
