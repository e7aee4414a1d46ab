"""How well a launch uses what it moves: bytes of each sector of global memory, wavefronts of shared memory, TMA."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from necropsy.evidence.ncu_kernels import NcuKernel
    from necropsy.evidence.ncu_rules import NcuRule

SECTOR: Final = 32  # bytes
_SECTORS: Final = "memory_l2_theoretical_sectors_global"
_EXCESSIVE: Final = re.compile(r"excessive (?:sectors|wavefronts) \((\d+(?:[.,]\d+)?)% of the total")
_USED: Final = re.compile(r"only (\d+(?:[.,]\d+)?) of the 32 bytes transmitted per sector")
_MISSED: Final = re.compile(r"(\d+(?:[.,]\d+)?)% of sectors missed in L1TEX")
_TMA: Final = (
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
    "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
)


class Waste(Struct, frozen=True):
    """What of the sectors moved is for nothing.

    `excess` is the part (0 to 1) that better access would not move, `used` the bytes of a sector that are used (None
    where not told), `what` the worse side: `loads`, `stores` or `accesses`.
    """

    excess: float
    used: float | None
    what: str


def global_waste(row: NcuKernel, heard: Iterable[NcuRule]) -> Waste | None:
    """Of global memory; None where nothing tells. Metrics first, else NVIDIA's words."""
    used, what = _bytes_used(row)
    whole, ideal = row.value(_SECTORS), row.value(f"{_SECTORS}_ideal")
    if whole is not None and ideal is not None:
        excessive: float | None = whole - ideal
    else:  # printed in bytes, and beside values of instances in a wrong magnitude (2022.3)
        excessive = row.value(
            f"derived__{_SECTORS}_excessive", f"derived__{_SECTORS.replace('_theoretical', '')}_excessive"
        )
    hit = row.value("l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct")
    missed = 1 - hit / 100 if hit is not None and what == "loads" else 1.0
    if whole and excessive is not None:
        excess = max(0.0, excessive / whole)
        return Waste(excess if used is None else min(excess, _lost(used, missed)), used, what)
    if used is not None:
        return Waste(_lost(used, missed), used, what)
    return _told(heard)


def _lost(used: float, missed: float) -> float:
    """Part of what L1 fetches that is never used: of vector loads the other half of a sector is found in L1 later."""
    return max(0.0, 1 - used / SECTOR / missed) if missed > 0 else 0.0


def _bytes_used(row: NcuKernel) -> tuple[float | None, str]:
    """Bytes used of a sector by the worse of loads and stores; a side without accesses has 0 and is no side."""
    sides = {
        what: v for what, op in (("loads", "ld"), ("stores", "st"))
        if (v := row.value(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio"))
    }  # fmt: skip
    if not sides:
        return None, "accesses"
    worse = min(sides, key=lambda s: sides[s])
    return min(sides[worse], float(SECTOR)), worse


def _told(heard: Iterable[NcuRule]) -> Waste | None:
    excess: float | None = None
    used: float | None = None
    missed = 1.0
    for r in heard:
        if "wavefronts" not in r.message and (m := _EXCESSIVE.search(r.message)) is not None:
            excess = _number(m[1]) / 100
        if (m := _USED.search(r.message)) is not None:
            used = min(_number(m[1]), used or SECTOR)
            told = _MISSED.search(r.message)
            missed = min(missed, _number(told[1]) / 100 if told is not None else 1.0)
    if excess is None and used is None:
        return None
    lost = 1.0 if used is None else _lost(used, missed)
    return Waste(lost if excess is None else min(excess, lost), used, "accesses")


def shared_waste(row: NcuKernel, heard: Iterable[NcuRule]) -> float | None:
    """Part (0 to 1) of the wavefronts of shared memory that conflicts of banks add; None where nothing tells."""
    conflicts = row.value("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum")
    wavefronts = row.value("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum")
    if conflicts is not None and wavefronts is not None:
        return min(1.0, conflicts / wavefronts) if wavefronts else 0.0
    whole, ideal = row.value("memory_l1_wavefronts_shared"), row.value("memory_l1_wavefronts_shared_ideal")
    if whole is not None and ideal is not None:
        return max(0.0, 1 - ideal / whole) if whole else 0.0
    # "represent 20% of the overall N wavefronts for shared stores" tells of one kind of access only: nothing of all.
    told = [m for r in heard if "wavefronts" in r.message and (m := _EXCESSIVE.search(r.message)) is not None]
    return max((_number(m[1]) / 100 for m in told), default=None)


def bulk_share(row: NcuKernel) -> float:
    """Part (0 to 1) of the bytes from and to L2 that TMA moves: rules of scalar access see the rest only."""
    bulk = sum(row.value(name) or 0.0 for name in _TMA)
    scalar = SECTOR * sum(row.value(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum") or 0.0 for op in ("ld", "st"))
    return bulk / (bulk + scalar) if bulk else 0.0


def _number(text: str) -> float:
    return float(text.replace(",", "."))
