"""TensorRT and TensorRT for RTX: the verbose log of builds, and the layers of engines, as files of the run folder."""

from __future__ import annotations

import sys

from _necropsy_capture.engines.watch import Watch
from _necropsy_capture.process import Process

AWAITS = ("tensorrt", "tensorrt_rtx")
_WATCHED: set[int] = set()


def start(process: Process) -> None:
    """Watch whichever of the modules has been imported."""
    for name in AWAITS:
        module = sys.modules.get(name)
        builder = getattr(module, "Builder", None)
        if builder is not None and id(builder) not in _WATCHED:
            _WATCHED.add(id(builder))
            Watch(module, process).install()
