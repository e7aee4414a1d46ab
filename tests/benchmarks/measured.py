"""A piece of Python run in a fresh process, and what it cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_FRAME: Final = """
import json, resource, sys, time
start = time.process_time()
{work}
used = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([used, peak * (1 if sys.platform == "darwin" else 1024), result]))
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """`cpu` seconds of the work (start-up of Python not counted), `peak` resident bytes, the work's `result`."""

    cpu: float
    peak: int
    result: object


def environment() -> dict[str, str]:
    """This process's environment, with the checkout's packages on the path."""
    folders = [str(ROOT / name) for name in ("analyzer", "parsers", "lsp")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])}


def measured(work: str, *arguments: str, cwd: Path | None = None) -> Measured:
    """Run `work`, Python source that leaves something serialisable in `result`. Raises `CalledProcessError`."""
    done = subprocess.run(
        [sys.executable, "-c", _FRAME.format(work=work), *arguments],
        env=environment(),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    cpu, peak, result = json.loads(done.stdout.splitlines()[-1])
    return Measured(cpu, peak, result)
