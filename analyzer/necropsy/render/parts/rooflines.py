"""Profiled kernels under the roofs of their GPU: what a roofline plot shows, as data.

A roof is the most of something a second: bytes of device memory, whose limit on operations rises with the operations
that are done with each byte, and operations of a kind of arithmetic. A dot is one row of the report's table of kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from necropsy.report import KernelSummary, RooflinePosition

KINDS: Final = {
    "bfloat16": "BF16", "half": "FP16", "tf32": "TF32", "float": "FP32", "double": "FP64", "float8": "FP8",
    "float6": "FP6", "float4": "FP4", "int8": "INT8", "int4": "INT4", "int1": "INT1",
    "half on ordinary cores": "FP16 without tensor cores",
}  # fmt: skip
COLLECT: Final = "ncu --set full (or --section SpeedOfLight --section SpeedOfLight_RooflineChart"
COLLECT_TENSOR: Final = " --section SpeedOfLight_HierarchicalTensorRooflineChart --section MemoryWorkloadAnalysis)"
CLOSE: Final = 1.25  # how much higher a roof may be whose label would lie on the other's
MOST: Final = 12  # dots that are named
_PREFIXES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


class Roof(Struct, frozen=True):
    """A limit: `label` in words, `most` a second, `kind` of arithmetic (KINDS), "" for bytes of device memory."""

    label: str
    most: float
    kind: str = ""


class Dot(Struct, frozen=True):
    """A kernel: operations a byte, operations a second, part of the profiled time (None if unknown), and its name.

    `reached` is the part (0 to 1) of what the roofs allow there, None where they are not known.
    """

    name: str
    kind: str
    intensity: float
    flops: float
    ns: int
    share: float | None
    reached: float | None


class Panel(Struct, frozen=True):
    """One GPU: its roofs, its dots with the most time first, and what is not shown, in words."""

    title: str
    memory: Roof | None
    compute: tuple[Roof, ...]
    dots: tuple[Dot, ...]
    note: str


def panels(kernels: Sequence[KernelSummary]) -> list[Panel]:
    """A panel an input and GPU that has kernels whose operations and bytes were counted."""
    by_gpu: dict[tuple[str, str], list[KernelSummary]] = {}
    for row in kernels:
        device = row.roofline.device if row.roofline is not None else ""
        by_gpu.setdefault((row.input, device), []).append(row)
    found = []
    for (name, device), rows in by_gpu.items():
        shown = [(r, r.roofline) for r in rows if r.roofline is not None and r.roofline.flops and r.roofline.bytes]
        if shown:
            every = rows if not device else rows + by_gpu.get((name, ""), [])
            found.append(_panel(device, shown, every))
    return found


def missing(kernels: Sequence[KernelSummary]) -> str:
    """Why there is no plot, and what to do."""
    if not kernels:
        return "no roofline: it needs kernels that Nsight Compute profiled, and the inputs hold none."
    if any(k.roofline is not None for k in kernels):
        return "no roofline: none of the profiled kernels does floating-point arithmetic."
    return f"no roofline: operations and bytes were not counted; collect them with {COLLECT}{COLLECT_TENSOR}."


def _panel(device: str, shown: list[tuple[KernelSummary, RooflinePosition]], every: Iterable[KernelSummary]) -> Panel:
    positions = [at for _, at in shown]
    bandwidth = max((at for at in positions if at.bandwidth), key=lambda at: at.bandwidth or 0.0, default=None)
    memory = None
    if bandwidth is not None and bandwidth.bandwidth:
        memory = Roof(f"device memory {amount(bandwidth.bandwidth, 'B/s')}", bandwidth.bandwidth)
    roofs: dict[str, RooflinePosition] = {}
    for at in positions:
        if at.peak and at.peak > (roofs[at.kind].peak or 0.0 if at.kind in roofs else 0.0):
            roofs[at.kind] = at
    compute = tuple(
        Roof(f"{KINDS.get(kind, kind)} {amount(at.peak or 0.0, unit(kind))}", at.peak or 0.0, kind)
        for kind, at in sorted(roofs.items(), key=lambda item: -(item[1].peak or 0.0))
    )
    dots = tuple(_dot(row, at) for row, at in sorted(shown, key=lambda pair: -pair[0].ns))
    told = [at.peak_by for at in roofs.values()] + ([bandwidth.bandwidth_by] if bandwidth is not None else [])
    return Panel(_title(device, told), memory, compute, dots, _note(every))


def alike(roofs: Sequence[Roof]) -> list[list[Roof]]:
    """Roofs (the highest first) by height: those that lie so close that one label must do are together."""
    found: list[list[Roof]] = []
    for roof in roofs:
        if found and found[-1][-1].most <= roof.most * CLOSE:
            found[-1].append(roof)
        else:
            found.append([roof])
    return found


def _dot(row: KernelSummary, at: RooflinePosition) -> Dot:
    place = f"{row.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{row.line} " if row.file and row.line else ""
    roofs = [at.bandwidth * at.intensity if at.bandwidth else None, at.peak]
    known = [roof for roof in roofs if roof]
    reached = at.flops / min(known) if len(known) == len(roofs) else None
    return Dot(f"{place}{row.kernel}", at.kind, at.intensity, at.flops, row.ns, row.share, reached)


def _title(device: str, told: Iterable[str]) -> str:
    words = {
        frozenset(): "limits unknown",
        frozenset({"report"}): "limits from the report, at the clocks of the profile",
        frozenset({"table"}): "limits from its datasheet",
    }
    return f"{device or 'GPU'}: {words.get(frozenset(told) - {''}, 'limits from the report, else from its datasheet')}"


def _note(every: Iterable[KernelSummary]) -> str:
    """How many kernels have no place in the plot, for which reason."""
    rows = list(every)
    idle = [r for r in rows if r.roofline is not None and not r.roofline.flops]
    unknown = [r for r in rows if r.roofline is None]
    told = [
        f"{len(some)} kernel{'s' * (len(some) > 1)}{_part(some)} {why}"
        for some, why in ((idle, "without floating-point arithmetic"), (unknown, "whose operations were not counted"))
        if some
    ]
    return f"Not shown: {' and '.join(told)}." if told else ""


def _part(rows: list[KernelSummary]) -> str:
    shares = [r.share for r in rows if r.share is not None]
    return f" ({sum(shares):.0%} of the time)" if shares else ""


def unit(kind: str) -> str:
    """What operations of a kind are counted in: those on integers are no floating-point ones."""
    return "OP/s" if kind.startswith("int") else "FLOP/s"


def amount(value: float, of: str) -> str:
    """`4.05 TB/s`: three digits and a prefix of a thousand."""
    scale, prefix = next(((s, p) for s, p in _PREFIXES if value >= s), (1.0, ""))
    return f"{value / scale:.3g} {prefix}{of}"
