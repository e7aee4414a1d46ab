"""Compiled autograd captures the backward pass again and again

What it means
    With `torch._dynamo.config.compiled_autograd` the backward pass is captured as one graph and compiled. A
    backward pass of another shape (other nodes of autograd, or other sizes) is captured and compiled anew: the
    step that does so takes as long as a compilation.

Why it happens
    The forward pass took another branch, so that other operations ran; parameters without a gradient in one step
    have one in the next (accumulation, frozen layers, layers that are skipped at random); the batch changed its
    size. A size that changes is made dynamic after the first time, a node is not.

How to confirm
    `TORCH_LOGS=compiled_autograd_verbose` names the node at which the backward pass differs from those known.
    `AccumulateGrad` means that a gradient that was there is missing, or the reverse; `TanhBackward0` that the
    forward pass ran a `tanh` that it did not run before.

How to fix
    Keep the set of operations and of parameters with gradients the same in all steps: no branches on the step
    number, `zero_grad(set_to_none=False)` where only some steps accumulate. `drop_last=True` keeps the batch size.
    Where the program needs both shapes, they are compiled once each: count the captures over more steps.

Limits
    The log names nodes of autograd and no lines. The first capture of a process is what any run pays, and is not
    counted.

References
    - https://docs.pytorch.org/tutorials/intermediate/compiled_autograd_tutorial.html
    - torch/csrc/dynamo/python_compiled_autograd.cpp (`VerboseLogger`), torch 2.4 to 2.13
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from necropsy_parsers.messages.backward_capture import BackwardCapture

from necropsy.claim import from_record, process_of
from necropsy.evidence.backward_captures import BackwardCaptures
from necropsy.finding import Finding, Fix, Related, Severity
from necropsy.rule import rule


class Thresholds(Struct, frozen=True):
    """`again`: captures of one process, the first left out, from which it is a warning (two shapes are common)."""

    again: int = 3


_GRADIENTS = Fix(
    "Give the same parameters a gradient in each step; where some steps accumulate, call "
    "`optimizer.zero_grad(set_to_none=False)`",
    "code",
)
_BRANCH = Fix("Run the same operations in each step, or take the branch out of the compiled step", "code")
_SIZES = Fix("Keep the batch size: `DataLoader(..., drop_last=True)`, or pad the last batch", "code")


@rule("CMP032", "backward-captured-again", Severity.WARNING, settings=Thresholds)
def check(captures: BackwardCaptures, t: Thresholds) -> Iterator[Finding]:
    """One finding for the process that captured most; the others are its ranks."""
    processes: dict[tuple[object, ...], list[BackwardCapture]] = {}
    for row in captures:
        if not row.first:
            key = (row.anchor.input, row.attempt, row.origin.pid, process_of(row.origin))
            rows = processes.setdefault(key, [])
            if not (rows and _one_by_one(row) and _one_by_one(rows[-1])):
                rows.append(row)
    if not processes:
        return
    most = max(processes.values(), key=len)
    again = "once" if len(most) == 1 else f"{len(most)} times"
    yield from_record(
        most[0],
        f"Compiled autograd captured and compiled the backward pass {again} more after the first time, "
        f"{_why(most)}: each such step takes as long as a compilation.",
        Severity.WARNING if len(most) >= t.again else Severity.NOTE,
        ranks=tuple(sorted({r.origin.rank for rows in processes.values() for r in rows if r.origin.rank is not None})),
        facts={"captured again": len(most), "nodes": list(_nodes(most))[:8], "processes": len(processes)},
        fixes=_fixes(most),
        related=tuple(Related(r.anchor, r.node or f"{r.sizes} sizes") for r in most[1:4]),
        count=sum(len(rows) for rows in processes.values()),
    )


def _one_by_one(row: BackwardCapture) -> bool:
    """Torch 2.4 and 2.5 print a line for each size that changed: those of one capture stand together."""
    return row.cause == "sizes" and not row.sizes


def _nodes(rows: Sequence[BackwardCapture]) -> Counter[str]:
    return Counter(r.node.rpartition("::")[2] for r in rows if r.node)


def _why(rows: Sequence[BackwardCapture]) -> str:
    nodes, sizes = _nodes([r for r in rows if r.cause == "node"]), sum(r.cause == "sizes" for r in rows)
    told = [f"{sum(nodes.values())} for other nodes of autograd (`{'`, `'.join(list(nodes)[:2])}`)"] if nodes else []
    told += [f"{sizes} for changed sizes"] if sizes else []
    return " and ".join(told)


def _fixes(rows: Sequence[BackwardCapture]) -> tuple[Fix, ...]:
    nodes = _nodes([r for r in rows if r.cause == "node"])
    found = [_GRADIENTS] if "AccumulateGrad" in nodes else []
    found += [_BRANCH] if any(n not in ("AccumulateGrad", "GraphRoot") for n in nodes) else []
    return (*found, _SIZES) if any(r.cause == "sizes" for r in rows) else tuple(found)
