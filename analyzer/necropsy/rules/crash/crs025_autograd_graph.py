"""The backward pass cannot be computed from what the forward pass left

What it means
    autograd refused: a tensor that it needs was overwritten, freed with an earlier backward pass, or
    never belonged to the graph; or the call asks for a gradient that is not defined.

Why it happens
    In-place operations (`x += y`, `x[i] = y`, `add_`, `relu_`) on values whose gradient is still to be
    computed; a loss or hidden state of an earlier step in this step's graph; `no_grad`, `detach` or
    `.item()` between the parameters and the loss; frozen inputs under reentrant checkpointing.

How to confirm
    `torch.autograd.set_detect_anomaly(True)` names the forward line whose result is meant. Look at
    `loss.requires_grad` and `loss.grad_fn` right before the call.

How to fix
    By kind: a new tensor instead of an in-place change; `detach()` on what is carried from step to step;
    one backward call for the sum of the losses; the reduction of the loss to a single number.

Limits
    The line is the one at which autograd noticed. Where the tensor was changed or cut off, the message
    does not tell.

References
    - https://docs.pytorch.org/docs/stable/notes/autograd.html
    - torch/csrc/autograd (`saved_variable.cpp`, `engine.cpp`, `VariableTypeUtils.h`), torch 1.8 to 2.13
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages.python_warning import PythonWarning
from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, match, said, saying
from necropsy.conditions import NO_GRADIENTS
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.python_warnings import PythonWarnings
from necropsy.finding import Finding, Fix, Related, Severity
from necropsy.provenance.frames import innermost_user, place_of
from necropsy.rule import rule

_ANOMALY: Final = Fix(
    "Have autograd name the forward line whose result is meant (slow: for one step only)",
    "investigate",
    command="torch.autograd.set_detect_anomaly(True)",
)
_NEW: Final = "Make a new tensor instead of changing it in place: `x = x + y`, not `x += y`, `x.add_(y)` or `x[i] = y`"
_UNTOUCHED: Final = Fix("Update parameters outside the graph", "code", command="with torch.no_grad(): w.add_(update)")

SAYINGS: Final = (
    saying(
        r"modified by an inplace operation(?:: \[(?P<tensor>[^\n]{1,80}?\])\])?(?:, which is output (?P<n>\d+) of "
        r"(?P<op>\w+))?(?:, is at version (?P<is>\d+); expected version (?P<was>\d+))?",
        "A tensor that the backward pass needs ({tensor}, output {n} of {op}) was changed in place after the forward "
        "pass had used it (version {is} instead of {was}).",
        _ANOMALY,
        _NEW,
    ),
    saying(
        r"[Tt]rying to backward through the graph a second time",
        "The graph is gone: an earlier backward pass freed what this one needs.",
        "Detach what is carried from step to step (hidden states, running losses): `h = h.detach()`",
        "Call backward once, on the sum of the losses; or compute the loss anew for each call",
        "Only if the same graph is needed twice: `backward(retain_graph=True)`, which keeps its memory",
    ),
    saying(
        r"element \d+ of (?:tensors|variables) does not require grad and does not have a grad_fn",
        "The loss hangs on no parameter: nothing that it was computed from requires a gradient.",
        "Look for `torch.no_grad()`, `.detach()`, `.item()` or a new tensor made of the result between model and loss, "
        "and for parameters that are all frozen",
        "Under activation checkpointing with frozen inputs: `use_reentrant=False`, or transformers' "
        "`enable_input_require_grads()`",
    ),
    saying(
        r"\ba leaf [Vv]ariable that requires grad (?:is being used in an|has been used in an) in-?place",
        "A parameter (a leaf that requires a gradient) is changed in place within the graph.",
        _UNTOUCHED,
    ),
    saying(
        r"grad can be implicitly created only for scalar outputs",
        "`backward()` was called on a tensor of several numbers, not on a single loss.",
        "Reduce it first: `loss.mean().backward()` (DataParallel gives one loss a GPU)",
    ),
    saying(
        r"Can't call numpy\(\) on (?:Tensor|Variable) that requires grad",
        "A tensor that belongs to the graph is turned into a numpy array.",
        "Cut it off first: `x.detach().cpu().numpy()`",
    ),
    saying(
        r"is a view and (?:is being|its base or another view of its base has been) modified in-?place",
        "One of several views that an operation returned (`unbind`, `split`, `chunk`) is changed in place.",
        "Change a copy: `x = x.clone()` before it",
        _NEW,
    ),
    saying(
        r"[Oo]nly Tensors of floating point (?:and complex )?(?:dtype|type) can require gradients",
        "A gradient is asked of a tensor of integers or booleans.",
        "Freeze it (`requires_grad=False`; quantized weights are not trained), or make it a floating-point tensor",
    ),
    saying(
        r"One of the differentiated Tensors (?:appears to not have been used in the graph|does not require grad)",
        "`autograd.grad` was asked for the gradient of a tensor that the result does not depend on.",
        "Leave the tensor out, or pass `allow_unused=True` and handle None",
    ),
)


_UNTOLD: Final = lazily(r" \(, output  of \)|, output  of (?=\))| \(version  instead of \)")


@rule("CRS025", "autograd-graph", Severity.FATAL)
def check(exceptions: Exceptions, warnings: PythonWarnings) -> Iterator[Finding]:
    """Exceptions of autograd about the graph; at the forward line, where anomaly mode told it."""
    for row in exceptions:
        if (found := match(SAYINGS, row)) is None:
            continue
        message, fixes, places = _UNTOLD.sub("", said(found)), found[0].fixes, row.places
        report = _report(row, warnings) if _ANOMALY in fixes else None
        user = innermost_user(report.frames) if report is not None else None
        if report is not None and user is not None:
            forward = place_of(user, how="forward call of the anomaly report")
            places = (forward, *(p for p in places if (p.file, p.line) != (forward.file, forward.line)))
            message = f"{message[:-1]}: the operation at this line ({report.node}) needs it, and it was changed since."
            fixes = tuple(f for f in fixes if f is not _ANOMALY)
        yield from_exception(
            row,
            message,
            code=places[:5],
            fixes=fixes,
            shows=frozenset({NO_GRADIENTS} if "hangs on no parameter" in message else ()),
            facts={"error": row.main.message[:300]},
            related=(Related(report.anchor, "anomaly mode's report of the forward call"),)
            if report is not None
            else (),
        )


def _report(row: ExceptionRow, warnings: PythonWarnings) -> PythonWarning | None:
    """Anomaly mode's warning about the same failure: the last one before it."""
    near = (
        w for w in warnings if w.node and w.frames and w.attempt == row.attempt and w.origin.rank == row.origin.rank
    )
    return max((w for w in near if w.seq < row.seq), key=lambda w: w.seq, default=None)
