"""How fast profiler traces are read and judged, next to HolisticTraceAnalysis in an environment of its own.

    python -m tests.benchmarks.trace_speed [--size 108] [--ranks 1] [--compressed] [--hta /path/to/python]

The input is a real trace (fixtures/traces/language_model.json.gz) whose steps are repeated,
with shifted times and numbers, up to the size in MB. `read` is columns only, `breakdown`
the work that HolisticTraceAnalysis does for its temporal, kernel and idle breakdowns, and
`analyze` everything, with all rules; `and keep` does it with the cache, for the first time, and `again` for the second
and later. `--hta` names a Python with HolisticTraceAnalysis 0.5
and pandas below 3. Processor seconds of the whole process tree and its peak memory.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.measured import ROOT, environment

SOURCE: Final = ROOT / "fixtures" / "traces" / "language_model.json.gz"
_NUMBERS: Final = ("External id", "correlation", "Python id", "Python parent id", "Ev Idx", "Sequence number")

READ: Final = """
import sys
from necropsy_parsers.formats import kineto
from necropsy_parsers.issues import Issues
from necropsy_parsers.source import open_sources
for source in open_sources(sys.argv[1:], Issues()):
    for trace in kineto.parse(source, Issues(), 0):
        print(trace.events)
"""
BREAKDOWN: Final = """
import sys
import numpy as np
from necropsy_parsers.formats import kineto
from necropsy_parsers.issues import Issues
from necropsy_parsers.source import open_sources
from necropsy.trace.partition import waits_of
from necropsy.trace.rank import RankTrace
for source in open_sources(sys.argv[1:], Issues()):
    for trace in kineto.parse(source, Issues(), 0):
        r = RankTrace(trace)
        names, at = np.unique(r.kernels["name"], return_inverse=True)
        time = np.bincount(at, weights=r.kernels["end"] - r.kernels["start"])
        print(r.computing.total, r.communicating.total, r.copying.total, r.busy.total, time.max(), waits_of(r)[0].total)
"""
ANALYZE: Final = "import sys\nfrom necropsy.commands import run\nrun(['analyze', '--format', 'json', *sys.argv[1:]])"
FRESH: Final = ANALYZE.replace("'json',", "'json', '--no-cache',")
HTA: Final = """
import logging, os, sys, warnings
warnings.filterwarnings("ignore")
from hta.trace_analysis import TraceAnalysis
logging.disable(logging.WARNING)
files = dict(enumerate(sys.argv[1:]))
a = TraceAnalysis(trace_files=files, trace_dir=os.path.dirname(sys.argv[1]))
print(a.get_temporal_breakdown(visualize=False))
a.get_gpu_kernel_breakdown(visualize=False)
a.get_idle_time_breakdown(ranks=list(files), visualize=False)
"""


def write(path: Path, size: int, rank: int) -> int:
    """A trace of about `size` bytes; the number of its events."""
    document = json.loads(gzip.decompress(SOURCE.read_bytes()))
    events = [e for e in document.pop("traceEvents") if e.get("ph") in ("X", "s", "f", "i") and e.get("cat") != "Trace"]
    document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 8}
    low = min(e["ts"] for e in events)
    period = max(e["ts"] + e.get("dur", 0) for e in events) - low + 100
    head = json.dumps(document)[:-1] + ', "traceEvents": [\n'
    count = written = 0
    with path.open("w", encoding="utf-8") as out:
        out.write(head)
        while written < size:
            rows = [json.dumps(_shifted(e, period if written else 0)) for e in events]
            events = [_shifted(e, period) for e in events] if written else events
            text = ("" if not written else ",\n") + ",\n".join(rows)
            out.write(text)
            written += len(text)
            count += len(rows)
        out.write("\n]}\n")
    return count


def _shifted(event: dict[str, Any], us: float) -> dict[str, Any]:
    """The event, later, with other numbers."""
    if not us:
        return event
    moved = {**event, "ts": round(event["ts"] + us, 3)}
    if "id" in event:
        moved["id"] = event["id"] + 1_000_000
    if "args" in event:
        args = event["args"]
        moved["args"] = {k: v + 1_000_000 if k in _NUMBERS and isinstance(v, int) else v for k, v in args.items()}
    return moved


def cost(command: list[str], settings: dict[str, str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak MB of a process and its children."""
    before, start = os.times(), time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=settings)
    peak = 0.0
    while process.poll() is None:
        looked = time.perf_counter()
        peak = max(peak, _resident(process.pid))
        # Looking at gigabytes takes the other process's time too: at most one part in twenty.
        time.sleep(max(0.02, 20 * (time.perf_counter() - looked)))
    wall, after = time.perf_counter() - start, os.times()
    if process.returncode not in (0, 1):
        raise SystemExit(process.stderr.read().decode() if process.stderr else "it failed")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used, peak


def _resident(pid: int) -> float:
    """Proportional set size of a process tree in MB (Linux); 0 where it cannot be read."""
    total, pids = 0.0, [pid]
    while pids:
        here = pids.pop()
        try:
            rollup = Path(f"/proc/{here}/smaps_rollup").read_text(encoding="ascii")
            total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1000
            for task in Path(f"/proc/{here}/task").iterdir():
                pids += [int(p) for p in (task / "children").read_text(encoding="ascii").split()]
        except (OSError, StopIteration):
            continue
    return total


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=108, help="MB a rank")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--compressed", action="store_true")
    parser.add_argument("--hta", default="", help="a Python with HolisticTraceAnalysis 0.5")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / f"rank{r}.json" for r in range(options.ranks)]
        events = sum(write(path, options.size * 1_000_000, r) for r, path in enumerate(paths))
        files = [str(p) for p in paths]
        if options.compressed:
            files = [f"{p}.gz" for p in paths]
            for path in paths:
                Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes(), 6))
        rows = [("read", sys.executable, READ), ("breakdown", sys.executable, BREAKDOWN)]
        rows += [("analyze", sys.executable, FRESH), ("and keep", sys.executable, ANALYZE)]
        rows += [("again", sys.executable, ANALYZE)] + ([("HTA 0.5", options.hta, HTA)] if options.hta else [])
        size = sum(p.stat().st_size for p in paths) / 1e6
        print(f"{size:,.0f} MB, {events:,} events, {options.ranks} ranks")
        print(f"{'work':10} {'wall s':>8} {'CPU s':>8} {'peak MB':>8}")
        for work, python, code in rows:
            settings = environment() if python == sys.executable else dict(os.environ)
            settings["NECROPSY_CACHE"] = str(Path(name) / "kept")
            count = 1 if work == "and keep" else options.runs
            runs = [cost([python, "-c", code, *files], settings) for _ in range(count)]
            wall, used, peak = (sorted(r[i] for r in runs)[count // 2] for i in range(3))
            print(f"{work:10} {wall:8.2f} {used:8.2f} {peak:8.0f}", flush=True)


if __name__ == "__main__":
    main()
