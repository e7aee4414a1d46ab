"""A call that Dynamo does not trace breaks the graph

What it means
    The function is on Dynamo's skip list, implemented in C, marked with `torch.compiler.disable`,
    or a builtin without tracing rules (`open`, `copy.deepcopy` of a tensor). The graph ends in
    front of the call, which runs eagerly.

Why it happens
    Files, clocks, random numbers, NumPy or C extensions used inside `forward`; a decorator whose
    wrapper lives in a skipped file (`once_differentiable` around `backward`); a helper that was
    disabled on purpose. With fullgraph=True the compilation fails instead.

How to confirm
    `TORCH_LOGS=graph_breaks` names the function and, since torch 2.7, the reason.

How to fix
    Move the call out of the compiled function, or compute the same with torch. An extension of
    your own becomes traceable as an operator (`torch.library.custom_op`, since torch 2.4); a
    function that is only to be left alone can be wrapped with `torch.compiler.allow_in_graph`,
    if it keeps its rules.

Limits
    A function that was disabled on purpose is reported all the same: what it splits is told, not
    that it is wrong.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_fine_grain_apis.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0007.html
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
from necropsy.provenance.breaks import CALL, Incident
from necropsy.rule import rule
from necropsy.rules.compile._breaks import of_cause, subject, tell

# How the releases name the function; the first group found is its name.
_NAMES: Final = tuple(
    lazily(p)
    for p in (
        r"module: (?P<module>[\w.]+), qualname: (?P<name>[\w.<>]+)",
        r"qualname: (?P<name>[\w.<>]+)",
        r"inline in skipfiles: (?P<name>[\w.<>]+)",
        r"(?:call_function|skip function) (?P<name>[\w.<>]+) in (?:skip_?files|file)",
        r"wrapped function <(?:function|bound method) (?P<name>[\w.<>]+) ",
        r"^<(?:function|bound method) (?P<name>[\w.<>]+) (?:at|of) ",
        r"(?P<name>copy\.deepcopy)",
        r"builtin operator `(?P<name>[\w.]+)`|BuiltinVariable\((?P<other>\w+)\)",
        r"method `(?P<name>\w+)` of class `(?P<module>\w+)`",
        r"function `(?P<name>[\w.<>]+)` should not be traced|trace the Python builtin `(?P<other>[\w.]+)`",
    )
)
_DISABLED: Final = lazily(r"torch\.compiler\.disable|_dynamo\.disable")
MOVE: Final = Fix("Move the call out of the compiled function, or compute the same with torch operators", "code")
OPERATOR: Final = Fix("Make your own extension an operator: `torch.library.custom_op` (since torch 2.4)", "code")
ALLOW: Final = Fix("If it only must not be traced: `torch.compiler.allow_in_graph`, within its rules", "code")
DECORATOR: Final = Fix(
    "Take `@once_differentiable` off `backward`: its wrapper lives in a file that this torch does not trace", "code"
)


@rule("CMP005", "untraced-call", Severity.WARNING, aliases=("skipped-function", "disallowed-function"))
def check(breaks: GraphBreaks, skips: FrameSkips, exceptions: Exceptions, compiles: Compiles) -> Iterator[Finding]:
    """One finding a line."""
    for incident in of_cause(breaks, skips, CALL):
        kind = incident.told.kind
        name = called(incident)
        what = f"`{name}`" if name else "a function"
        fixes: tuple[Fix, ...]
        if _DISABLED.search(kind):
            fact = f"{subject(incident, exceptions)} calls {what}, which is excluded with `torch.compiler.disable`"
            fixes = (
                Fix("Call it outside the compiled function; if the exclusion is no longer needed, drop it", "code"),
            )
        else:
            fact = f"{subject(incident, exceptions)} calls {what}, which Dynamo skips instead of tracing it"
            wrapped = kind.startswith("inline in skipfiles") and "autograd/function.py" in kind and "| wrapper" in kind
            fixes = (DECORATOR,) if wrapped else (MOVE, OPERATOR, ALLOW)
        yield from tell(
            incident, exceptions, compiles, fact, *fixes, cost="it runs eagerly between two compiled pieces"
        )


def called(incident: Incident) -> str:
    """The function that is not traced, as torch names it."""
    told = incident.told
    for pattern in _NAMES:
        for text in (told.context, told.kind, told.explanation):
            if (m := pattern.search(text)) is not None:
                groups = m.groupdict()
                name = groups.get("name") or groups.get("other") or ""
                module = groups.get("module")
                return f"{module}.{name}" if module and module != "<unknown module>" else name
    return ""
