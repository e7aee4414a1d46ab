"""A branch on a tensor's value breaks the graph

What it means
    Compiled code asks for a tensor's value to decide where to go: `if x.mean() > 1e6`, `while
    loss > eps`, `assert mask.any()`. The value is known on the device only, and only when the
    code runs. Dynamo ends the graph in front of the branch; behind it, each way is compiled as a
    function of its own.

Why it happens
    Guards against outliers, early exits, checks left from debugging; a `max()` or `sorted()` of
    tensors compares them, too. With fullgraph=True the compilation fails instead.

How to confirm
    `TORCH_LOGS=graph_breaks` names the line; two graphs where one was expected.

How to fix
    Compute both ways and choose with `torch.where` or `clamp`; `torch.cond` where both are
    expensive; or decide outside the compiled function. A check that must stay can be
    `torch._check` or an assertion outside.

Limits
    A branch on a shape or on a Python number breaks nothing: it is a guard, and shows as a
    recompilation.

References
    - https://docs.pytorch.org/docs/stable/cond.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.compiles import Compiles
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.frame_skips import FrameSkips
from necropsy.evidence.graph_breaks import GraphBreaks
from necropsy.finding import Finding, Fix, Severity
from necropsy.provenance.breaks import BRANCH
from necropsy.rule import rule
from necropsy.rules.compile._breaks import of_cause, subject, tell

FIXES = (
    Fix("Make it branchless: `torch.where(condition, a, b)`, `clamp`, `nan_to_num`", "code"),
    Fix("Express the branch in the graph with `torch.cond`, or decide outside the compiled function", "code"),
)


@rule("CMP002", "data-dependent-branch", Severity.WARNING)
def check(breaks: GraphBreaks, skips: FrameSkips, exceptions: Exceptions, compiles: Compiles) -> Iterator[Finding]:
    """One finding a line."""
    for incident in of_cause(breaks, skips, BRANCH):
        fact = f"{subject(incident, exceptions)} branches on a tensor's value (data-dependent branching)"
        yield from tell(
            incident, exceptions, compiles, fact, *FIXES,
            cost="each call waits for the value, then runs another compiled piece",
        )  # fmt: skip
