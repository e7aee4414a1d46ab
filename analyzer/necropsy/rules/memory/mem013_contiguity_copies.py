"""Tensors are rewritten in contiguous order, step after step

What it means
    `.contiguous()`, or a `reshape` or `flatten` of a transposed tensor, copies it within
    the GPU's memory so that its elements lie in the new order. Nothing is computed; it
    costs a read and a write of all of it.

Why it happens
    `permute` or `transpose` makes a view; what follows asks for contiguous data (a `view`,
    a norm over another dimension, habit). Often the next operator would have taken the
    view, or the layout could have been the right one from the start.

How to confirm
    The trace has `aten::contiguous` or `aten::reshape` with `aten::clone` and a copying
    kernel below it, under the named function.

How to fix
    Drop `.contiguous()` where the next operator takes strides; keep one layout through the
    model (channels-last for images, batch-first for sequences); let
    `F.scaled_dot_product_attention` and `einsum` take views; let torch.compile write the
    result in the order that is needed.

Limits
    A single transposition where heads are joined is part of attention and below the
    threshold. Repacking inside an operator (a product, a convolution) is not meant. The
    cost is the time on the device.

References
    - https://docs.pytorch.org/docs/stable/tensor_view.html
    - https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part
from necropsy.units import human_bytes

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile, Site


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time that the copies of one function take on the device."""

    share: float = 0.03


@rule("MEM013", "contiguity-copies", Severity.WARNING, settings=Thresholds, aliases=("non-contiguous-access",))
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function whose copies weigh."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.copies import seen_often
        from necropsy.trace.layout import repack_sites

        for site in repack_sites(p)[:3]:
            if p.share(site.ns) >= t.share and seen_often(p, p.rank.ops["start"][site.rows]):
                yield _finding(p, site)


def _finding(p: Profile, site: Site) -> Finding:
    from necropsy.trace.lag import sample_of
    from necropsy.trace.layout import repacked

    size, shapes = repacked(p, site.rows)
    what = f"{human_bytes(p.per_step(size))} of transposed tensors" if size else "transposed tensors"
    facts: dict[str, str | float | list[str]] = {"copies a step": round(p.per_step(site.count), 1)}
    if shapes:
        facts["shapes"] = [str(s) for s in shapes]
    return about(
        p,
        f"Each {p.step_word} rewrites {what} in contiguous order{in_function(site.place)} "
        f"({p.per_step(site.count):.0f} copies, {ms(p.per_step(site.ns))} on the GPU, {part(p.share(site.ns))} of the "
        "time), which moves memory and computes nothing.",
        Severity.WARNING,
        shows="aten::contiguous or aten::reshape with a copy below",
        ns=site.ns,
        basis=sample_of(p).basis,
        places=[site.place],
        facts=facts,
        fixes=(
            Fix(
                "Drop `.contiguous()` (or use `transpose` instead of `reshape`) where the next call takes views", "code"
            ),
            Fix("Keep one layout through the model: channels-last for images, one order of heads in attention", "code"),
        ),
    )
