"""Launches that Nsight Compute profiled, from a report, its CSV or its text pages: the same row whichever it was."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import Struct

from necropsy_parsers.ncu.metrics import TIME
from necropsy_parsers.ncu.records import Dims, Launch, NvtxRange
from necropsy_parsers.records import Anchor, Frame, Origin

from necropsy.evidence import Table
from necropsy.evidence._ncu_merge import merged
from necropsy.finding import Place
from necropsy.provenance.launches import is_compiled, is_tuning, is_warmup, place_of_launch

if TYPE_CHECKING:
    import pandas as pd

FORMATS: Final = ("ncu_report", "ncu_csv", "ncu_page")
SUPPLY: Final = "an Nsight Compute report (ncu --set full -o report python ...), or its --page raw --csv"
PROGRAM, TUNING, HELPER, WARMUP = "program", "tuning", "helper", "warm-up"
_PERCENT: Final = "pct_of_peak_sustained_elapsed"
_STALL: Final = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio$")
_FILL: Final = re.compile(r"FillFunctor<int>")
_TIMED: Final = 3  # fills of the cache between runs of one kernel from which on they are a benchmark


class NcuKernel(Struct, frozen=True):
    """One profiled launch. Metrics that were not collected are absent from `metrics`, and never zero."""

    anchor: Anchor
    origin: Origin
    seq: int
    attempt: int
    number: int
    nth: int
    kernel: str
    function: str
    ns: float | None
    grid: Dims | None
    block: Dims | None
    device: int | None
    device_name: str
    capability: tuple[int, int] | None
    process: int | None
    program: str
    host: str
    context: int | None
    stream: int | None
    role: str
    compiled: bool
    place: Place | None
    metrics: dict[str, float]
    sections: tuple[str, ...]
    ranges: tuple[NvtxRange, ...]
    stack: tuple[Frame, ...]
    source: Frame | None
    notices: tuple[str, ...]
    workload: str
    runs: int
    read: str

    def value(self, *names: str) -> float | None:
        """The first of these metrics that was collected; None if none was."""
        return next((self.metrics[n] for n in names if n in self.metrics), None)

    def pct(self, unit: str) -> float | None:
        """Throughput of a unit in percent of its peak over the kernel's time: `sm`, `gpu__compute_memory`, `lts`, ...

        `pct("gpu__compute_memory")` is what ncu calls memory throughput, `pct("gpu__dram")` that of device memory.
        """
        name = unit if "__" in unit else f"{unit}__"
        joined = f"{name}throughput" if name.endswith("__") else f"{name}_throughput"
        return self.value(f"{joined}.avg.{_PERCENT}")

    @property
    def sms(self) -> int | None:
        """Multiprocessors of the device, or of the part of it that the launch may use."""
        count = self.value("launch__sm_count", "device__attribute_multiprocessor_count")
        return None if count is None else int(count)

    @property
    def blocks(self) -> int | None:
        """Blocks of the grid."""
        if self.grid is not None:
            return self.grid[0] * self.grid[1] * self.grid[2]
        count = self.value("launch__grid_size")
        return None if count is None else int(count)

    @property
    def threads(self) -> int | None:
        """Threads of a block."""
        if self.block is not None:
            return self.block[0] * self.block[1] * self.block[2]
        count = self.value("launch__block_size")
        return None if count is None else int(count)

    @property
    def active(self) -> float | None:
        """Share of its time in which the average multiprocessor had work (0 to 1).

        Percentages of active cycles (of L1, say) tell of this share only.
        """
        busy, all_of = self.value("sm__cycles_active.avg"), self.value("gpc__cycles_elapsed.max")
        return min(1.0, busy / all_of) if busy is not None and all_of else None

    @property
    def stalls(self) -> dict[str, float]:
        """Cycles that a warp waited, for each reason, between two instructions (`long_scoreboard`, `barrier`, ...)."""
        return {m[1]: v for name, v in self.metrics.items() if (m := _STALL.match(name))}

    def has(self, *sections: str) -> bool:
        """Whether these sections were collected, as far as the input tells."""
        return set(sections) <= set(self.sections)


class NcuKernels(Table[NcuKernel]):
    """One row a launch, in the order of the inputs and of the launches in each."""

    name = "ncu_kernels"
    row = NcuKernel
    accepts = (Launch,)
    formats = FORMATS
    supply = SUPPLY
    columns: ClassVar[dict[str, str]] = {
        "anchor": "where it stands: input, and line in CSV and text",
        "origin": "who wrote it, where it stands in a job's log",
        "seq": "order of reading",
        "attempt": "number of the attempt in the log, from 0",
        "number": "ID in the report, from 0",
        "nth": "how many launches of the same kernel stand before it in its process",
        "kernel": "demangled name as the input prints it (reports and pages write templates differently)",
        "function": "name without namespaces, template and arguments: the same whatever was read",
        "ns": "time on the device, ns; under ncu's clock control and with cold caches unless told otherwise",
        "grid": "blocks in x, y, z",
        "block": "threads of a block in x, y, z",
        "device": "number of the GPU",
        "device_name": "as the driver calls it, empty in details and text pages",
        "capability": "compute capability (major, minor)",
        "process": "process id",
        "program": "program of the process",
        "host": "host as ncu names it",
        "context": "CUDA context",
        "stream": "CUDA stream",
        "role": "program; tuning (a tuner timed candidates), helper (a process that only tunes) or warm-up (its"
        " name, an NVTX range or a function around it says so): not the work that counts",
        "compiled": "whether generated code of torch.compile launched it, as its name or Python stack tells",
        "place": "line or function that the launch carries: capture mark, Python stack, or source of the kernel",
        "metrics": "name -> value in base units: ns, byte, byte/s, Hz, percent, counts; absent if not collected",
        "sections": "identifiers of the sections collected, as far as told; raw CSV tells them by their metrics",
        "ranges": "NVTX ranges open at the launch, the outermost first",
        "stack": "Python frames, the innermost last",
        "source": "file and first line of the kernel's own code, where compiled with line information",
        "notices": "what ncu warned of at this launch",
        "workload": "kernel, range, graph or cmdlist",
        "runs": "launches that a summary page folds into means, else 1",
        "read": "report, raw csv, details csv or text",
    }

    def __init__(self) -> None:
        super().__init__()
        self._launches: list[Launch] = []

    def add(self, record: Any) -> None:
        """Keep a launch until all are there."""
        self._launches.append(record)

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether a report was read; a job's log counts if a page stands in it."""
        return super().covered(formats) or bool(self.rows)

    def finish(self) -> None:
        """Tell launches of tuners from the program's own, and count those of each kernel."""
        self._launches = merged(self._launches)
        roles = _roles(self._launches)
        seen: Counter[tuple[str, int | None, str]] = Counter()
        for launch, role in zip(self._launches, roles, strict=True):
            key = (launch.anchor.input, launch.process, launch.kernel)
            self.rows.append(_row(launch, role, seen[key]))
            seen[key] += 1
        self._launches = []

    @property
    def own(self) -> list[NcuKernel]:
        """The program's own launches, without those of tuners, and of those that warm up."""
        return [row for row in self.rows if row.role == PROGRAM]

    @property
    def warming(self) -> list[NcuKernel]:
        """Launches of the program's own that warm up, as a range or function around them says."""
        return [row for row in self.rows if row.role == WARMUP]

    def wide(self) -> pd.DataFrame:
        """The rows with a column for every metric that any of them has."""
        import pandas as pd

        plain = self.frame().drop(columns=["metrics"])
        return pd.concat([plain, pd.DataFrame([r.metrics for r in self.rows], index=plain.index)], axis=1)


def _row(launch: Launch, role: str, nth: int) -> NcuKernel:
    major, _, minor = launch.capability.partition(".")
    known = major.isdecimal() and minor.isdecimal()
    return NcuKernel(
        launch.anchor, launch.origin, launch.seq, launch.attempt, launch.number, nth, launch.kernel, launch.function,
        launch.metrics.get(TIME), launch.grid, launch.block, launch.device,
        launch.attributes.get("device__attribute_display_name", ""), (int(major), int(minor)) if known else None,
        launch.process, launch.program, launch.host, launch.context, launch.stream, role,
        launch.function.startswith("triton_") or is_compiled(launch.stack), place_of_launch(launch), launch.metrics,
        launch.sections, launch.ranges, launch.stack, launch.source, launch.notices, launch.workload, launch.runs,
        launch.read,
    )  # fmt: skip


def _roles(launches: list[Launch]) -> list[str]:
    """Of each launch whose work it is: Python stacks tell, else the alternation of a benchmark."""
    roles = [TUNING if is_tuning(launch.stack) else PROGRAM for launch in launches]
    by_process: dict[tuple[str, int | None], list[int]] = {}
    for i, launch in enumerate(launches):
        by_process.setdefault((launch.anchor.input, launch.process), []).append(i)
    for mine in by_process.values():
        if not any(launches[i].stack for i in mine):
            for i in _benchmarked(launches, mine):
                roles[i] = TUNING
    own = {key for key, mine in by_process.items() if any(roles[i] == PROGRAM for i in mine)}
    for key, mine in by_process.items():
        if key not in own and any(other[0] == key[0] for other in own):
            for i in mine:
                roles[i] = HELPER
    return _without_warmup(launches, roles)


def _without_warmup(launches: list[Launch], roles: list[str]) -> list[str]:
    """The roles with launches that warm up told apart, in inputs that hold others."""
    warm = [role == PROGRAM and is_warmup(launch) for launch, role in zip(launches, roles, strict=True)]
    steady = {x.anchor.input for x, role, w in zip(launches, roles, warm, strict=True) if role == PROGRAM and not w}
    return [
        WARMUP if w and launch.anchor.input in steady else role
        for launch, role, w in zip(launches, roles, warm, strict=True)
    ]


def _benchmarked(launches: list[Launch], mine: list[int]) -> list[int]:
    """Launches between which the cache is flushed by filling a buffer, as `do_bench` of Triton and Inductor does.

    The run that begins with the first of three fills or more of one grid, with launches of one kernel between them.
    """
    found: list[int] = []
    run: list[int] = []
    fills = 0
    for i in [*mine, -1]:
        fill = i >= 0 and _FILL.search(launches[i].kernel) is not None
        other = {launches[j].function for j in run if not _FILL.search(launches[j].kernel)}
        goes_on = i >= 0 and bool(run) and (fill or launches[i].function in other or not other)
        if not goes_on:
            if fills >= _TIMED:
                found += run
            run, fills = [], 0
        if fill or run:
            run.append(i)
            fills += fill
    return found
