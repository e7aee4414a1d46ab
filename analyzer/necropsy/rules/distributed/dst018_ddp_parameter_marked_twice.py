"""A parameter's gradient became ready twice in one backward pass

What it means
    DDP reduces each gradient once per backward. A parameter whose hook fires twice breaks that
    bookkeeping.

Why it happens
    Reentrant activation checkpointing of a module that is used more than once; a parameter
    shared by two modules; several backward passes through one forward; unused-parameter
    detection together with checkpointing.

How to confirm
    TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameter; look where its module is called.

How to fix
    Use `checkpoint(..., use_reentrant=False)`, or `static_graph=True` if the graph never
    changes.

Limits
    Without DETAIL only the index, or nothing, is told.

References
    - https://docs.pytorch.org/docs/stable/checkpoint.html
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.claim import from_exception
from necropsy.evidence.ddp_errors import DdpErrors
from necropsy.evidence.exceptions import Exceptions
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_NAMES = Fix(
    "To see its name, run with TORCH_DISTRIBUTED_DEBUG=DETAIL",
    "env",
    "safe",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...",
)


@rule("DST018", "ddp-parameter-marked-twice", Severity.FATAL)
def check(errors: DdpErrors, exceptions: Exceptions) -> Iterator[Finding]:
    """One finding a rank that raises."""
    for error in errors:
        row = exceptions.said(error)
        if error.kind != "twice" or row is None:
            continue
        which = (
            f"`{error.names[0]}`"
            if error.names
            else f"with index {error.indices[0]}"
            if error.indices
            else "of the model"
        )
        yield from_exception(
            row,
            f"The parameter {which} was marked ready twice in one backward pass, which DDP cannot reduce.",
            facts={"parameter": error.names[0]} if error.names else {},
            fixes=(
                *(() if error.names else (_NAMES,)),
                Fix("Checkpoint without reentry: torch.utils.checkpoint.checkpoint(..., use_reentrant=False)", "code"),
                Fix(
                    "If the graph is the same in every iteration, pass static_graph=True to DistributedDataParallel",
                    "code",
                ),
            ),
        )
