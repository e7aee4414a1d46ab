"""Kernels of the judged steps with the operators that launched them: what rules on kernels and fusion share.

Where the device runs behind the host, the kernels are those that the judged steps submitted (`lag`): nanoseconds are
the kernels' own, and `scaled` turns them into a cost in the steps' time.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from necropsy.trace.lag import sample_of
from necropsy.trace.nesting import NONE, nearest
from necropsy.trace.shapes import OPERATORS, Work, work_of

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Operators around what torch.compile made, 2.0 to 2.13; Inductor's own range is an annotation since 2.6.
COMPILED: Final = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph", "Call CompiledFxGraph")
_BACKWARD: Final = "autograd::engine::evaluate_function"


class OpWork:
    """`rows`: kernels of the judged steps that compute; `op`, `ns`: their operators (-1: none) and lengths."""

    def __init__(self, profile: Profile) -> None:
        self._p = profile
        self._r = r = profile.rank
        kernels = r.kernels
        self._sample = sample_of(profile)
        self.rows: Rows = np.flatnonzero(self._sample.kernels)
        self.kernels = kernels.take(self.rows)
        self.op: Rows = r.op_of(self.kernels) if len(self.rows) else np.empty(0, np.int64)
        self.ns: Rows = self.kernels["end"] - self.kernels["start"]

    @property
    def total(self) -> int:
        """Nanoseconds of the kernels, overlap counted twice."""
        return int(self.ns.sum())

    @property
    def basis(self) -> str:
        """Whether `scaled` is measured or estimated."""
        return self._sample.basis

    def scaled(self, ns: int | float) -> int:
        """Nanoseconds of kernels as a cost in the time of the judged steps."""
        return self._sample.scaled(ns)

    def share(self, ns: int | float) -> float:
        """Part of the judged steps' time that kernels of so many nanoseconds take."""
        return self._p.share(self.scaled(ns))

    @cached_property
    def step(self) -> Rows:
        """Index of the judged step that submitted each kernel, or in which it began where that is not known."""
        call = self._r.launch_of(self.kernels)
        begin = self.kernels["start"]
        if len(self._r.calls):
            begin = np.where(call >= 0, self._r.calls["start"][np.maximum(call, 0)], begin)
        return self._p.steps.of(begin)

    @cached_property
    def op_ns(self) -> Rows:
        """For each operator, nanoseconds of the kernels that it launched itself (not operators inside it)."""
        return self.summed(np.ones(len(self.op), np.bool_))

    def summed(self, mask: Mask) -> Rows:
        """For each operator, nanoseconds of those of its kernels that the mask holds."""
        mine = mask & (self.op >= 0)
        return np.bincount(self.op[mine], weights=self.ns[mine], minlength=len(self._r.ops)).astype(np.int64)

    def named(self, test: object) -> Mask:
        """Kernels whose name passes a test (a function of the name, asked once a name)."""
        assert callable(test)
        names = self.kernels["name"]
        if not len(names):
            return np.zeros(0, np.bool_)
        unique, inverse = np.unique(names, return_inverse=True)
        return np.array([bool(test(self._r.trace.names[int(n)])) for n in unique], np.bool_)[inverse]

    def op_named(self, test: object) -> Mask:
        """Kernels whose operator's name passes a test; those without an operator do not."""
        assert callable(test)
        if not len(self.op) or not len(self._r.ops):
            return np.zeros(len(self.op), np.bool_)
        names = self._r.ops["name"][np.maximum(self.op, 0)]
        unique, inverse = np.unique(names, return_inverse=True)
        passed = np.array([bool(test(self._r.trace.names[int(n)])) for n in unique], np.bool_)[inverse]
        return passed & (self.op >= 0)

    def top_names(self, mask: Mask, most: int = 3) -> list[str]:
        """Names of the kernels that the mask holds, by time."""
        names, inverse = np.unique(self.kernels["name"][mask], return_inverse=True)
        order = np.argsort(-np.bincount(inverse, weights=self.ns[mask]), kind="stable") if len(names) else names
        return [self._r.trace.names[int(names[i])] for i in order[:most]]

    @cached_property
    def backward(self) -> Mask:
        """Operators inside autograd's backward pass."""
        r = self._r
        return nearest(r.op_nest.parent, r.where(r.ops, _BACKWARD)) >= 0

    @cached_property
    def compiled(self) -> Mask:
        """Operators inside what torch.compile made."""
        r = self._r
        inside = nearest(r.op_nest.parent, r.where(r.ops, COMPILED)) >= 0
        ranges = np.flatnonzero(r.where(r.annotations, COMPILED))
        if len(ranges):
            inside |= _held(r.annotations.take(ranges), r.ops)
        return inside

    @cached_property
    def optimizing(self) -> Mask:
        """Operators inside an optimizer's step, gradient clipping, or the gradient scaler."""
        r = self._r
        inside = nearest(r.op_nest.parent, r.where(r.ops, ("Optimizer.", "Optimizer#"))) >= 0
        ranges = np.flatnonzero(r.where(r.annotations, ("Optimizer.step", "Optimizer.zero_grad")))
        if len(ranges):
            inside |= _held(r.annotations.take(ranges), r.ops)
        frames = [
            n for n, f in r.frame_names.items()
            if f.file and ("torch/optim/" in f.file or "torch/nn/utils/" in f.file or "amp/grad_scaler" in f.file)
        ]  # fmt: skip
        if frames:
            table = nearest(r.frame_nest.parent, np.isin(r.frames["name"], np.array(frames)))
            at = r.frame_at(r.ops["thread"], r.ops["start"])
            inside |= (at >= 0) & (table[np.maximum(at, 0)] >= 0)
        return inside

    @cached_property
    def forward_kernels(self) -> Rows:
        """For each kernel, the forward operator that it belongs to: its own, or that of its backward node; or -1."""
        known = np.maximum(self.op, 0)
        if not len(self._r.ops):
            return self.op
        forward = self._r.forward_of[known]
        found = np.where(self.backward[known], forward, self.op)
        return np.where(self.op >= 0, found, NONE)

    @cached_property
    def works(self) -> tuple[Rows, list[Work], Rows]:
        """(operators, their work, index into it): products and convolutions whose shapes are known."""
        r = self._r
        rows = np.flatnonzero((self.op_ns > 0) & r.where(r.ops, OPERATORS, exact=True)) if len(r.ops) else self.op[:0]
        if not len(rows):
            return rows, [], rows
        keys = np.stack([r.ops[c][rows].astype(np.int64) for c in ("name", "dims", "types", "values")], axis=1)
        unique, inverse = np.unique(keys, axis=0, return_inverse=True)
        text = r.trace.text
        made = [work_of(r.trace.names[int(n)], text(int(d)), text(int(t)), text(int(v))) for n, d, t, v in unique]
        index = np.cumsum([m is not None for m in made]) - 1
        kept = np.array([i if m is not None else NONE for m, i in zip(made, index, strict=True)], np.int64)
        at = kept[np.ravel(inverse)]
        return rows[at >= 0], [m for m in made if m is not None], at[at >= 0]


def opwork_of(profile: Profile) -> OpWork:
    """The profile's, made once."""
    if "opwork" not in profile.memo:
        profile.memo["opwork"] = OpWork(profile)
    made = profile.memo["opwork"]
    assert isinstance(made, OpWork)
    return made


def _held(ranges: object, ops: object) -> Mask:
    """Operators within ranges on the same thread."""
    from necropsy_parsers.trace.columns import Columns

    from necropsy.trace.nesting import Nest

    assert isinstance(ranges, Columns) and isinstance(ops, Columns)
    return Nest(ranges["start"], ranges["end"], ranges["thread"]).innermost(ops["thread"], ops["start"]) >= 0
