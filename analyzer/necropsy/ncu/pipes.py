"""How busy the pipes of a multiprocessor are: the busiest, and those that are busy with few instructions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from necropsy.evidence.ncu_kernels import NcuKernel
    from necropsy.evidence.ncu_rules import NcuRule

_CYCLES: Final = "sm__pipe_{}_cycles_active.avg.pct_of_peak_sustained_active"
_ISSUED: Final = "sm__inst_executed_pipe_{}.avg.pct_of_peak_sustained_active"
# "FMA is the highest-utilized pipeline (76.9%)", "FP64 (DP) is ...": pages print no metrics of pipes.
_TOLD: Final = re.compile(
    r"^(?P<name>[A-Za-z]\w*)(?: \([^)]*\))? is the highest-utilized pipeline \((?P<percent>[\d.,]+)%\)"
)


class Words(Struct, frozen=True):
    """A pipe's name on pages, what it does, and how to need less of it."""

    name: str
    does: str
    fix: str


PIPES: Final = {
    "alu": Words("ALU", "integers, comparisons and logic", "Compute fewer indices; divide by constants"),
    "fma": Words("FMA", "FP32 arithmetic and integer products", "Use 16-bit pairs or tensor cores"),
    "fp16": Words("FP16", "16-bit arithmetic on ordinary cores", "Use tensor cores"),
    "fp64": Words("FP64", "double precision", "Use single precision where numbers allow it"),
    "xu": Words("XU", "special functions and conversions", "Use cheaper functions (`__expf`), convert less"),
    "lsu": Words("LSU", "memory instructions", "Access memory in fewer, wider pieces (`float4`)"),
    "tex": Words("TEX", "textures", "Read through plain loads"),
    "adu": Words("ADU", "addresses and branches", "Use fewer barriers and indirect branches"),
    "cbu": Words("CBU", "branches and barriers", "Branch less in the inner loop"),
}  # fmt: skip


class Pipe(Struct, frozen=True):
    """A pipe (key of `PIPES`, or another name in lower case) and percent of its peak in active cycles."""

    name: str
    percent: float


class SlowPipe(Struct, frozen=True):
    """A pipe that is busy (`percent`) with few instructions (`issued`, percent of its issue rate)."""

    name: str
    percent: float
    issued: float


def busiest(row: NcuKernel, heard: Iterable[NcuRule]) -> Pipe | None:
    """The busiest pipe; None where nothing tells."""
    known = {name: v for name in PIPES if (v := row.value(_CYCLES.format(name), _ISSUED.format(name))) is not None}
    if known:
        name = max(known, key=lambda n: known[n])
        return Pipe(name, known[name])
    for r in heard:
        if (m := _TOLD.match(r.message)) is not None:
            return Pipe(m["name"].lower(), float(m["percent"].replace(",", ".")))
    return None


def slow(row: NcuKernel, busy: float, issued: float, apart: float) -> SlowPipe | None:
    """A pipe at its limit with few instructions, since each takes it many cycles."""
    for name in PIPES:
        cycles, instructions = row.value(_CYCLES.format(name)), row.value(_ISSUED.format(name))
        if cycles is None or instructions is None:
            continue
        if cycles >= busy and instructions < issued and cycles - instructions > apart:
            return SlowPipe(name, cycles, instructions)
    return None
