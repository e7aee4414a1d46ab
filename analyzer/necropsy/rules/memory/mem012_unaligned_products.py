"""Half-precision products have sizes that are no multiple of 8

What it means
    Tensor Cores are fed by loads of 16 bytes, 8 elements of float16 or bfloat16. A matrix
    whose rows are not a multiple of that long cannot be read so, and cuBLAS falls back to
    kernels with narrower loads, often of an older generation.

Why it happens
    A vocabulary (50257), a number of classes or a hidden size that was not rounded up.

How to confirm
    The kernels below the product are called `..._align1`, `_align2` or `_align4`, not
    `align8` or `nvjet`; timing the product with the padded size shows the difference.

How to fix
    Round the size up to a multiple of 64 (at least of 8) and ignore or mask the surplus:
    `nn.Linear(d, 50304)` for 50257 words.

Limits
    Needs shapes in the trace (`record_shapes=True`). With strides only the dimensions that
    lie contiguous in memory count; without them inner and last dimension do. The cost is
    the kernels' time; what padding saves is known after trying.

References
    - https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
    - https://docs.nvidia.com/cuda/cublas/#tensor-core-usage
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, key_of, ms, part

if TYPE_CHECKING:
    from necropsy.trace.alignment import OddSite
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time that the kernels of one function's products take."""

    share: float = 0.03


@rule("MEM012", "unaligned-products", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function whose unaligned products weigh."""
    for p in traces.gpu_profiles:
        if p.graphs or "record_shapes" not in p.trace.meta.options:
            continue
        from necropsy.trace.alignment import odd_sites

        for odd in odd_sites(p)[:3]:
            if p.share(odd.site.ns) >= t.share and odd.steps >= 0.5 * len(p.steps):
                yield _finding(p, odd)


def _finding(p: Profile, odd: OddSite) -> Finding:
    from necropsy.trace.alignment import confirmed
    from necropsy.trace.lag import sample_of

    sizes = odd.sizes[:2]
    sure = confirmed(odd)
    which = f"kernels for unaligned memory ({odd.kernels[0]})" if sure else "kernels with narrower loads"
    place = odd.site.place
    return about(
        p,
        f"{odd.products[0].dtype.capitalize()} matrix products{in_function(place)} have a size of "
        f"{' and of '.join(map(str, sizes))}, which is no multiple of 8: they run on {which}, "
        f"{ms(p.per_step(odd.site.ns))} a {p.step_word} ({part(p.share(odd.site.ns))} of the time).",
        Severity.WARNING,
        shows=odd.kernels[0],
        ns=odd.site.ns,
        basis=sample_of(p).basis,
        places=[place],
        claims=_claims(p, odd),
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
        facts={
            "products": [f"{q.m} x {q.k} times {q.k} x {q.n}" for q in odd.products[:4]],
            "kernels a step": round(p.per_step(odd.site.count), 1),
            "kernels": odd.kernels,
        },
        fixes=_fixes(sizes),
    )


def _claims(p: Profile, odd: OddSite) -> frozenset[str]:
    """That these kernels are slow (KRN017), and that one of them dominates (KRN020), has this cause."""
    where = key_of(odd.site.place)
    kind = {"float16": "half"}.get(odd.products[0].dtype, odd.products[0].dtype)
    return frozenset({f"roofline:matmul:{kind}:{where}@{p.input}", *(f"kernel:{k}@{p.input}" for k in odd.names)})


def _fixes(sizes: list[int]) -> tuple[Fix, ...]:
    from necropsy.trace.alignment import next_multiple

    padded = [f"{s} to {next_multiple(s, 64)} (at least {next_multiple(s)})" for s in sizes]
    return (
        Fix(f"Pad {', '.join(padded)} and ignore the surplus", "code"),
        Fix("Time the padded product alone before changing the model", "investigate"),
    )
