"""Operators that Inductor leaves to eager kernels

What it means
    Inductor generates no code for these operators: each is called as an eager kernel between the
    generated ones. Nothing fuses across the call, and its inputs and outputs go through memory.

Why it happens
    Three cases. Inductor registered a fallback because a library's kernel is the better choice
    (convolution, attention, sort, top-k, ...): nothing is wrong. A custom operator
    (`torch.library`, an extension) is opaque to the compiler. An operator has neither a lowering
    nor a decomposition ("Creating implicit fallback for:"). "Fallback to eager mode for node:
    aten.…", as articles call it, is no message of torch; these are.

How to confirm
    `TORCH_LOGS="+inductor,perf_hints"` names them; `TORCH_LOGS=output_code` shows the calls
    (`torch.ops.…`, `extern_kernels.…`) between the kernels. A profile tells what they cost.

How to fix
    Leave library kernels alone. For a custom operator: write it with torch operators or as a Triton
    kernel so that Inductor sees into it (`torch.library.triton_op`, since torch 2.6), or register a
    decomposition or lowering. For an operator without lowering: use an equivalent that has one.

Limits
    The messages name the operator, not the line that calls it, and appear once a graph however
    often the operator is called. What a fallback costs only a profile can tell.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    - https://docs.pytorch.org/docs/stable/library.html#torch.library.triton_op
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.patterns import lazily

from necropsy.evidence.fallbacks import FallbackRow, Fallbacks
from necropsy.evidence.settings import Settings
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.releases import torch_release
from necropsy.rule import rule

SHOWN: Final = 5  # operators named in the sentence
LISTED: Final = 30  # and in the facts
# Namespaces whose operators come with torch or call a library that no generated code replaces.
_OWN: Final = lazily(
    r"(?:aten|prims|prim|inductor|rngprims|quantized|quantized_decomposed|mkldnn|mkl|onednn|_c10d_functional|c10d"
    r"|_c10d_functional_autograd|fsdp|_dtensor|higher_order|flex_lib|symm_mem|debugprims|_quantized)(?:\.|$)"
)
# Operators of torch for which an eager kernel is the normal choice even where it is called an implicit fallback.
_NORMAL: Final = lazily(
    r"aten\.(?:_?conv|cudnn_|_cudnn_|miopen_|_?scaled_dot_product|_(?:flash|efficient)_attention|_thnn|_ctc_loss"
    r"|(?:stable_)?sort|topk|kthvalue|mode|(?:nan)?median|_?unique|nonzero|masked_select|cum|logcumsumexp|histc|bincount"
    r"|_?scaled_(?:grouped_)?mm|_scaled_|_grouped_mm|_int_mm|_weight_int|(?:add|b|addb)?mm\b|_?fft_|_?linalg_|cholesky"
    r"|triangular_solve|lu_|qr|svd|searchsorted|multinomial|rand|normal|bernoulli|exponential|uniform|index_put|scatter"
    r"|_?embedding_bag|_adaptive|adaptive_|max_pool|avg_pool|_pdist|_cdist|_local_scalar_dense|_?to_sparse|_sparse)"
)


def _class_of(row: FallbackRow) -> str:
    """custom, missing (no lowering) or normal."""
    if _OWN.match(row.op) is None and "." in row.op:
        return "custom"
    return "missing" if row.implicit and _NORMAL.match(row.op) is None else "normal"


def _names(rows: Sequence[FallbackRow]) -> str:
    named = ", ".join(f"`{r.op}`" for r in rows[:SHOWN])
    return named if len(rows) <= SHOWN else f"{named} and {len(rows) - SHOWN} more"


def _sentence(kind: str, rows: Sequence[FallbackRow]) -> str:
    who = f"{_names(rows)} {'runs as an eager kernel' if len(rows) == 1 else 'run as eager kernels'}"
    if kind == "custom":
        return f"Inductor cannot see into custom operators: {who}, and nothing fuses across such a call."
    if kind == "missing":
        return f"Inductor has no lowering (implicit fallback): {who}, and nothing fuses across such a call."
    return f"{who} between the generated ones, the normal choice of Inductor for such operators."


def _fixes(kind: str, release: tuple[int, int] | None) -> tuple[Fix, ...]:
    if kind == "normal":
        return ()
    if kind == "missing":
        return (
            Fix("Use an equivalent made of operators that have a lowering, or accept the eager call", "code"),
            Fix("Measure it first: a profile tells whether the eager kernel or its memory traffic matters"),
        )
    wrap = "torch.library.triton_op"
    if release is None:
        wrap += " (since torch 2.6)"
    named = f", or wrap its Triton kernels with {wrap} so that the compiler sees them"
    if release is not None and release < (2, 6):
        named = ", or call its Triton kernels directly in the compiled function (since torch 2.3)"
    return (
        Fix(f"Write it with torch operators{named}; a kernel that is fast on its own may well stay as it is", "code"),
        Fix("Measure it first: a profile tells whether the eager kernel or its memory traffic matters"),
    )


@rule(
    "CMP017",
    "implicit-fallback",
    Severity.WARNING,
    aliases=("fallback to eager mode for node", "Using FallbackKernel", "Creating implicit fallback for"),
)
def check(fallbacks: Fallbacks, settings: Settings) -> Iterator[Finding]:
    """One finding an attempt for each of: custom operators, operators without lowering, normal fallbacks."""
    release = torch_release(settings)
    groups: dict[tuple[int, str], list[FallbackRow]] = {}
    for row in fallbacks:
        if row.op and any(via != "shim" for via, _ in row.vias):
            groups.setdefault((row.attempt, _class_of(row)), []).append(row)
    for (_, kind), rows in groups.items():
        rows.sort(key=lambda r: -r.count)
        first = min(rows, key=lambda r: r.seq)
        facts: dict[str, Fact] = {r.op: r.count for r in rows[:LISTED]}
        if ids := sorted({i for r in rows for i in r.compile_ids}):
            facts["compilations"] = ids[:20]
        yield Finding(
            message=_sentence(kind, rows),
            anchor=first.anchor,
            severity=Severity.NOTE if kind == "normal" else Severity.WARNING,
            ranks=tuple(sorted({k for r in rows for k in r.ranks})),
            facts=facts,
            fixes=_fixes(kind, release),
            seq=first.seq,
            attempt=first.attempt,
            time=first.origin.time,
            count=sum(r.count for r in rows),
            event=f"fallbacks:{kind}@{first.anchor.input}:{first.seq}",
        )
