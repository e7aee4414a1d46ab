"""What `necropsy capture` runs inside the job's Python processes: standard library only, Python 3.10 and newer.

The launcher says in `NECROPSY_CAPTURE` (JSON) which folder to write to and what to collect:

    {"folder": "/home/trainer/run", "collect": {"logs": ["torch"], "profiler": ["torch"]}, "skip": 3, "steps": 4}

Nothing happens in a process until it imports a module that a collector waits for (`collect` names them). Then
`collectors/<name>.py` is loaded, and of its functions, each of which takes the `Process`, are called

    before    just before the module runs: the place to set environment variables that it reads
    start     when it has been imported

A collector asks `process` where to write (`path`), notes what it did or could not do (`note`), may be told when the
profiler begins and ends to record (`on("recording", ...)`, `on("recorded", ...)`), and leaves what must be flushed with
`at_exit`. What it raises is noted in the run folder, and the job goes on. This package's folder leaves `sys.path`
before user code runs.
"""

from __future__ import annotations

import os

VARIABLE = "NECROPSY_CAPTURE"


def start() -> None:
    """Arm what the launcher asked for; does nothing in a process that it did not start."""
    text = os.environ.get(VARIABLE)
    if not text:
        return
    import json

    from _necropsy_capture import imports
    from _necropsy_capture.process import Process

    settings = json.loads(text)
    waiting: dict[str, list[str]] = {}
    for name, modules in settings["collect"].items():
        for module in modules:
            waiting.setdefault(module, []).append(name)
    imports.watch(Process(settings), waiting)
