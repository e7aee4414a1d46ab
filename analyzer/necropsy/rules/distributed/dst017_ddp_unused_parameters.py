"""Parameters got no gradient, and DDP cannot finish its reduction

What it means
    DistributedDataParallel waits for the gradient of every parameter. In the iteration
    *before* the error some parameters took no part in the loss, so the reduction of that
    iteration never finished; the next forward call notices.

Why it happens
    A module that is built but not used; a branch that this rank's batch did not take; an output
    of forward that is not part of the loss.

How to confirm
    TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters. If only some ranks raise, the branch
    depends on the data.

How to fix
    Remove the unused module, or let every parameter take part (a zero-weighted term), or pass
    `find_unused_parameters=True` if the branch is really conditional.

Limits
    The traceback is of the next forward call; the place to mend is where the named module is
    (not) used. Indices alone can be looked up with `list(model.named_parameters())`.

References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from necropsy_parsers.messages.ddp_error import DdpError

from necropsy.claim import from_exception
from necropsy.conditions import PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.ddp_errors import DdpErrors
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.settings import Settings
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule

_CONDITIONAL = Fix(
    (
        "If the branch depends on the data, add a zero-weighted use of the module on the other path, "
        "or pass find_unused_parameters=True"
    ),
    "code",
)
_NAMES = Fix(
    "To see their names, run with TORCH_DISTRIBUTED_DEBUG=DETAIL",
    "env",
    "safe",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...",
)


def _what(error: DdpError) -> str:
    if error.names:
        modules = sorted({n.rsplit(".", 1)[0] for n in error.names})
        shown = ", ".join(f"`{m}`" for m in modules[:3]) + (f" and {len(modules) - 3} more" if len(modules) > 3 else "")
        return f"Parameters of {shown}"
    if error.indices:
        return f"The parameters with index {', '.join(map(str, error.indices[:8]))}" + (
            " ..." if len(error.indices) > 8 else ""
        )
    return "Some parameters"


def _fixes(error: DdpError, row: ExceptionRow, *, detailed: bool) -> tuple[Fix, ...]:
    """What to change; the names only if they are not known, and no unused-parameter search beside a static graph."""
    what = _what(error)
    use = Fix(f"Use {what[0].lower()}{what[1:]} in every forward pass, or remove the module", "code")
    if "static_graph" in row.text:
        static = Fix("Remove static_graph=True: which parameters are used changes between iterations", "code")
        return (static, use) if error.names or detailed else (static, use, _NAMES)
    return (use, _CONDITIONAL) if error.names or detailed else (use, _CONDITIONAL, _NAMES)


@rule("DST017", "ddp-unused-parameters", Severity.FATAL, aliases=("find-unused-parameters",))
def check(errors: DdpErrors, exceptions: Exceptions, settings: Settings) -> Iterator[Finding]:
    """One finding a rank that raises; copies of one place become one with all ranks."""
    detailed = any(s.name == "TORCH_DISTRIBUTED_DEBUG" for s in settings)
    for error in errors:
        row = exceptions.said(error)
        if error.kind != "unused" or row is None:
            continue
        on = f" on rank {error.rank}" if error.rank is not None else ""
        facts: dict[str, Fact] = {}
        if error.names:
            facts["parameters"] = list(error.names[:20])
        if error.indices:
            facts["parameter indices"] = list(error.indices[:40])
        yield from_exception(
            row,
            (
                f"{_what(error)} got no gradient in the iteration before{on} (not used in the loss), "
                "so DDP could not finish its reduction."
            ),
            code=tuple(replace(p, exactness="function", how="raised one iteration later") for p in row.places),
            ranks=(error.rank,) if error.rank is not None else (),
            facts=facts,
            fixes=_fixes(error, row, detailed=detailed),
            leaves=frozenset({PROCESS_DIED, PEER_ABSENT}),
        )
