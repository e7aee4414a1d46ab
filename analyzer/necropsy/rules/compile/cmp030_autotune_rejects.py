"""Configurations that autotuning dropped: harmless if a winner was found

What it means
    To find the fastest kernel Inductor tries many tilings. Some need more shared memory or
    registers than a multiprocessor has ("out of resource", in torch's own launcher an
    `OutOfMemoryError`). They are dropped and the others are timed. Device memory has nothing to do
    with it. Only if no choice is left is there no kernel.

Why it happens
    The lists of configurations are made for large GPUs; on one with less shared memory (about 100
    KB of an RTX card, 164 KB of an A100, 228 KB of an H100) the larger tiles and deeper pipelines
    do not fit. No choice is left if only Triton's are allowed (`max_autotune_gemm_backends`) and
    none fits, or a single fixed configuration does not fit.

How to confirm
    A table `AUTOTUNE mm(...)` follows with a winner at 100.0%. `NoValidChoicesError` or an uncaught
    "No valid triton configs" means that none was left.

How to fix
    With a winner: nothing. Newer releases drop such configurations before compiling them. Without:
    allow ATEN in `torch._inductor.config.max_autotune_gemm_backends`; in kernels of your own, offer
    smaller BLOCK sizes and fewer `num_stages`.

Limits
    The table goes to stderr without rank or time; where logs are filtered it may be missing
    although a winner was found.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    - https://github.com/pytorch/pytorch/pull/161040
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.messages.autotune import AutotuneReject
from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, from_record
from necropsy.evidence.activity import Activity
from necropsy.evidence.autotune import Autotune
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.finding import Confidence, Fact, Finding, Fix, Severity
from necropsy.rule import rule

_ATEN: Final = Fix(
    "Allow a library kernel as a choice", "config",
    command='torch._inductor.config.max_autotune_gemm_backends = "ATEN,TRITON"',
)  # fmt: skip
_SMALLER: Final = Fix(
    "Offer the kernel smaller BLOCK sizes or fewer num_stages (and num_warps) in its configurations", "code"
)

# ptxas or Triton do not know the GPU: smaller blocks would not help.
_TOOLCHAIN: Final = lazily(r"gpu-name|ptxas|is not a recognized processor")


def _need(reject: AutotuneReject) -> str:
    if reject.required is None or reject.limit is None:
        return ""
    unit = " bytes" if reject.kind == "shared memory" else ""
    return f"{reject.kind}: {reject.required}{unit} needed, {reject.limit} there"


def _ended(reject: AutotuneReject, row: ExceptionRow) -> Finding:
    """The exception that says that nothing is left to choose from."""
    need = _need(reject)
    if reject.kind == "none":
        message = (
            "Autotuning is left with no kernel: every configuration was dropped and no library kernel may be chosen."
        )
        fixes: tuple[Fix, ...] = (_ATEN,)
    elif need:
        message = (
            f"No configuration of a Triton kernel fits a multiprocessor of this GPU ({need}); "
            "device memory is not short."
        )
        fixes = (_SMALLER,)
    else:
        message = f"No configuration of a Triton kernel compiles for this GPU: {reject.text[:160]}."
        fixes = (_SMALLER,)
    return from_exception(row, message, facts=_facts([reject]), fixes=fixes)


def _facts(rejects: Sequence[AutotuneReject]) -> dict[str, Fact]:
    kinds: dict[str, Fact] = {}
    for kind in sorted({r.kind for r in rejects}):
        kinds[f"dropped for {kind}"] = sum(r.kind == kind for r in rejects)
    needs = [r for r in rejects if r.required is not None and r.kind == "shared memory"]
    if needs:
        kinds["bytes of shared memory there"] = min(r.limit for r in needs if r.limit is not None)
        kinds["most bytes needed"] = max(r.required for r in needs if r.required is not None)
    return kinds


@rule("CMP030", "autotune-rejects", Severity.NOTE)
def check(autotune: Autotune, exceptions: Exceptions, activity: Activity) -> Iterator[Finding]:
    """One note an attempt about what was dropped, or the exception that ended it; an error if nothing won."""
    dropped: dict[int, list[AutotuneReject]] = {}
    tables: dict[int, list[int]] = {}  # where the winners of each attempt stand
    for table in autotune:
        if table.ms is not None or table.seconds is not None:
            tables.setdefault(table.attempt, []).append(table.seq)
    last = {attempt: seqs[-1] for attempt, seqs in tables.items()}
    told: set[int] = set()
    ended: set[int] = set()  # attempts whose end is told by an exception
    for reject in autotune.rejects:
        row = exceptions.said(reject)
        if row is not None and (row.seq in told or _TOOLCHAIN.search(row.everything)):
            continue  # each exception of a chain says it; what no configuration can compile is CMP011's
        if row is not None and row.kind != "logged" and last.get(reject.attempt, -1) < reject.seq:
            told.add(row.seq)
            ended.add(reject.attempt)
            yield _ended(reject, row)
        elif row is not None:  # the traceback of a dropped one is part of its message
            told.add(row.seq)
            yield from_exception(
                row, f"Autotuning dropped a configuration ({_need(reject) or reject.text[:120]}).",
                severity=Severity.NOTE, leaves=frozenset(),
            )  # fmt: skip
        else:
            dropped.setdefault(reject.attempt, []).append(reject)
    for attempt, rejects in dropped.items():
        if attempt in ended and attempt not in tables:
            continue
        first, final = rejects[0], rejects[-1]
        number = f"{len(rejects)} configuration{'s' if len(rejects) > 1 else ''}"
        facts = {**_facts(rejects), "tables of timings": len(tables.get(attempt, []))}
        ranks = tuple(sorted({r.origin.rank for r in rejects if r.origin.rank is not None}))
        if any(r.kind == "none" for r in rejects):
            none = next(r for r in rejects if r.kind == "none")
            yield from_record(
                none, "Autotuning is left with no kernel: no choice is valid.", Severity.ERROR, activity=activity,
                fixes=(_ATEN,), facts=facts,
            )  # fmt: skip
        elif attempt in tables:
            yield from_record(
                first,
                f"Autotuning dropped {number} that this GPU cannot run and found a winner: harmless, "
                "device memory is not short.",
                Severity.NOTE, ranks=ranks, facts=facts, count=len(rejects),
            )  # fmt: skip
        else:
            yield from_record(
                final,
                f"Autotuning dropped {number} that this GPU cannot run, and the log shows no table with a winner.",
                Severity.ERROR, activity=activity, ranks=ranks, facts=facts, count=len(rejects),
                fixes=(_ATEN, _SMALLER), confidence=Confidence.POSSIBLE,
            )  # fmt: skip
