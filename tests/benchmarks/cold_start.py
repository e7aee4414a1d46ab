"""How long `analyze` takes on a 1 MB log in a fresh process, next to Python itself and to one heavy import.

    python -m tests.benchmarks.cold_start [--runs 5]

Medians of wall time and of processor time. The log is made of ordinary lines and ends in a
traceback, so that rules have something to say.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Final

from tests.benchmarks.measured import environment
from tests.benchmarks.text_throughput import info_lines, training_lines

SIZE: Final = 1_000_000
TRACEBACK: Final = (
    'Traceback (most recent call last):\n  File "/home/trainer/projects/vit/train.py", line 31, in main\n'
    "    loss = step(batch)\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 1.44 GiB is free. Including non-PyTorch memory, this process has 77.70 GiB memory in use.\n"
)


def timed(command: Sequence[str], folder: Path, runs: int) -> tuple[float, float]:
    """Median wall and processor seconds of a command; its first run, which fills caches, does not count.

    Byte code is cached as for an installed package, in a folder that goes with the log.
    """
    settings = {k: v for k, v in environment().items() if k != "PYTHONDONTWRITEBYTECODE"}
    settings["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    walls, costs = [], []
    for n in range(runs + 1):
        before, start = os.times(), time.perf_counter()
        subprocess.run(command, cwd=folder, env=settings, stdout=subprocess.DEVNULL, check=False)
        wall, after = time.perf_counter() - start, os.times()
        if n:
            walls.append(wall)
            costs.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return median(walls), median(costs)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = "".join(islice(info_lines(), 6000)) + "".join(islice(training_lines(), 4000)) + TRACEBACK
        (folder / "run.log").write_text(text[-SIZE:])
        verb = "from necropsy.commands import run; import sys; sys.exit(run(['analyze', 'run.log']))"
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
            "analyze run.log (1 MB)": [sys.executable, "-c", verb],
        }
        print(f"{'command':26s} {'wall s':>8s} {'CPU s':>8s}")
        for title, command in commands.items():
            wall, cpu = timed(command, folder, runs)
            print(f"{title:26s} {wall:8.3f} {cpu:8.3f}")


if __name__ == "__main__":
    main()
