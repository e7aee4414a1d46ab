"""Stands for a profiler: keeps the open ranges of each thread, and compares them with where the program really is.

Run as a script it watches `program` and prints what went wrong as JSON.
"""

import json
import os
import sys
import threading

OPEN = threading.local()
WRONG: list[str] = []
SEEN: list[str] = []


def stack() -> list[str]:
    """The present thread's open ranges."""
    if not hasattr(OPEN, "names"):
        OPEN.names = []
    return OPEN.names


def enter(name: str):
    """Open a range."""
    mine = stack()
    mine.append(name)

    def close(*_: object) -> None:
        if not mine or mine[-1] != name:
            WRONG.append(f"{name} ended inside of {mine[-1:]}")
        elif mine:
            mine.pop()

    return close


def note(*words: str) -> None:
    """The innermost range must be the caller's line, the outer ones those of its callers in program.py."""
    SEEN.append(words[0])
    frame = sys._getframe(1)
    lines = []
    while frame is not None:
        if os.path.basename(frame.f_code.co_filename) == "program.py":
            lines.append(f"necropsy:program.py:{frame.f_lineno}")
        frame = frame.f_back
    mine = [n for n in stack() if "program.py" in n]
    if mine[::-1] != lines:
        WRONG.append(f"{words[0]}: {mine} and not {lines[::-1]}")


def main() -> None:
    """Watch the program."""
    from _necropsy_capture.marking.names import Project

    if sys.version_info >= (3, 12):
        from _necropsy_capture.marking.monitoring import Monitoring as Way
    else:
        from _necropsy_capture.marking.tracing import Tracing as Way
    import program

    way = Way(Project(), enter)
    refused = way.start()
    program.main()
    ended, wrong = way.trouble, list(WRONG)
    way.stop()
    opened = way.stacks.opened
    program.outer(1)  # after the end nothing is marked
    print(
        json.dumps(
            {
                "refused": refused, "ended": ended, "wrong": wrong, "seen": SEEN,
                "left_open": stack(), "opened": opened, "marked_later": way.stacks.opened - opened,
                "tracing": sys.gettrace() is not None,
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    sys.modules["watch"] = sys.modules["__main__"]
    main()
