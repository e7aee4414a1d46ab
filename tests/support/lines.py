"""Runs a script's `train(step)` under torch's profiler and, beside it, a tracer that notes each line as it runs.

`python lines.py SCRIPT TRACE LINES MODE`: MODE `whole` profiles the call from outside, `inside`
begins to record while it runs (a schedule). LINES gets `[time, function, first line, line]` of
each line event and each call (line 0) of the script's functions, by `time.time_ns`.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any


def main(script: str, trace: str, lines: str, mode: str) -> None:
    """Runs, then writes both files."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.set_num_threads(1)
    torch.manual_seed(0)
    spec = importlib.util.spec_from_file_location(Path(script).stem, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(script).parent))
    spec.loader.exec_module(module)
    noted: list[tuple[int, str, int, int]] = []
    clock = time.time_ns

    def local(frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            noted.append((clock(), frame.f_code.co_name, frame.f_code.co_firstlineno, frame.f_lineno))
        return local

    def enter(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != script:
            return None
        noted.append((clock(), frame.f_code.co_name, frame.f_code.co_firstlineno, 0))
        return local

    plan = schedule(wait=1, warmup=1, active=3, repeat=1) if mode == "inside" else None
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True, schedule=plan) as prof:
        sys.settrace(enter)
        module.train(prof.step if mode == "inside" else lambda: None)
        sys.settrace(None)
    prof.export_chrome_trace(trace)
    Path(lines).write_text(json.dumps(noted), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
