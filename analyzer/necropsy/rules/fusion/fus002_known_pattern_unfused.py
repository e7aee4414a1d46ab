"""Attention, a normalisation or an activation is computed by several kernels

What it means
    A function computes something for which torch has one kernel as a sequence of operators.
    Each of them reads a large tensor from the GPU's memory and writes one back; for
    attention that is the matrix of all pairs of positions, several times over.

Why it happens
    The model writes the formula out: two matrix products around a softmax, `x * rsqrt(mean(x^2))`,
    `0.5 * x * (1 + tanh(...))`. Eager torch runs it as it is written. Or
    `scaled_dot_product_attention` could use none of its fused kernels (float32 masks of odd
    strides, unusual head sizes), or `nn.MultiheadAttention` was asked for its weights.

How to confirm
    The trace shows these operators in this order in the function that is named. After the
    change the kernels are gone: `flash_fwd`, `fmha` or `cudnn` for attention.

How to fix
    `torch.nn.functional.scaled_dot_product_attention` (torch 2.0), `rms_norm` (2.4),
    `layer_norm`, `gelu(..., approximate="tanh")`; or `torch.compile` of the module, which
    fuses what has no operator of its own (rotary embeddings, gated MLPs: these are notes).

Limits
    Needs recorded shapes, or Python stacks for attention. What torch.compile made, and
    replayed CUDA graphs, are not looked at. The gain is an estimate: a fused kernel still
    reads its inputs and writes its result.

References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.unfused import Unfused


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time in kernels that one would replace: from 2 % on a fusion is worth it (TraceLens)."""

    share: float = 0.02


# Pattern -> the operator that computes it; those without one are worth a note.
_OPERATORS: Final = {
    "RMSNorm": "torch.nn.functional.rms_norm(x, shape, weight)",
    "LayerNorm": "torch.nn.functional.layer_norm(x, shape, weight, bias)",
    "GELU": 'torch.nn.functional.gelu(x, approximate="tanh")',
}
_SDPA: Final = "torch.nn.functional.scaled_dot_product_attention(q, k, v, ...)"


@rule("FUS002", "known-pattern-unfused", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a pattern and function."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.opwork import opwork_of
        from necropsy.trace.unfused import known_patterns

        for u in known_patterns(p):
            if opwork_of(p).share(u.ns) >= t.share and 2 * u.steps > len(p.steps):
                yield _attention(p, u) if u.name == "attention" else _formula(p, u)


def _attention(p: Profile, u: Unfused) -> Finding:
    from necropsy.trace.opwork import opwork_of

    w = opwork_of(p)
    where = f" in {u.library}" if u.library else in_function(u.place)
    kernels = round(u.kernels / max(1, u.calls))
    matrix = " x ".join(map(str, u.shape[-2:])) if u.shape else "whole"
    how = {
        "scaled_dot_product_attention": "scaled_dot_product_attention found no fused kernel to use",
        "MultiheadAttention": "nn.MultiheadAttention computes its weights",
    }.get(u.inside, "it is written out as products and a softmax")
    return about(
        p,
        f"Attention{where} is not fused ({how}): the {matrix} matrix of scores goes through memory in "
        f"{kernels} more kernels a call, backward included: {ms(p.per_step(u.ns))} of each {p.step_word} "
        f"({part(w.share(u.ns))} of the time).",
        Severity.WARNING,
        shows=" ".join(u.operators),
        ns=w.scaled(u.ns),
        basis=w.basis,
        places=[u.place],
        confidence=Confidence.LIKELY,
        event=f"unfused:{u.name}:{u.where}@{p.input}",
        facts=_facts(p, u) | {"matrix products besides": f"{ms(p.per_step(u.products))} a {p.step_word}"},
        fixes=_attention_fixes(u),
    )


def _attention_fixes(u: Unfused) -> tuple[Fix, ...]:
    if u.inside == "scaled_dot_product_attention":
        return (
            Fix(
                "See why: `with torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION):` around the call prints "
                "what forbids the kernel",
                "investigate",
            ),
            Fix("Use bf16 or fp16, a head size that is a multiple of 8 up to 256, `is_causal` in place of a mask"),
        )
    if u.inside == "MultiheadAttention":
        return (Fix("Call nn.MultiheadAttention with `need_weights=False`", "code"),)
    if "transformers" in u.library:
        return (Fix('Load the model with `attn_implementation="sdpa"` or `"flash_attention_2"`', "code"),)
    return (Fix("Let one operator compute it (`attn_mask` or `is_causal=True` for the mask)", "code", command=_SDPA),)


def _formula(p: Profile, u: Unfused) -> Finding:
    from necropsy.trace.opwork import opwork_of

    w = opwork_of(p)
    where = f" in {u.library}" if u.library else in_function(u.place)
    operator = _OPERATORS.get(u.name)
    compiled = Fix("Or compile the module: `torch.compile` fuses such chains", "code")
    own = (Fix("Let one operator compute it", "code", command=operator),) if operator else ()
    return about(
        p,
        f"{u.name[0].upper()}{u.name[1:]}{where} is written out as {len(u.operators)} operators that each read and "
        f"write the whole tensor: {ms(p.per_step(u.ns))} of each {p.step_word} ({part(w.share(u.ns))} of the time) "
        "where one kernel would do.",
        Severity.WARNING if operator else Severity.NOTE,
        shows=" ".join(u.operators),
        ns=w.scaled(u.ns),
        basis=w.basis,
        places=[u.place],
        confidence=Confidence.LIKELY,
        event=f"unfused:{u.name}:{u.where}@{p.input}",
        facts=_facts(p, u),
        fixes=(*own, compiled),
    )


def _facts(p: Profile, u: Unfused) -> dict[str, str | int]:
    return {
        "calls": u.calls,
        "operators": " ".join(u.operators),
        "estimated gain": f"{ms(p.per_step(u.low))} to {ms(p.per_step(u.high))} a {p.step_word}",
    }
