"""Profiled launches found again in a trace of the same script: who launches such kernels, and what they take there.

A report holds few launches, and under a profiler that repeats them; what they weigh in the program is what launches of
the same kernel, grid and block take in the steps of a trace.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from necropsy_parsers.ncu.build import function_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from necropsy.evidence.ncu_kernels import NcuKernel
    from necropsy.evidence.traces import Traces
    from necropsy.finding import Place
    from necropsy.trace.profile import Profile, Site


_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_PLAIN: Final = frozenset(
    "void int long unsigned bool char const T1 T2 T3 T4 T5 lambda instance operator anonymous unnamed namespace "
    "true false ul".split()
)


class Weighed(Struct, frozen=True):
    """Launches in the judged steps of a trace: how many, their nanoseconds, and these as a part of the steps' time."""

    launches: int
    ns: int
    share: float


def sites(profile: Profile, row: NcuKernel) -> list[Site]:
    """Callers of kernels with the name, grid and block of the launch, the most time first."""
    found: dict[Any, list[Site]] = profile.memo.setdefault("ncu", {})
    key = (row.function, row.grid, row.block)
    if key not in found:
        found[key] = _sites(profile, row)
    return found[key]


def weighed(row: NcuKernel, place: Place | None, traces: Traces) -> Weighed | None:
    """What launches from that place take, or from anywhere where the trace does not know it; None: there are none."""
    for profile in traces.gpu_profiles:
        if profile.steps.how == "window":  # with the making of the model and the compiler in it: a part of nothing
            continue
        alike = sites(profile, row)
        here = [s for s in alike if place is not None and s.place is not None and _same(s.place, place)]
        steady = [profile.in_steps(profile.rank.kernels["start"][s.rows]) for s in here or alike]
        launches, ns = 0, 0
        for site, judged in zip(here or alike, steady, strict=True):
            rows = site.rows[judged]
            launches += len(rows)
            ns += int((profile.rank.kernels["end"][rows] - profile.rank.kernels["start"][rows]).sum())
        if launches:
            return Weighed(launches, ns, profile.share(ns))
    return None


def _same(a: Place, b: Place) -> bool:
    return a.line == b.line and _name(a.file) == _name(b.file)


def _name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _sites(profile: Profile, row: NcuKernel) -> list[Site]:
    import numpy as np

    kernels, trace = profile.rank.kernels, profile.trace
    if not len(kernels) or row.grid is None:
        return []
    alike = [n for n in np.unique(kernels["name"]).tolist() if function_of(trace.names[n]) == row.function]
    mask = np.isin(kernels["name"], alike)
    for column, wanted in (("grid", row.grid), ("block", row.block)):
        fits = [t for t in np.unique(kernels[column][mask]).tolist() if _dims(trace.text(t)) == wanted]
        mask &= np.isin(kernels[column], fits)
    if not mask.any():
        return []
    mask &= np.isin(kernels["name"], _nearest(row.kernel, np.unique(kernels["name"][mask]).tolist(), trace.names))
    return profile.work_sites(kernels, mask)


def _nearest(kernel: str, candidates: list[int], names: Sequence[str]) -> list[int]:
    """Those whose template arguments are most like the kernel's: one function adds, multiplies and copies.

    ncu and Kineto demangle differently (`(int)4` and `4`, `[lambda() (instance 3)]` and `{lambda()#3}`), so that the
    names within are compared.
    """
    own = _words(kernel)
    scores = [len(own & (its := _words(names[n]))) / max(len(own | its), 1) for n in candidates]
    return [n for n, score in zip(candidates, scores, strict=True) if score == max(scores)]


def _words(kernel: str) -> frozenset[str]:
    return frozenset(_WORD.findall(kernel)) - _PLAIN


def _dims(value: object) -> tuple[int, ...] | None:
    return tuple(int(v) for v in value) if isinstance(value, list | tuple) else None
