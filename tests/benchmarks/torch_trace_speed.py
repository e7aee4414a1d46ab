"""How fast structured logs (TORCH_TRACE) are analyzed, next to tlparse: processor seconds, start-up deducted.

    python -m tests.benchmarks.torch_trace_speed LOG [--size 101] [--tlparse PATH] [--runs 3]

LOG is a real log; it is repeated with shifted numbers of functions until it has the size (megabytes, 10^6). All rules
run. tlparse (0.4.3 was meant) also writes a page for each artifact, so that this is no comparison of equal work. The
seconds of an empty log are deducted from both. Both run in turn, several times, and the least of each counts: what
else the machine does makes a run slower, never faster.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.benchmarks.measured import measured

ANALYZE: Final = """
from necropsy.api import analyze
report = analyze(sys.argv[1])
result = len(report.findings)
"""
_FRAME: Final = re.compile(rb'(?<="frame_id": )\d+')
_ID: Final = re.compile(rb'(?<="compile_id": ")\d+(?=/)')
HEAD: Final = b'V1129 12:21:29.136000 947 torch/_logging/structured.py:28] {"str": ["/home/trainer/vit/train.py", 1]}\n'


def write(base: bytes, path: Path, size: int) -> float:
    """The log again and again; megabytes written."""
    written, turn = 0, 0
    with path.open("wb") as file:
        while written < size:
            shift = 1000 * turn

            def moved(m: re.Match[bytes], shift: int = shift) -> bytes:
                return str(int(m[0]) + shift).encode()

            written += file.write(_ID.sub(moved, _FRAME.sub(moved, base)))
            turn += 1
    return written / 1e6


def of_tlparse(program: str, log: Path, out: Path) -> float:
    """Processor seconds of tlparse on a log."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [program, str(log), "-o", str(out), "--overwrite", "--no-browser"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--size", type=int, default=101, help="megabytes (10^6)")
    parser.add_argument("--tlparse", default="", help="the program to compare with")
    parser.add_argument("--runs", type=int, default=3, help="of each; the least counts")
    options = parser.parse_args()
    from necropsy_parsers.issues import Issues
    from necropsy_parsers.source import open_sources

    (source,) = open_sources([str(options.log)], Issues())
    base = b"".join(source.chunks())
    with tempfile.TemporaryDirectory() as folder:
        path, empty = Path(folder) / "dedicated_log_torch_trace.log", Path(folder) / "empty.log"
        megabytes = write(base, path, options.size * 10**6)
        empty.write_bytes(HEAD)
        starts, runs, begins, wholes = [], [], [], []
        for _ in range(options.runs):
            starts.append(measured(ANALYZE, str(empty)).cpu)
            runs.append(measured(ANALYZE, str(path)))
            if options.tlparse:
                begins.append(of_tlparse(options.tlparse, empty, Path(folder) / "a"))
                wholes.append(of_tlparse(options.tlparse, path, Path(folder) / "b"))
        run = min(runs, key=lambda r: r.cpu)
        own = max(1e-3, run.cpu - min(starts))
        print(f"{megabytes:.0f} MB, {run.result} findings, least of {options.runs}")
        print(f"necropsy  {own:6.2f} s after a start-up of {min(starts):.2f} s; peak {run.peak / 1e6:.0f} MB")
        if wholes:
            other = min(wholes) - min(begins)
            print(f"tlparse   {other:6.2f} s after a start-up of {min(begins):.2f} s; {other / own:.1f}x")


if __name__ == "__main__":
    main()
