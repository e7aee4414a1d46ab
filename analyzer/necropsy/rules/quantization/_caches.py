"""Calibration caches beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct

from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt.calibration import CalibrationCache, TensorScale

from necropsy.provenance.module_paths import module_path


class Drift(Struct, frozen=True):
    """One tensor in two caches; `ratio` is the second scale over the first."""

    tensor: str
    first: TensorScale
    second: TensorScale

    @property
    def ratio(self) -> float:
        """How many times the second scale is the first."""
        return self.second.scale / self.first.scale


def usable(scale: float) -> bool:
    """Whether a scale can quantize anything: positive, finite, and not so small that it is a denormal float."""
    return math.isfinite(scale) and scale >= 2.0**-126


def pairs(
    caches: Sequence[CalibrationCache], *, same_calibrator: bool
) -> list[tuple[CalibrationCache, CalibrationCache]]:
    """Caches of one network, of one calibrator or of two: those that share most of their tensors."""
    found = []
    for a, b in combinations(caches[:16], 2):
        left, right = {s.tensor for s in a.scales}, {s.tensor for s in b.scales}
        if (
            (a.calibrator == b.calibrator) == same_calibrator
            and left & right
            and 2 * len(left & right) >= len(left | right)
        ):
            found.append((a, b))
    return found


def drifts(a: CalibrationCache, b: CalibrationCache) -> list[Drift]:
    """Tensors with a usable scale in both, those that differ most first."""
    known = {s.tensor: s for s in a.scales if usable(s.scale)}
    both = [Drift(s.tensor, known[s.tensor], s) for s in b.scales if s.tensor in known and usable(s.scale)]
    return sorted(both, key=lambda d: -abs(math.log(d.ratio)))


def anchor_of(cache: CalibrationCache, scale: TensorScale) -> Anchor:
    """Where a tensor's scale stands."""
    return Anchor(
        cache.anchor.input, cache.anchor.start, cache.anchor.end, scale.line, f"{scale.tensor}: {scale.scale:.6g}"
    )


def shown(tensor: str) -> str:
    """A tensor with the module that writes it, where its name tells one."""
    path = module_path(tensor)
    return f"{tensor} ({path.shown})" if path is not None and path.shown and not tensor.startswith("/") else tensor


def label(cache: CalibrationCache, caches: Sequence[CalibrationCache]) -> str:
    """The file's name, with its folder where two have one name."""
    name = cache.anchor.input.replace("\\", "/")
    short = name.rsplit("/", 1)[-1]
    same = [c for c in caches if c.anchor.input.replace("\\", "/").rsplit("/", 1)[-1] == short]
    return short if len(same) == 1 else "/".join(name.split("/")[-2:])
