"""Puts a launch together from what lines of CSV or text say of it, one metric and message at a time."""

from __future__ import annotations

import re
from typing import Final

from necropsy_parsers.ncu.metrics import by_identity, canonical, named, section, wanted
from necropsy_parsers.ncu.records import Dims, Launch, NvtxRange, RuleResult
from necropsy_parsers.ncu.units import Numbers, factor, is_rate
from necropsy_parsers.records import Anchor, Frame

_DIMS: Final = re.compile(r"\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?$")
_ARGUMENTS: Final = re.compile(r"[A-Za-z_~][\w~]*(?=\s*(?:<|\(|$))")

# Anonymous namespaces; summaries of 2025 print them without the bracket that opens.
_MANGLED: Final = re.compile(r"_Z(?P<nested>N?)(?=\d)")
_LENGTH: Final = re.compile(r"[1-9]\d{0,3}")
_UNNAMED: Final = re.compile(r"<?\bunnamed>::|\(anonymous namespace\)::")


def dims(text: str) -> Dims | None:
    """`(128, 1, 1)` or `128,1,1`."""
    m = _DIMS.match(text.strip())
    return (int(m[1]), int(m[2]), int(m[3])) if m else None


def function_of(kernel: str) -> str:
    """The function's own name: `Kernel2` of `void cutlass::Kernel2<cutlass_80_simt_sgemm>(T1::Params)`."""
    depth, plain = 0, []
    kernel = _UNNAMED.sub("", kernel)
    for char in kernel:  # what stands in templates and arguments may be functions, too
        if char in "<(" and depth >= 0:
            depth += 1
        if depth == 0:
            plain.append(char)
        if char in ">)":
            depth -= 1
            if depth == 0 and char == ")" and "".join(plain).strip():
                plain.append(" ")
    words = re.split(r"::|\s+", "".join(plain).strip())
    names = [w for w in words if re.fullmatch(r"[A-Za-z_~$][\w~$.]*", w)]
    return names[-1] if names else kernel.strip()


def demangled(name: str) -> str:
    """`at::native::add_kernel` of `_ZN2at6native10add_kernelEPf` (`--print-kernel-base mangled`), without arguments."""
    if (m := _MANGLED.match(name)) is None:
        return name
    parts, at = [], m.end()
    while (length := _LENGTH.match(name, at)) is not None:
        part = name[length.end() : length.end() + int(length[0])]
        at = length.end() + int(length[0])
        parts.append("(anonymous namespace)" if part.startswith("_GLOBAL__N_") else part)
        if not m["nested"]:
            break
    return "::".join(parts) or name


class Draft:
    """A launch whose lines are being read."""

    def __init__(self, number: int, kernel: str, anchor: Anchor, read: str) -> None:
        self.number = number
        self.kernel = kernel
        self.anchor = anchor
        self.read = read
        self.process: int | None = None
        self.program = ""
        self.host = ""
        self.context: int | None = None
        self.stream: int | None = None
        self.device: int | None = None
        self.capability = ""
        self.grid: Dims | None = None
        self.block: Dims | None = None
        self.runs = 1
        self.values: list[tuple[str, str, str]] = []  # name, unit, value as printed
        self.attributes: dict[str, str] = {}
        self.sections: dict[str, None] = {}
        self.rules: list[RuleResult] = []
        self.ranges: list[NvtxRange] = []
        self.stack: list[Frame] = []
        self.notices: list[str] = []

    def metric(self, label: str, unit: str, value: str) -> None:
        """A row of a table: a metric's name or label, its unit and its value, as printed."""
        name = named(label, is_rate(unit))
        if name:
            self.values.append((name, unit, value))

    def raw(self, name: str, unit: str, value: str) -> None:
        """A column of the raw page."""
        if by_identity(name):
            self.attributes[name] = value
        elif wanted(name):
            self.values.append((name, unit, value))

    def in_section(self, name: str) -> str:
        """Note that a section was collected; its identifier."""
        known = section(name)
        if known:
            self.sections[known] = None
        return known

    def launch(self, numbers: Numbers, seq: int) -> Launch:
        """The launch, with numbers read as that input's locale writes them."""
        metrics: dict[str, float] = {}
        for name, unit, text in self.values:
            value = numbers.read(text)
            if value is not None:
                metrics.setdefault(name, value * factor(unit))
        found = canonical(metrics)
        kernel = self._unnamed()
        return Launch(
            self.anchor,
            self.number,
            kernel,
            function_of(kernel),
            process=self.process,
            program=self.program,
            host=self.host,
            context=self.context,
            stream=self.stream,
            device=self.device,
            capability=self.capability or _capability(found),
            grid=self.grid or _of(found, "grid"),
            block=self.block or _of(found, "block"),
            metrics=found,
            attributes=dict(self.attributes),
            sections=tuple(sorted(self.sections)) or told_by(found),
            rules=tuple(self.rules),
            ranges=tuple(self.ranges),
            stack=tuple(self.stack),
            notices=tuple(self.notices),
            workload="kernel" if self.grid or "launch__grid_size" in found else _workload(kernel),
            runs=self.runs,
            read=self.read,
            seq=seq,
        )

    def _unnamed(self) -> str:
        """The kernel's name without the range that `--print-nvtx-rename kernel` puts before it: `step 3/add(int)`."""
        names = [r.name for r in self.ranges if r.name and self.kernel.startswith(f"{r.name}/")]
        return demangled(self.kernel[len(max(names, key=len)) + 1 :] if names else self.kernel)


def _capability(metrics: dict[str, float]) -> str:
    major, minor = (metrics.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor"))
    return "" if major is None or minor is None else f"{int(major)}.{int(minor)}"


def _of(metrics: dict[str, float], what: str) -> Dims | None:
    found = [metrics.get(f"launch__{what}_dim_{axis}") for axis in "xyz"]
    x, y, z = found
    return None if x is None or y is None or z is None else (int(x), int(y), int(z))


def _workload(kernel: str) -> str:
    return "range" if kernel.strip().lower() in ("range", "graph", "cmdlist") else "kernel"


# A metric that only one section collects -> that section: of raw pages, which name no sections.
_TELLS: Final = {
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "SpeedOfLight",
    "launch__waves_per_multiprocessor": "LaunchStats",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "Occupancy",
    "smsp__issue_active.avg.per_cycle_active": "SchedulerStats",
    "smsp__average_warp_latency_per_inst_issued.ratio": "WarpStateStats",
    "sm__inst_executed.avg.per_cycle_elapsed": "ComputeWorkloadAnalysis",
    "lts__t_sector_hit_rate.pct": "MemoryWorkloadAnalysis",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "MemoryWorkloadAnalysis_Tables",
    "smsp__inst_issued.sum": "InstructionStats",
    "derived__smsp__inst_executed_op_branch_pct": "SourceCounters",
    "lts__cycles_active.max": "WorkloadDistribution",
}


def told_by(metrics: dict[str, float]) -> tuple[str, ...]:
    """The sections that the metrics of a raw page can only come from."""
    return tuple(sorted({name for metric, name in _TELLS.items() if metric in metrics}))
