"""Matrix products run in double precision beside a model in single or half

What it means
    Some matrix products or convolutions of the step are in float64, while most are not. In
    float64 a GPU is many times slower: data sheets of A100 and H200 give BF16 15 times as many
    operations a second, those of GPUs for graphics and inference hundreds of times as many.

Why it happens
    A tensor was made from a Python list of numbers or a NumPy array, whose type is float64;
    `.double()` was put in for a loss, a covariance or a matrix inverse and stayed.

How to confirm
    The named kernels have `f64` or `dgemm` in their names; the operator's `Input type` is `double`.

How to fix
    Convert at the source (`torch.from_numpy(a).float()`, `dtype=torch.float32`), or use
    float32 for the product and float64 only for the sum that needs it.

Limits
    Where most products are in float64 the program means it: then this is a note. Element-wise
    operators in float64 are not counted.

References
    - https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch-dtype
    - https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#arithmetic-instructions
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part, places_of


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time; `meant`: part of all products' time from which float64 is what the program wants."""

    share: float = 0.02
    meant: float = 0.8


@rule("KRN023", "double-precision-products", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a trace."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.opwork import opwork_of
        from necropsy.trace.roofline import in_double

        w, found = opwork_of(p), in_double(p)
        if found is None or w.share(found.ns) < t.share:
            continue
        meant = found.ns >= t.meant * found.all
        place = found.sites[0].place if found.sites else None
        rest = "as nearly all of them do" if meant else "while the rest of the model does not need it"
        yield about(
            p,
            f"Matrix products{in_function(place)} run in float64, {rest}: {ms(p.per_step(found.ns))} of each "
            f"{p.step_word} ({part(w.share(found.ns))} of the time), several times what TF32 or BF16 would take.",
            Severity.NOTE if meant else Severity.WARNING,
            shows=found.kernels[0],
            ns=w.scaled(found.ns),
            basis=w.basis,
            places=places_of(found.sites),
            event=f"double@{p.input}",
            claims=frozenset(f"kernel:{k}@{p.input}" for k in found.kernels),
            facts={"kernels": found.calls, "of the time of all products": part(found.ns / found.all)},
            fixes=(Fix("Convert to float32 at the source (`.float()`, `dtype=torch.float32`)", "code"),),
        )
