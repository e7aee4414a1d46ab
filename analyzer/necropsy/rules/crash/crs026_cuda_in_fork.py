"""A forked process uses the GPU that its parent had already begun to use

What it means
    CUDA's state does not survive a fork: the child has the parent's memory, but not its threads and
    not its context on the device. torch refuses to go on.

Why it happens
    On Linux multiprocessing forks by default. A data set or collate function makes tensors on the GPU
    in DataLoader workers; or a process is started after the first call of CUDA.

How to confirm
    The traceback ends in `torch/cuda/__init__.py`, `_lazy_init`; the line before it, in your code, is
    the one that first touches the GPU in the child.

How to fix
    Keep data on the CPU in workers and move batches to the GPU in the loop. Else start the processes
    with `spawn` or `forkserver`, or before anything uses CUDA.

Limits
    Which line of the parent used the GPU first, the log does not tell.

References
    - https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing
    - torch/cuda/__init__.py, torch/xpu/__init__.py (`_lazy_init`), torch 1.0 to 2.13
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception
from necropsy.evidence.exceptions import Exceptions
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

FORKED: Final = lazily(r"Cannot re-initialize (?P<device>\w+) in forked subprocess")
_LOADED: Final = lazily(r"Caught \w+ in DataLoader worker process")
_ON_CPU: Final = Fix(
    "Return CPU tensors from the data set and collate_fn, and move each batch in the loop: pin_memory=True, "
    "batch.to(device, non_blocking=True)",
    "code",
)
_SPAWNED: Final = Fix(
    "Or have the DataLoader start fresh processes: each then has a context of its own on the GPU",
    "code",
    command='DataLoader(..., multiprocessing_context="spawn")',
)
_SPAWN: Final = Fix(
    "Start the processes afresh", "code", command='torch.multiprocessing.get_context("spawn").Process(...)'
)
_BEFORE: Final = Fix("Or start them before anything in the parent touches the GPU", "code")


@rule("CRS026", "cuda-in-fork", Severity.FATAL)
def check(exceptions: Exceptions) -> Iterator[Finding]:
    """One finding a traceback."""
    for row in exceptions:
        m = FORKED.search(row.text)
        if m is None:
            continue
        loaded = _LOADED.search(row.everything) is not None
        who = "A DataLoader worker" if loaded else "A forked process"
        yield from_exception(
            row,
            f"{who} uses the GPU here, but was forked from a process that had used {m['device']} already, whose state "
            "does not survive a fork.",
            facts={"exception": row.type},
            fixes=(_ON_CPU, _SPAWNED) if loaded else (_SPAWN, _BEFORE),
        )
