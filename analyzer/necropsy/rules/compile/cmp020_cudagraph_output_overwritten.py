"""An output of a CUDA graph was used after a later run overwrote it

What it means
    With `mode="reduce-overhead"` or `"max-autotune"` the outputs of a compiled function live in
    memory that the next run uses again. The program kept such an output past the next run and then
    read it; torch refused.

Why it happens
    An output is kept over iterations: collected in a list, returned from a cache, carried as a
    recurrent state. Or it is a gradient: the compiled backward pass makes `.grad` inside the
    graph's memory, and `zero_grad(set_to_none=False)` or gradient accumulation touches it after the
    next run.

How to confirm
    The traceback ends at the line that uses the old tensor; "Stack trace" in the message is the
    line of the compiled code that made it. The error goes away with `mode="default"`.

How to fix
    Clone what must live longer, outside the compiled function. Call
    `torch.compiler.cudagraph_mark_step_begin()` before each iteration's first call (torch 2.2 and
    later) if the outputs of the previous iteration are no longer needed. For gradients:
    `zero_grad(set_to_none=True)`, the default since torch 2.0. To accumulate, allocate `.grad`
    outside the graphs first (one eager step, or zeros), so that the backward pass adds into memory
    that stays.

Limits
    The stack of the making line is missing where Inductor lost it. With a gradient it is the
    forward line whose backward made it.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html
    - https://docs.pytorch.org/docs/stable/generated/torch.compiler.cudagraph_mark_step_begin.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.messages.cudagraph import CudagraphOverwrite
from necropsy_parsers.patterns import lazily

from necropsy.claim import told
from necropsy.evidence.cudagraph_overwrites import CudagraphOverwrites
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.settings import Settings
from necropsy.finding import Fact, Finding, Fix, Place, Severity
from necropsy.provenance.dynamo import claimed_frame, plain_function
from necropsy.releases import torch_release
from necropsy.rule import rule

_GRADIENT: Final = lazily(r"\bzero_grad\b|\.grad\b|clip_grad|grad_norm|_foreach_zero_|unscale_|\.zero_\(\)")
_CLONE: Final = Fix("Clone what must outlive the next call, outside torch.compile: out = model(x).clone()", "code")
_NONE: Final = Fix(
    "Drop gradients instead of zeroing them in place, before the next backward", "code",
    command="optimizer.zero_grad(set_to_none=True)",
)  # fmt: skip
_KEEP: Final = Fix(
    "To accumulate gradients, make .grad outside the graphs first: one eager step, or p.grad = torch.zeros_like(p)",
    "code",
)


def _mark(release: tuple[int, int] | None) -> Fix:
    call = "torch.compiler.cudagraph_mark_step_begin()"
    if release is not None and release < (2, 2):
        call = "torch._inductor.cudagraph_mark_step_begin()"
    return Fix("Or mark the begin of each step, before the compiled model is called", "code", command=call)


def _uses_gradient(error: CudagraphOverwrite, row: ExceptionRow | None) -> bool:
    """Whether the stale tensor is a gradient: the message says so, or the frames that touched it do."""
    if error.gradient:
        return True
    frames = row.main.frames if row is not None else []
    return any(_GRADIENT.search(f.text) or f.function in ("zero_grad", "clip_grad_norm_") for f in frames[-8:])


def _made(error: CudagraphOverwrite) -> Place | None:
    frame = claimed_frame(error.frames)
    if frame is None:
        return None
    return Place(frame.file, frame.line, None, plain_function(frame.function), frame.text, how="compiler's stack")


@rule("CMP020", "cudagraph-output-overwritten", Severity.FATAL)
def check(errors: CudagraphOverwrites, exceptions: Exceptions, settings: Settings) -> Iterator[Finding]:
    """The line that used the old tensor; behind it the line that made it."""
    release = torch_release(settings)
    for error in errors:
        row = exceptions.said(error)
        gradient = _uses_gradient(error, row)
        made = _made(error)
        users = row.places if row is not None else ()
        what = "A gradient that the compiled backward pass made" if gradient else "An output of a CUDA graph"
        origin = f" (from `{made.text}`)" if made is not None and made.text else ""
        user = f" at `{users[0].text}`" if users and users[0].text else ""
        message = (
            f"{what}{origin} was used{user} after a later run of the graph had overwritten it: "
            "its memory belongs to the CUDA graph."
        )
        facts: dict[str, Fact] = {"tensor": "gradient" if gradient else "output"}
        if made is not None:
            facts["made at"] = f"{made.file}:{made.line} in {made.function}"
        fixes = (_NONE, _KEEP, _mark(release)) if gradient else (_CLONE, _mark(release))
        # The traceback shows where the old tensor was met; what has to change is near it, not always that statement.
        met = tuple(replace(p, exactness="function") for p in users[:1])
        code = (*met, *((made,) if made is not None else ()), *users[1:])
        yield from told(error, exceptions, message, Severity.ERROR, facts=facts, fixes=fixes, code=code)
