"""An operator whose output shape depends on the data breaks the graph

What it means
    `nonzero`, `x[mask]`, `unique`, `masked_select`, `repeat_interleave` and `one_hot` without a
    class count return as many elements as the data says. A graph of known shapes cannot hold
    that; it ends in front of the operator.

Why it happens
    Boolean indexing to drop padding, sampling of positives, de-duplication inside `forward`.

How to confirm
    `TORCH_LOGS=graph_breaks` names the operator and the line.

How to fix
    Keep the shape: multiply by the mask or use `torch.where` instead of selecting, pad to an
    upper bound, give `output_size=` to `repeat_interleave` and `num_classes=` to `one_hot`. Or
    let Dynamo carry an unknown size: `torch._dynamo.config.capture_dynamic_output_shape_ops =
    True`.

Limits
    With captured unknown sizes, later code that asks about the size breaks in its turn; the
    device is still waited for.

References
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0036.html
    - https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html
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
from necropsy.provenance.breaks import SHAPE, Incident
from necropsy.rule import rule
from necropsy.rules.compile._breaks import of_cause, subject, tell

_OPERATOR: Final = lazily(r"\b(?P<space>aten|torchvision|fbgemm|[a-z]\w+)(?:\.|::)(?P<name>\w+)(?:\.\w+)?")
KEEP: Final = {
    "nonzero": "Keep the shape: multiply by the mask or use `torch.where(mask, x, 0)` instead of selecting",
    "repeat_interleave": "Give the bound: `repeat_interleave(..., output_size=n)`",
    "one_hot": "Give the bound: `one_hot(x, num_classes=n)`",
}
CAPTURE: Final = Fix(
    "Or let the graph carry an unknown size",
    "config",
    "unsafe",
    "torch._dynamo.config.capture_dynamic_output_shape_ops = True",
)


@rule("CMP006", "dynamic-output-shape", Severity.WARNING, aliases=("nonzero-in-compiled-code",))
def check(breaks: GraphBreaks, skips: FrameSkips, exceptions: Exceptions, compiles: Compiles) -> Iterator[Finding]:
    """One finding a line."""
    for incident in of_cause(breaks, skips, SHAPE):
        operator = operator_of(incident)
        fact = f"{subject(incident, exceptions)} has an output whose shape depends on the data (`{operator}`)"
        keep = next((k for name, k in KEEP.items() if name in operator), "Keep the shape: pad to an upper bound")
        meta = "no meta kernel" in incident.told.kind or "does not have a meta kernel" in incident.told.kind
        one_hot = "one_hot" in operator
        yield from tell(
            incident, exceptions, compiles, fact, Fix(keep, "code"), *(() if meta or one_hot else (CAPTURE,))
        )


def operator_of(incident: Incident) -> str:
    """The operator that torch names."""
    told = incident.told
    if "one_hot" in told.kind:
        return "one_hot"
    for text in (told.context, told.kind.split("torch._dynamo.config")[0], told.explanation):
        if (m := _OPERATOR.search(text)) is not None and m["space"] != "torch":
            return m[0]
    return "boolean mask" if "masking" in told.kind else "dynamic shape operator"
