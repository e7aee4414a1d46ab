"""Printing, logging or warning inside compiled code breaks the graph

What it means
    `print`, a method of a `logging.Logger` or `warnings.warn` has an effect that no graph can
    hold. Dynamo ends the graph in front of it, calls it, and starts a new graph.

Why it happens
    A line left from debugging, a progress report, a deprecation warning in a helper; a
    distributed logger's wrapper.

How to confirm
    `TORCH_LOGS=graph_breaks` names the line and the function.

How to fix
    Take it out of the compiled function, or guard it with
    `if not torch.compiler.is_compiling()` (since torch 2.1). Functions that may run late go to
    `torch._dynamo.config.reorderable_logging_functions` (since torch 2.3): they are called with
    their values where the graph ends. Logger methods that may be dropped go to
    `torch._dynamo.config.ignore_logger_methods` (since 2.6).

Limits
    A reordered `print` needs arguments that Dynamo can rebuild: tensors, constants, formatted
    strings.

References
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html
    - https://docs.pytorch.org/docs/stable/torch.compiler_faq.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy.evidence.compiles import Compiles
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.frame_skips import FrameSkips
from necropsy.evidence.graph_breaks import GraphBreaks
from necropsy.finding import Finding, Fix, Severity
from necropsy.provenance.breaks import OUTPUT, Incident
from necropsy.rule import rule
from necropsy.rules.compile._breaks import of_cause, subject, tell

MOVE: Final = Fix("Take it out of the compiled function, or run it only `if not torch.compiler.is_compiling()`", "code")


@rule("CMP004", "output-in-graph", Severity.WARNING, aliases=("print-in-compiled-code", "logging-in-compiled-code"))
def check(breaks: GraphBreaks, skips: FrameSkips, exceptions: Exceptions, compiles: Compiles) -> Iterator[Finding]:
    """One finding a line."""
    for incident in of_cause(breaks, skips, OUTPUT):
        what = writer(incident)
        yield from tell(
            incident,
            exceptions,
            compiles,
            f"{subject(incident, exceptions)} calls {what} in compiled code",
            MOVE,
            late(what),
        )


def writer(incident: Incident) -> str:
    """What writes: print, a logger, warnings."""
    told = incident.told
    text = f"{told.kind} {told.context} {told.explanation}"
    if re.search(r"\bprint\b", text):
        return "`print`"
    if re.search(r"[Ll]ogger|logging", text):
        return "a logger"
    if "warn" in text:
        return "`warnings.warn`"
    return "a logging function"


def late(what: str) -> Fix:
    """The setting for that writer."""
    if what == "a logger":
        return Fix(
            "Or let Dynamo leave the logger's method out (since torch 2.6)", "config", "unsafe",
            "torch._dynamo.config.ignore_logger_methods.add(logging.Logger.info)",
        )  # fmt: skip
    name = "warnings.warn" if "warn" in what else "print"
    return Fix(
        "Or let Dynamo call it where the graph ends (since torch 2.3)", "config", "unsafe",
        f"torch._dynamo.config.reorderable_logging_functions.add({name})",
    )  # fmt: skip
