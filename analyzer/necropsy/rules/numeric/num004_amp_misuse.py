"""Mixed precision is used in a way that cannot work

What it means
    The gradient scaler, autocast or checkpointing was called in an order or on tensors for
    which it has no meaning, and said so.

Why it happens
    `unscale_` twice in a step; `step` without a backward pass whose gradients it could check
    (all parameters without gradients: a skipped or constant loss); parameters converted to
    float16 themselves; autocast on in forward but not when checkpointing recomputes.

How to confirm
    The message names the call; follow the order scale -> backward -> unscale_ -> clip -> step ->
    update.

How to fix
    One `unscale_` per optimizer and step; keep parameters in float32 and let autocast
    convert; call backward on every step, or skip step and update together.

Limits
    "No inf checks were recorded" also follows a batch without any gradient: if the log notes
    bad data or a zero loss before it, that note is the root.

References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_exception, match, said, saying
from necropsy.conditions import NO_GRADIENTS, NOT_FINITE
from necropsy.evidence.exceptions import Exceptions
from necropsy.finding import Finding, Severity
from necropsy.rule import rule

SAYINGS: Final = (
    saying(
        r"No inf checks were recorded (?:for this optimizer|prior to update)",
        (
            "GradScaler found no gradient to check: "
            "no parameter of the optimizer got one in this step (no inf checks were recorded)."
        ),
        (
            "Call backward on a loss that depends on the parameters in every step, "
            "or skip scaler.step and scaler.update together"
        ),
    ),
    saying(
        (
            r"unscale_\(\) has already been called on this optimizer since the last update\(\)"
            r"|unscale_\(\) is being called after step\(\)"
        ),
        "GradScaler.unscale_ was called twice in one step.",
        "Call unscale_ once per optimizer and step, before clipping and before step; call update at the end",
    ),
    saying(
        r"Attempting to unscale (?P<dtype>FP16|BF16|\w+) gradients",
        (
            "The parameters themselves are {dtype}: "
            "GradScaler needs float32 parameters (mixed precision is autocast's work)."
        ),
        (
            "Do not call .half() on the model or load it in float16 for training; "
            "keep float32 weights and use torch.autocast"
        ),
    ),
    saying(
        r"step\(\) has already been called since the last update\(\)",
        "GradScaler.step was called twice without update.",
        "Call scaler.update() once after all optimizers have stepped",
    ),
    saying(
        (
            r"CheckpointError"
            r"|[Rr]ecomputed values for the following tensors have different metadata"
            r"|A different number of tensors was saved during the original forward and recomputation"
        ),
        "Activation checkpointing recomputed tensors of other shape, dtype or number than the forward pass saved.",
        (
            "Run forward and backward under the same autocast and dtype; "
            "keep the checkpointed function free of randomness and state"
        ),
    ),
    saying(
        r"(?:torch\.)?binary_cross_entropy\(? ?(?:and torch\.nn\.BCELoss )?are unsafe to autocast",
        "binary_cross_entropy is unsafe under autocast.",
        "Use binary_cross_entropy_with_logits",
    ),
)


@rule("NUM004", "amp-misuse", Severity.FATAL)
def check(exceptions: Exceptions) -> Iterator[Finding]:
    """Refusals of the scaler and of checkpointing."""
    for row in exceptions:
        if (found := match(SAYINGS, row)) is not None:
            shows = frozenset({NO_GRADIENTS, NOT_FINITE}) if "inf checks" in found[1][0] else frozenset()
            yield from_exception(row, said(found), fixes=found[0].fixes, shows=shows)
