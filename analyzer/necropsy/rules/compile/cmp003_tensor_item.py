"""A tensor's value is read into Python inside compiled code

What it means
    `.item()`, `.tolist()`, `int(t)`, `float(t)` or a slice by a tensor need the number itself. The
    graph ends in front of it, the device is waited for, and the rest is compiled separately.

Why it happens
    Metrics computed in `forward`, a bound read for `clamp`, lengths taken from a tensor, code
    inside an `autograd.Function` that was written for eager mode.

How to confirm
    `TORCH_LOGS=graph_breaks` names the line; torch's warning "Graph break from `Tensor.item()`"
    tells the same once a process (with the line since torch 2.7).

How to fix
    Keep it a tensor: most operators take 0-dim tensors where they take numbers. Return metrics
    as tensors and read them outside, not at every step. Only where the number is needed
    inside the graph: `torch._dynamo.config.capture_scalar_outputs = True`; it removes the
    break, but not the synchronisation if eager code reads the value later, and branches on it
    break again.

Limits
    What it costs depends on how busy the device is at that point; a trace tells.

References
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0124.html
    - https://docs.pytorch.org/docs/stable/torch.compiler_faq.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.patterns import lazily

from necropsy.evidence.compiles import Compiles
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.frame_skips import FrameSkips
from necropsy.evidence.graph_breaks import GraphBreaks
from necropsy.finding import Finding, Fix, Severity
from necropsy.provenance.breaks import SCALAR, Incident
from necropsy.rule import rule
from necropsy.rules.compile._breaks import of_cause, subject, tell

_OPERATOR: Final = lazily(r"\baten[.:\w]+")
KEEP: Final = Fix(
    "Keep the value a tensor on the device; return it and read it outside the compiled function, not every step", "code"
)
CAPTURE: Final = Fix(
    "Only if the number itself is needed inside the graph: capture scalar reads",
    "config",
    "unsafe",
    "torch._dynamo.config.capture_scalar_outputs = True",
)
SLICE: Final = Fix("Take the bound as a Python int from outside the compiled function", "code")
INTEGERS: Final = Fix("`tolist()` is traced for integer tensors only: convert outside the compiled function", "code")


@rule("CMP003", "tensor-item", Severity.WARNING, aliases=("scalar-read", "tensor-tolist", "int-of-tensor"))
def check(breaks: GraphBreaks, skips: FrameSkips, exceptions: Exceptions, compiles: Compiles) -> Iterator[Finding]:
    """One finding a line."""
    for incident in of_cause(breaks, skips, SCALAR):
        fact = f"{subject(incident, exceptions)} reads a tensor's value into Python ({read_by(incident)})"
        yield from tell(
            incident, exceptions, compiles, fact, *fixes_of(incident),
            cost="each call waits for the device (synchronisation) between two compiled pieces",
        )  # fmt: skip


def read_by(incident: Incident) -> str:
    """What reads the value: the method, or the operator that Dynamo names."""
    told = incident.told
    if "olist" in told.kind:
        return "`Tensor.tolist()`"
    if "licing" in told.kind or "index(" in told.kind:
        return "an index or slice bound"
    m = _OPERATOR.search(f"{told.kind} {told.context}")
    if m is not None and "_local_scalar_dense" not in m[0] and "item" not in m[0]:
        return f"operator `{m[0].rstrip('.:')}`"
    return "scalar read, `Tensor.item()`"


def fixes_of(incident: Incident) -> tuple[Fix, ...]:
    """What helps with this way of reading."""
    kind = incident.told.kind
    if "olist" in kind:
        return (KEEP, INTEGERS)
    if "licing" in kind or "index(" in kind:
        return (SLICE,)
    return (KEEP, CAPTURE)
