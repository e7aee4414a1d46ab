"""How fast large logs are read: megabytes a second of processor time, and peak memory.

    python -m tests.benchmarks.text_throughput [--sizes 200 1000] [--folder DIR]

Two kinds of log are made, every line different: ordinary INFO lines in which nothing is of
interest, and training lines with losses. The floor is counting line feeds with
`bytes.count` over the same file in the same run; no reader that looks at every byte is
faster. The logs are removed afterwards.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.benchmarks.measured import measured

FLOOR: Final = """
result = 0
with open(sys.argv[1], "rb", buffering=0) as file:
    while block := file.read(4 << 20):
        result += block.count(b"\\n")
"""
ANALYZE: Final = """
from necropsy.api import analyze
report = analyze([sys.argv[1]])
result = [len(report.findings), report.inputs[0].records, report.inputs[0].bytes]
"""
PARTS: Final = ("data.prefetch", "data.shuffle", "trainer.loop", "io.checkpoint", "model.encoder", "metrics.sink")


def info_lines() -> Iterator[str]:
    """Lines of a chatty program: time, level, logger, a sentence with numbers."""
    n = 0
    while True:
        clock = f"2026-05-01 {n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d},{n % 1000:03d}"
        part = PARTS[n % len(PARTS)]
        rows = f"{n * 7919 % 99991} rows in {n % 97}.{n % 10} ms"
        yield f"{clock} INFO {part}: shard {n % 4096:05d} of split a is ready, {rows}\n"
        n += 1


def training_lines() -> Iterator[str]:
    """Lines of a training loop, one a step."""
    n = 0
    while True:
        loss = 0.5 + 9.5 / (1 + n / 5000) + (n * 7919 % 101) / 1000
        clock = f"2026-05-01 {n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d}"
        norm = 0.3 + n % 37 / 50
        yield f"{clock} step {n} | loss {loss:.4f} | lr 3.00e-04 | grad norm {norm:.3f} | {16000 + n % 400} tok/s\n"
        n += 1


KINDS: Final[dict[str, Callable[[], Iterator[str]]]] = {"INFO lines": info_lines, "training lines": training_lines}


def write(path: Path, lines: Iterator[str], size: int) -> int:
    """Write lines to `path` until it holds `size` bytes; returns its size."""
    written = 0
    with path.open("wb") as file:
        while written < size:
            written += file.write("".join(next(lines) for _ in range(20_000)).encode())
    return written


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000], help="megabytes (10^6)")
    parser.add_argument("--folder", type=Path, help="where the logs are made (default: the system's temporary folder)")
    options = parser.parse_args()
    print("log                  MB  floor MB/s  analyze MB/s  of floor  peak MB  findings")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "run.log"
        for kind, lines in KINDS.items():
            for size in options.sizes:
                megabytes = write(path, lines(), size * 10**6) / 10**6
                floor = megabytes / measured(FLOOR, str(path)).cpu
                run = measured(ANALYZE, str(path), cwd=Path(folder))
                speed = megabytes / run.cpu
                found = run.result[0] if isinstance(run.result, list) else "?"
                row = f"{kind:16s} {megabytes:6.0f} {floor:11.0f} {speed:13.0f} {speed / floor:9.1%}"
                print(f"{row} {run.peak / 1e6:8.0f} {found:>9}")


if __name__ == "__main__":
    main()
