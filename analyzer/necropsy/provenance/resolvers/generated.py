"""Functions that traces name become lines, where the kernels are torch.compile's and its generated code is at hand.

A compiled region's kernels all come from the function that was compiled, as far as a trace alone can tell. The code
that was generated says which lines each of them computes. Kernels one of which is nobody's known call stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.finding import MAX_PLACES, Finding, Place, Rests

if TYPE_CHECKING:
    from necropsy.evidence import Evidence


ORDER: Final = 10  # what generated code says holds whatever the sources say


def resolve(found: Iterable[Finding], evidence: Evidence) -> list[Finding]:
    """The findings; those about compiled kernels with the lines that these compute."""
    return with_generated(found, evidence.get(InductorKernels))


def with_generated(found: Iterable[Finding], table: InductorKernels) -> list[Finding]:
    """The findings; those about compiled kernels with the lines that these compute."""
    return [_resolved(f, table) if any(type(p.rests) is not Rests for p in f.code) else f for f in found]


def _resolved(f: Finding, table: InductorKernels) -> Finding:
    places: list[Place] = []
    for place in f.code:
        lines = _lines(place, table)
        # Of further functions only what is one line is told, lest the first one's lines be lost among theirs.
        places += lines if lines and (place is f.code[0] or len(lines) == 1) else [place]
    return replace(f, code=tuple(dict.fromkeys(places))[:MAX_PLACES])


def _lines(place: Place, table: InductorKernels) -> list[Place]:
    from necropsy.trace.generated import generated_of
    from necropsy.trace.profile import MARKED, Moments

    rests = place.rests
    # A marked line is the one that called the compiled function, which is not what a kernel in it computes.
    if (
        (place.exactness != "function" and place.how != MARKED)
        or not isinstance(rests, Moments)
        or rests.kernels is None
    ):
        return []
    known = generated_of(rests.profile, table)
    kernels = rests.profile.rank.kernels
    if not known.knows(rests.kernels):
        return []
    return known.places(rests.kernels, (kernels["end"] - kernels["start"])[rests.kernels])
