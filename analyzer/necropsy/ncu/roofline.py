"""Measured operations and bytes of a launch against what its device could do, at its own clocks where the report says.

Peaks come from the report (operations a cycle times cycles a second, bytes a cycle of memory times its clock), else
from `necropsy.hardware` by the device's name. A report's are lower than a datasheet's: clocks fall under load, and
ncu fixes them at the base clock unless told `--clock-control none`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy.hardware import Peaks, peaks_named

if TYPE_CHECKING:
    from necropsy.evidence.ncu_kernels import NcuKernel

_SM_HZ: Final = ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second",
                 "gpc__cycles_elapsed.avg.per_second")  # fmt: skip
_TENSOR: Final = re.compile(
    r"sm__ops_path_tensor_(?:op_(?P<op>\w+?)_)?src_(?P<src>[a-z]+\d+)(?:_\w+?)??"
    r"(?:_sparsity_(?P<sparse>on|off))?\.sum\.(?P<what>per_cycle_elapsed|peak_sustained)$"
)
_SOURCES: Final = {
    "bf16": "bfloat16", "fp16": "half", "tf32": "tf32", "int8": "int8", "fp8": "float8", "fp64": "double",
    "fp4": "float4", "fp6": "float6", "int4": "int4", "int1": "int1",
}  # fmt: skip
# Lanes of ordinary cores: kind, letter of its instructions, operations of a fused one.
_LANES: Final = (("float", "f", 2), ("double", "d", 2), ("half on ordinary cores", "h", 4))
LEAST: Final = 1.0  # percent of the memory's peak from which its bandwidth can be told from what was reached


class Roofline(Struct, frozen=True):
    """What a launch reached and could reach; all per second, None where not collected.

    `work` are operations by kind (`bfloat16`, `tf32`, `float`, ...), of tensor cores and of others, empty for none,
    None where they were not counted (`--section SpeedOfLight_RooflineChart` and its hierarchical kin do); `kind` is
    the one with most, `peak` its limit; `bytes` and `bandwidth` are of device memory. `peak_by` and `bandwidth_by` say
    where the limits come from: `report`, `table` or "".
    """

    work: dict[str, float] | None
    kind: str
    peak: float | None
    bytes: float | None
    bandwidth: float | None
    peak_by: str
    bandwidth_by: str

    @property
    def reached(self) -> float:
        """Operations of the main kind per second."""
        return (self.work or {}).get(self.kind, 0.0)

    @property
    def intensity(self) -> float | None:
        """Operations of the main kind per byte of device memory; None without either."""
        return self.reached / self.bytes if self.bytes and self.reached else None

    @property
    def ridge(self) -> float | None:
        """Operations per byte from which arithmetic, not memory, is the limit."""
        return self.peak / self.bandwidth if self.peak and self.bandwidth else None

    @property
    def share(self) -> float | None:
        """What was reached of what the roof allows at this intensity (0 to 1); None where the roof is not known."""
        if self.work is None or self.bandwidth is None or self.bytes is None or (self.work and not self.peak):
            return None
        of_memory = self.bytes / self.bandwidth
        return max(of_memory, self.reached / self.peak) if self.peak else of_memory


def roofline(row: NcuKernel) -> Roofline:
    """The position of a launch."""
    hz = row.value(*_SM_HZ)
    work = _work(row, hz)
    kind = max(work, key=lambda k: work[k], default="") if work else ""
    table = table_peaks(row)
    peak = _peak(row, kind, hz) if kind and hz else None
    peak_by = "report" if peak else ""
    if peak is None and table is not None and kind:
        peak = table.flops(kind) or None
        peak_by = "table" if peak else ""
    bandwidth, bandwidth_by = _bandwidth(row, table)
    moved = row.value("dram__bytes.sum.per_second")
    return Roofline(work, kind, peak, moved, bandwidth, peak_by, bandwidth_by)


def table_peaks(row: NcuKernel) -> Peaks | None:
    """Datasheet peaks by the device's name; None in pages that do not print it."""
    memory = row.value("device__attribute_total_memory")
    units = row.value("device__attribute_multiprocessor_count")
    whole = None if memory is None else int(memory) + (4 << 30)  # what the driver keeps for itself and ECC
    return peaks_named(row.device_name, memory=whole, units=None if units is None else int(units))


def _bandwidth(row: NcuKernel, table: Peaks | None) -> tuple[float | None, str]:
    """Bytes a second of device memory at their peak, and who says so."""
    width, hz = row.value("dram__bytes.sum.peak_sustained"), row.value("dram__cycles_elapsed.avg.per_second")
    if width and hz:
        return width * hz, "report"
    moved, percent = row.value("dram__bytes.sum.per_second"), row.pct("gpu__dram")
    if moved and percent and percent >= LEAST:
        return moved / percent * 100, "report"
    return (table.bandwidth * 1e9, "table") if table is not None else (None, "")


def _work(row: NcuKernel, hz: float | None) -> dict[str, float] | None:
    """Operations a second by kind; kinds that ran none are left out, None where none was counted."""
    if not hz:
        return None
    found: dict[str, float] = {}
    for kind, letter, fused in _LANES:
        prefix = f"smsp__sass_thread_inst_executed_op_{letter}"
        parts = [row.value(f"{prefix}{op}_pred_on.sum.per_cycle_elapsed") for op in ("add", "mul", "fma")]
        if any(p is not None for p in parts):
            add, mul, fma = (p or 0.0 for p in parts)
            if letter == "h" and not add + mul:
                fma = 0.0  # compilers load constants with HFMA2: alone it is no arithmetic
            pair = fused / 2  # half precision computes two numbers at once
            found[kind] = hz * (pair * (add + mul) + fused * fma)
    for kind, a_cycle in _tensor(row, "per_cycle_elapsed").items():
        found[kind] = found.get(kind, 0.0) + hz * a_cycle
    return {kind: value for kind, value in found.items() if value > 0} if found else None


def _tensor(row: NcuKernel, what: str) -> dict[str, float]:
    """Operations of tensor cores a cycle: counted once, though told for the source and for each instruction."""
    whole: dict[str, float] = {}
    parts: dict[str, float] = {}
    for name, value in row.metrics.items():
        m = _TENSOR.match(name) if name.startswith("sm__ops_path_tensor") else None
        if m is None or m["what"] != what or (what == "peak_sustained" and m["sparse"] == "on"):
            continue
        kind = _SOURCES.get(m["src"], m["src"])
        into = parts if m["op"] else whole
        both = max if what == "peak_sustained" else sum
        into[kind] = both((into.get(kind, 0.0), value))
    return whole | parts  # told for the source, its peak is that with sparsity


def _peak(row: NcuKernel, kind: str, hz: float) -> float | None:
    lane = {"float": ("f", 2), "double": ("d", 2), "half on ordinary cores": ("h", 4)}.get(kind)
    if lane is not None:
        lanes = row.value(f"sm__sass_thread_inst_executed_op_{lane[0]}fma_pred_on.sum.peak_sustained")
        return None if lanes is None else lanes * lane[1] * hz
    return (_tensor(row, "peak_sustained").get(kind) or 0.0) * hz or None
