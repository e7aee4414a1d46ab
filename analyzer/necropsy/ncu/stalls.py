"""What warps wait for: reasons in plain words, their share of the cycles between two instructions, and what helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy.finding import Fix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from necropsy.evidence.ncu_kernels import NcuKernel
    from necropsy.evidence.ncu_rules import NcuRule

LATENCY: Final = (
    "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__average_warps_active_per_issue_active.ratio",
    "smsp__average_warp_latency_per_inst_executed.ratio",
)
_SHARE: Final = re.compile(r"represents about (\d+(?:[.,]\d+)?) ?%")


class Reason(Struct, frozen=True):
    """A reason: how it is said, what NVIDIA's message says (lower case), and what helps in a kernel of one's own."""

    words: str
    told: str
    fix: str


REASONS: Final = {
    "long_scoreboard": Reason(
        "data from memory beyond the multiprocessor", "scoreboard dependency on a l1tex",
        "Start loads earlier and more at once (prefetch, unroll, `cp.async`), and keep what is read again on the chip"),
    "short_scoreboard": Reason(
        "shared memory or special functions", "scoreboard dependency on a mio",
        "Read shared memory in wider pieces and keep values in registers; fewer special functions in the inner loop"),
    "barrier": Reason(
        "other warps of their block at a barrier", "sibling warps at a cta barrier",
        "Even out the work between `__syncthreads()`, use fewer barriers, or smaller blocks"),
    "membar": Reason("a memory fence", "memory barrier", "Use fewer or narrower fences (block instead of device)"),
    "mio_throttle": Reason(
        "the queue of shared memory and special instructions", "mio (memory input/output) instruction queue",
        "Fewer, wider accesses to shared memory; spread special functions"),
    "lg_throttle": Reason(
        "the queue of global and local memory", "local and global (lg) memory operations",
        "Fewer, wider loads (`float4`), and no register spills to local memory"),
    "tex_throttle": Reason("the queue of texture operations", "texture operations", "Fewer, wider texture fetches"),
    "math_pipe_throttle": Reason(
        "a busy arithmetic pipe", "execution pipe to be available",
        "Spread the work over pipes: fewer instructions of the busiest kind"),
    "wait": Reason(
        "results of fixed latency", "fixed latency execution dependency",
        "Give each thread independent work (unroll, several elements), or more warps"),
    "imc_miss": Reason("constants that are not cached", "immediate constant cache", "Index constants alike in a warp"),
    "no_instruction": Reason(
        "instructions to be fetched", "instruction cache miss", "Make the kernel's code shorter: less unrolling"),
    "drain": Reason(
        "their last stores at exit", "memory stores", "Coalesce the last stores, or let each thread do more before"),
    "branch_resolving": Reason("branches", "branch target to be computed", "Fewer branches in the inner loop"),
    "dispatch_stall": Reason("the dispatcher", "dispatcher holds back", "Look for conflicts in the inner loop"),
    "sleeping": Reason("their own sleep", "all threads in the warp are in the blocked, yielded, or sleep state",
                       "Sleep shorter"),
    "gmma": Reason("a product of the tensor cores", "gmma", "Keep several products in flight (deeper pipeline)"),
    "misc": Reason("a rare reason", "miscellaneous", "See the samples by source line"),
}  # fmt: skip


class Stall(Struct, frozen=True):
    """A reason with the part of the cycles between two instructions (0 to 1) that warps wait for it."""

    reason: str
    share: float


def dominant(row: NcuKernel, heard: Iterable[NcuRule]) -> Stall | None:
    """The reason that takes most cycles; ready warps that were not chosen wait for nothing. None where not told."""
    waits = {r: v for r, v in row.stalls.items() if r in REASONS}
    whole = row.value(*LATENCY) or sum(row.stalls.values())
    if waits and whole:
        reason = max(waits, key=lambda r: waits[r])
        return Stall(reason, min(1.0, waits[reason] / whole))
    return max((s for r in heard if (s := _told(r.message)) is not None), key=lambda s: s.share, default=None)


def _told(message: str) -> Stall | None:
    """What NVIDIA's message says, where the metrics themselves were not printed."""
    m, low = _SHARE.search(message), message.lower()
    reason = next((name for name, r in REASONS.items() if r.told in low), "")
    return Stall(reason, float(m[1].replace(",", ".")) / 100) if m is not None and reason else None


def against(stall: Stall) -> Fix:
    """What helps in a kernel whose code one can change."""
    return Fix(REASONS[stall.reason].fix, "code")
