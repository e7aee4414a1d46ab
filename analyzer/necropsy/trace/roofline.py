"""Matrix products and convolutions against what the device can do, and on which of its units they run."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.finding import Place
from necropsy.trace import kernelnames
from necropsy.trace.devices import Peaks, capability, peaks_of
from necropsy.trace.opwork import OpWork, opwork_of
from necropsy.trace.profile import Profile, Site
from necropsy.trace.shapes import PRODUCTS, SIXTEEN_BIT, Work

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

WORTH: Final = 20_000  # ns; a shorter call is bound by its launch and by filling the device, whatever its kernel
FULL: Final = 10_000  # ns at the device's limit; less work than that does not fill a large device
MISALIGNED: Final = 8  # elements of 16 bits: tensor kernels load 16 bytes at a time


class Class(Struct, frozen=True):
    """Calls of one family and arithmetic from one function of the user's.

    `ns` on the device, `least` the ns that the device's peaks allow, `flops` of all;
    `largest` the work that took longest, `bad_size` a dimension that no wide load fits (0: none),
    `steps` in how many judged steps, `rows` the kernels.
    """

    place: Place | None
    family: str
    kind: str
    ns: int
    least: float
    flops: float
    calls: int
    largest: Work
    bad_size: int
    steps: int
    kernels: tuple[str, ...]
    rows: Rows

    @property
    def efficiency(self) -> float:
        """Part of the device's limit that was reached; above 1 the limit is wrong."""
        return self.least / self.ns if self.ns else 0.0


class Engines(Struct, frozen=True):
    """For each operator, ns of its kernels by unit: `tensor` (of which `tf32`), `ordinary`; `wide`: loads are wide."""

    tensor: Rows
    tf32: Rows
    ordinary: Rows
    narrow: Rows
    all: Rows


def peaks_for(p: Profile) -> Peaks | None:
    """Peaks of the trace's device; None where it has several kinds."""
    devices = p.trace.meta.devices
    found = {peaks_of(d) for d in devices}
    return found.pop() if len(found) == 1 else None


def cuda_capability(p: Profile) -> tuple[int, int]:
    """Compute capability of the trace's devices; (0, 0) if they are not NVIDIA's or differ."""
    found = {capability(d) for d in p.trace.meta.devices}
    return found.pop() if len(found) == 1 else (0, 0)


def engines(w: OpWork) -> Engines:
    """On which units each operator's products and convolutions ran."""
    name = kernelnames
    tensor = w.named(lambda n: name.unit(n) == name.TENSOR)
    tf32 = w.named(name.is_tf32)
    ordinary = w.named(lambda n: name.unit(n) == name.ORDINARY)
    narrow = w.named(lambda n: (name.alignment(n) or MISALIGNED) < MISALIGNED)
    math = w.named(lambda n: not (name.is_layout(n) or name.is_elementwise(n)))
    return Engines(w.summed(tensor), w.summed(tf32), w.summed(ordinary), w.summed(narrow), w.summed(math))


def classes(p: Profile) -> list[Class]:
    """Calls long enough to be judged, by function, family and arithmetic; most ns first."""
    peaks, w = peaks_for(p), opwork_of(p)
    rows, works, at = w.works
    if peaks is None or not len(rows):
        return []
    e = engines(w)
    # FP32 that ran as TF32 is held against TF32; half precision on ordinary cores is KRN018's.
    kinds = np.array([k.kind for k in works])[at]
    single = kinds == "float"
    known = np.where(single, (e.tf32[rows] > 0) | (e.ordinary[rows] > 0), e.ordinary[rows] == 0)
    kinds = np.where(single & (e.tf32[rows] >= e.ordinary[rows]), "tf32", kinds)
    flops = np.array([k.flops for k in works])[at]
    moved = np.array([k.bytes for k in works])[at]
    peak = np.array([peaks.flops(str(k)) for k in kinds])
    ns = e.all[rows]
    judged = known & (peak > 0) & (ns >= WORTH)
    least = 1e9 * np.maximum(flops / np.maximum(peak, 1.0), moved / (1e9 * peaks.bandwidth))
    judged &= least >= FULL
    rows, at, kinds, ns = rows[judged], at[judged], kinds[judged], ns[judged]
    flops, least = flops[judged], least[judged]
    families = np.array([k.family for k in works])[at] if len(rows) else np.empty(0, np.str_)
    frames, times = p.rank.user_frame_of_ops(rows), p.rank.times_of_ops(rows)
    steps = p.steps.of(p.rank.ops["start"][rows])
    found: list[Class] = []
    for family in np.unique(families):
        for kind in np.unique(kinds[families == family]):
            group = np.flatnonzero((families == family) & (kinds == kind))
            if float(least[group].sum()) > 1.1 * float(ns[group].sum()):
                continue  # faster than the device can be: its peaks are wrong, and so would be every judgement
            for site in p.sites(frames[group], group, ns[group], times[group]):
                found.append(_class(site, works, at, ns, least, flops, steps, str(family), str(kind), w, rows, e))
    return sorted(found, key=lambda c: -c.ns)


def _class(
    site: Site, works: list[Work], at: Rows, ns: Rows, least: NDArray[np.float64], flops: NDArray[np.float64],
    steps: Rows, family: str, kind: str, w: OpWork, rows: Rows, e: Engines,
) -> Class:  # fmt: skip
    mine = site.rows
    by_work = np.bincount(at[mine], weights=ns[mine], minlength=len(works))
    largest = works[int(np.argmax(by_work))]
    bad = 0
    if kind in SIXTEEN_BIT and 2 * int(e.narrow[rows[mine]].sum()) >= site.ns:
        odd = [s for s in largest.sizes if s % MISALIGNED]
        bad = max(odd, default=0)
    launched = np.isin(w.op, rows[mine])
    top = w.top_names(launched)
    return Class(
        site.blameless().place, family, kind, site.ns, float(least[mine].sum()), float(flops[mine].sum()), len(mine),
        largest, bad, len(np.unique(steps[mine])), tuple(top), w.rows[launched],
    )  # fmt: skip


class Misfit(Struct, frozen=True):
    """Products or convolutions on ordinary cores: from where, how long, and how long the same ran on tensor cores."""

    sites: list[Site]
    ns: int
    calls: int
    tensor: int
    kernels: tuple[str, ...]


def on_ordinary_cores(p: Profile, *, sixteen_bit: bool, family: str) -> Misfit | None:
    """What ran on ordinary cores in FP32 (or in 16 bits), of one family; None for nothing.

    Calls that the memory limits anyway, and short ones, do not count.
    """
    w, r = opwork_of(p), p.rank
    ordinary = w.named(lambda n: kernelnames.unit(n) == kernelnames.ORDINARY)
    mine = ordinary & _of_family(w, family) & _of_type(p, w, sixteen_bit) & (w.ns >= WORTH) & ~_memory_bound(p, w)
    if not mine.any():
        return None
    fast = w.named(lambda n: kernelnames.unit(n) == kernelnames.TENSOR if sixteen_bit else kernelnames.is_tf32(n))
    fast &= _of_family(w, family)
    sites = p.work_sites(r.kernels, _mask(len(r.kernels), w.rows[mine]))
    names = p.top_names(r.kernels, w.rows[mine])
    return Misfit(sites, int(w.ns[mine].sum()), int(mine.sum()), int(w.ns[fast].sum()), tuple(names))


class Double(Struct, frozen=True):
    """Products and convolutions in FP64: callers, ns, calls, ns of all products and convolutions, kernels' names."""

    sites: list[Site]
    ns: int
    calls: int
    all: int
    kernels: tuple[str, ...]


def in_double(p: Profile) -> Double | None:
    """What of the products and convolutions ran in FP64; None for nothing."""
    w, r = opwork_of(p), p.rank
    products = _of_operators(w)
    mine = w.named(kernelnames.is_double) & (products | (w.op < 0))
    if not mine.any():
        return None
    sites = p.work_sites(r.kernels, _mask(len(r.kernels), w.rows[mine]))
    return Double(
        sites, int(w.ns[mine].sum()), int(mine.sum()), int(w.ns[products | mine].sum()), tuple(w.top_names(mine))
    )


def _of_operators(w: OpWork) -> Mask:
    return w.op_named(lambda n: n in PRODUCTS or "conv" in n.lower())


def _of_family(w: OpWork, family: str) -> Mask:
    """Kernels of the family, by their operator, else by their name."""
    by_op = w.op_named(lambda n: n in PRODUCTS if family == "matmul" else "conv" in n.lower())
    other = w.op_named(lambda n: "conv" in n.lower() if family == "matmul" else n in PRODUCTS)
    conv = w.named(lambda n: any(k in n for k in ("conv", "cudnn", "fprop", "dgrad", "wgrad")))
    return by_op | (~other & (conv if family == "convolution" else ~conv))


def _of_type(p: Profile, w: OpWork, sixteen_bit: bool) -> Mask:
    """Kernels whose operator's inputs are of 16 bits or FP32; without recorded types their names tell FP32."""
    types = p.rank.ops["types"][np.maximum(w.op, 0)] if len(p.rank.ops) else np.zeros(len(w.op), np.int64)
    types = np.where(w.op >= 0, types, 0)
    table = {int(t): _first_type(p, int(t)) for t in np.unique(types)}
    kinds = np.array([table[int(t)] for t in np.unique(types)])[np.unique(types, return_inverse=True)[1]]
    if sixteen_bit:
        return np.asarray(np.isin(kinds, ("c10::Half", "c10::BFloat16")), np.bool_)
    told: Mask = np.asarray(kinds == "float", np.bool_)
    untold: Mask = np.asarray(types == 0, np.bool_) & w.named(_says_single)
    return told | untold


def _says_single(name: str) -> bool:
    return any(k in name for k in ("sgemm", "scudnn", "f32f32_f32f32", "<float"))


def _first_type(p: Profile, text: int) -> str:
    kinds = p.trace.text(text)
    known = ("float", "double", "c10::Half", "c10::BFloat16")
    floats = [k for k in kinds if k in known] if isinstance(kinds, list) else []
    return floats[0] if floats else ""


def _memory_bound(p: Profile, w: OpWork) -> Mask:
    """Kernels of calls whose bytes take longer than their arithmetic would even in FP32."""
    peaks = peaks_for(p)
    rows, works, at = w.works
    bound = np.zeros(max(1, len(p.rank.ops)), np.bool_)
    if peaks is not None and len(rows):
        ridge = peaks.ridge("float")
        slow = np.array([k.flops / k.bytes < ridge for k in works])
        bound[rows] = slow[at]
    return np.asarray(bound[np.maximum(w.op, 0)] & (w.op >= 0), np.bool_)


def _mask(length: int, rows: Rows) -> Mask:
    mask = np.zeros(length, np.bool_)
    mask[rows] = True
    return mask
