"""A function that torch.compile was given runs without compilation

What it means
    The function under torch.compile's wrapper is an ordinary Python function in the trace: no compiled region
    encloses it. At most functions that it calls are compiled, each apart; all between
    them runs operator by operator.

Why it happens
    A graph break where Dynamo cannot go on behind it (inside a loop, a `with` or a `try` block):
    then the whole function is left to Python. Or Dynamo gave up on it: the recompile limit was
    hit, or it failed and errors are suppressed.

How to confirm
    `TORCH_LOGS=graph_breaks,recompiles` says which; `torch.compile(fullgraph=True)` makes it an error.

How to fix
    Take the break out of the loop: keep values on the device (no `.item()`, `if tensor:`, printing), or move the check
    out of the compiled function.

Limits
    From torch 2.8 on, whose wrapper has a name of its own; with `with_stack=True`. The line
    of the break is not in the trace. Where no function below it is compiled either,
    somebody may have switched compilation off on purpose.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html#graph-breaks
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about

if TYPE_CHECKING:
    from necropsy.trace.compiling import Eager
    from necropsy.trace.profile import Profile


@rule("CMP024", "compiled-function-eager", Severity.WARNING)
def check(traces: Traces) -> Iterator[Finding]:
    """One finding a function that most steps call."""
    for p in traces.profiles:
        if not any("compile_wrapper" in name for name in p.trace.names):
            continue
        from necropsy.trace.compiling import eager_functions

        for e in eager_functions(p):
            yield _finding(p, e)


def _finding(p: Profile, e: Eager) -> Finding:
    pieces = f"only what it calls is compiled, in {e.pieces:.3g} pieces" if e.pieces else "nothing in it is compiled"
    reads = ", and it reads values of tensors (`.item()` or a branch), which breaks graphs" if e.reads else ""
    facts: dict[str, Fact] = {f"calls a {p.step_word}": round(p.per_step(e.count), 1), "compiled pieces": e.pieces}
    fixes = [
        Fix("See what stopped it", "investigate", command="TORCH_LOGS=graph_breaks,recompiles python train.py"),
        Fix("Take the graph break out of the loop, `with` or `try` block that it is in", "code"),
    ]
    if e.reads:
        fixes.insert(
            0, Fix(f"Keep values on the device in {e.place.function}: `torch.where` instead of a branch", "code")
        )
    return about(
        p,
        f"torch.compile was given {e.place.function}, which runs without compilation in "
        f"{e.steps} of {len(p.steps)} {p.step_word}s: {pieces}{reads}.",
        Severity.WARNING,
        shows="torch/_dynamo/eval_frame.py: compile_wrapper, Torch-Compiled Region",
        places=[e.place],
        confidence=Confidence.CERTAIN if e.pieces else Confidence.LIKELY,
        facts=facts,
        fixes=tuple(fixes),
    )
