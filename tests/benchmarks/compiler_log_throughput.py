"""How fast the log of torch's compiler is read: megabytes a second of processor time, and peak memory.

    python -m tests.benchmarks.compiler_log_throughput [--size 200] [--runs 3] [--base run.log ...]

Three kinds of text, every line different: code that the compiler quotes (graphs, kernels, guards), the same with a
graph break, a recompilation and the steps of a compilation every thousand lines, and the fusion log. `--base` adds real
logs, repeated with other clocks, processes, compile ids, file names and sizes until they have the size. All rules run,
and Python looks for cycles as seldom as the command has it. The floor is counting line feeds in the same run; the texts
are removed afterwards. `further` is the speed without what the first 8 MB cost, the start (imports, patterns, tables of
literals) among it; `of floor` goes with it. Of `--runs` the least of each counts.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.benchmarks.measured import measured
from tests.benchmarks.text_throughput import ANALYZE, FLOOR, write

HEAD: Final = 8_000_000  # bytes of a text, the cost of which is the start's
WORK: Final = "import gc\ngc.set_threshold(100_000, 10, 10)\n" + ANALYZE
QUOTED: Final = (
    ("_inductor/codecache.py:1347", "output_code", "    tmp{n} = tl.load(in_ptr{k} + (x0 + {n}*x1), xmask, other=0.0)"),
    ("_dynamo/symbolic_convert.py:1440", "trace_bytecode", "TRACE LOAD_FAST x{n} [LazyVariableTracker(), {k}]"),
    ("_dynamo/guards.py:3911", "guards", "| +- TENSOR_MATCH: check_tensor(L['x{n}'], size=[{k}, {n}], stride=[1, 1])"),
    ("_dynamo/output_graph.py:2417", "graph_code", "         l_x_{n}_ = scale * torch.nn.functional.gelu(buf{k})"),
    ("fx/experimental/symbolic_shapes.py:5984", "", "Skipping guard L['self']._parameters['w{n}'].size()[{k}] == {n}"),
)
EVENTS: Final = (
    (
        "_dynamo/symbolic_convert.py:5320",
        "",
        "Step 1: torchdynamo start tracing step{n} /home/trainer/net{k}.py:{n}",
    ),
    ("_dynamo/output_graph.py:2661", "", "Step 2: calling compiler function inductor"),
    ("_dynamo/symbolic_convert.py:5127", "graph_breaks", "Graph break in user code at /home/trainer/app/net{k}.py:{n}"),
    ("_dynamo/symbolic_convert.py:5127", "graph_breaks", "Graph Break Reason: Data-dependent branching"),
    ("_dynamo/symbolic_convert.py:5127", "graph_breaks", "  Explanation: Detected data-dependent branching."),
    ("_dynamo/symbolic_convert.py:5127", "graph_breaks", "User code traceback:"),
    ("_dynamo/symbolic_convert.py:5127", "graph_breaks", '  File "/home/trainer/app/net{k}.py", line {n}, in step{n}'),
    ("_dynamo/symbolic_convert.py:5127", "graph_breaks", "    if x{n}.mean() > {k}:"),
    ("_dynamo/guards.py:4760", "recompiles", "Recompiling function step{n} in /home/trainer/app/net{k}.py:{n}"),
    ("_dynamo/guards.py:4760", "recompiles", "    triggered by the following guard failure(s):"),
    (
        "_dynamo/guards.py:4760",
        "recompiles",
        "    - {k}/0: tensor 'x' size mismatch at index 0. expected 8, actual {n}",
    ),
    ("_dynamo/output_graph.py:2665", "", "Step 2: done compiler function inductor"),
)


def _head(n: int, place: str, artifact: str) -> str:
    n = n // 40 * 40  # the lines of one logged message have one clock
    clock = f"{n // 3600000 % 24:02d}:{n // 60000 % 60:02d}:{n // 1000 % 60:02d}.{n % 1000:03d}000"
    tag = f" [__{artifact}]" if artifact else ""
    return f"V1012 {clock} 3311 torch/{place}] [{n // 5000}/0]{tag} "


def quoted_code() -> Iterator[str]:
    """Code, guards and bytecode, in which nothing is of interest."""
    n = 0
    while True:
        place, artifact, text = QUOTED[n // 40 % len(QUOTED)]
        yield f"{_head(n, place, artifact)}{text.format(n=n, k=n % 17)}\n"
        n += 1


def with_events() -> Iterator[str]:
    """The same, with what is of interest every thousand lines."""
    for n, line in enumerate(quoted_code()):
        yield line
        if n % 1000 == 999:
            yield from (f"{_head(n, p, a)}{t.format(n=n, k=n % 17)}\n" for p, a, t in EVENTS)


def fusion() -> Iterator[str]:
    """Refusals of the scheduler, graph after graph."""
    n = 0
    while True:
        head = _head(n, "_inductor/scheduler.py:1388", "fusion")
        if n % 600 == 0:
            yield f"{head}===== attempting fusion (1/10): 150 nodes =====\n"
        why = "no shared data" if n % 3 else "intermediate nodes between node1 & node2"
        yield f"{head}cannot fuse op{n % 150} with op{(n + n // 150) % 150}: {why}\n"
        n += 1


def repeated(base: Path) -> Callable[[], Iterator[str]]:
    """A real log again and again, with other clocks, processes, compile ids, file names and sizes."""
    lines = base.read_text("utf-8", "replace").splitlines(keepends=True)
    hour, process = re.compile(r"(?<=^[VIWE]\d{4} )\d\d"), re.compile(r"(?<=\d{6} )\d+")
    compile_id, size = re.compile(r"\] \[(\d+)"), re.compile(r"(?<=[\[( ,*+-])\d{2,5}(?=[\], )*])")

    def other(line: str, turn: int) -> str:
        line = process.sub(str(7000 + turn), hour.sub(f"{turn % 24:02d}", line, count=1), count=1)
        line = compile_id.sub(lambda m: f"] [{int(m[1]) + 100 * turn}", line, count=1)
        line = size.sub(lambda m: str(int(m[0]) + turn), line)
        return line.replace(".py", f"_{turn}.py")

    def made() -> Iterator[str]:
        turn = 0
        while True:
            yield from (other(line, turn) for line in lines)
            turn += 1

    return made


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=200, help="megabytes (10^6)")
    parser.add_argument("--runs", type=int, default=1, help="of each, the least of which counts")
    parser.add_argument("--base", type=Path, nargs="*", default=[], help="real logs to repeat")
    options = parser.parse_args()
    kinds = {"quoted code": quoted_code, "with events": with_events, "fusion log": fusion}
    kinds |= {path.name: repeated(path) for path in options.base}
    print("text                          MB  floor MB/s  analyze MB/s  further MB/s  of floor  peak MB  findings")
    with tempfile.TemporaryDirectory() as folder:
        path, head = Path(folder) / "run.log", Path(folder) / "head.log"
        for kind, lines in kinds.items():
            megabytes = write(path, lines(), options.size * 10**6) / 10**6
            with path.open("rb") as file:
                head.write_bytes(file.read(HEAD))
            floor, start, run = (
                min((measured(work, str(of)) for _ in range(options.runs)), key=lambda m: m.cpu)
                for work, of in ((FLOOR, path), (WORK, head), (WORK, path))
            )
            further, best = (megabytes - HEAD / 1e6) / (run.cpu - start.cpu), megabytes / floor.cpu
            result = run.result if isinstance(run.result, list) else [0]
            print(
                f"{kind:<25} {megabytes:7.0f} {best:11.0f} {megabytes / run.cpu:13.0f} {further:13.0f} "
                f"{further / best:9.1%} {run.peak / 1e6:8.0f} {result[0]:9}",
                flush=True,
            )


if __name__ == "__main__":
    main()
