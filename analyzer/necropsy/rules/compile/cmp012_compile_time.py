"""Compiling takes a large part of the run

What it means
    Of the time that the log covers, this part went into tracing, lowering, code generation
    and autotuning. The step that waits for it is slow, every later one is not, so that
    short jobs lose most.

Why it happens
    Large models compiled as a whole, many recompilations, `max-autotune`, and caches that
    do not outlive the job: on a cluster each node starts with an empty `/tmp`.

How to confirm
    `TORCH_LOGS=dynamo` prints the seconds of each phase at the end of a process; a second
    run with a warm cache shows what the cache would save.

How to fix
    Put the cache where it lasts (`TORCHINDUCTOR_CACHE_DIR` on a disk that the next job
    sees). Compile the repeated block instead of the whole model (`layer.compile()`), so
    that one compilation serves all copies. Remove the recompilations first, if there are
    any: each is a compilation of its own.

Limits
    The time is the processes' own sum where they print it, else the clock from the first
    step of each compilation to its last. A log that ends early makes the share look large.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    - https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.messages.compile_step import CompileStep
from necropsy_parsers.records import Record

from necropsy.claim import from_record
from necropsy.evidence.compiles import CompileRow, Compiles
from necropsy.finding import Confidence, Cost, Fact, Finding, Fix, Place, Severity
from necropsy.provenance.dynamo import plain_function
from necropsy.provenance.frames import is_library
from necropsy.rule import rule


class Thresholds(Struct, frozen=True):
    """`seconds` and `share` of the time that the log covers, from which compiling is worth a warning.

    A first compilation of a minute is common for models of today; both are choices of this
    project, no figures of torch's.
    """

    seconds: float = 60.0
    share: float = 0.3


_FIXES: Final = (
    Fix("Set `TORCHINDUCTOR_CACHE_DIR` to a folder that the next job sees, and compare its second run", "env"),
    Fix("Compile the repeated block (`layer.compile()`) instead of the whole model", "code"),
)


@rule("CMP012", "compile-time", Severity.WARNING, settings=Thresholds)
def check(compiles: Compiles, t: Thresholds) -> Iterator[Finding]:
    """The attempt in which a process spent the largest share on compiling, if it passes both thresholds."""
    found = [(seconds, span, source) for seconds, span, source in _shares(compiles) if span > 0]
    if not found:
        yield from _measured(compiles, t)
        return
    seconds, span, (told, rows) = max(found, key=lambda x: x[0])
    share = min(1.0, seconds / span)
    if seconds < t.seconds or share < t.share:
        return
    longest = max(rows, key=lambda r: r.seconds or 0.0, default=None)
    facts: dict[str, Fact] = {"compiling (s)": round(seconds, 1), "log covers (s)": round(span, 1)}
    if rows:
        facts["compilations"] = len(rows)
        facts["recompilations"] = sum(not r.compile_id.endswith("/0") for r in rows)
    if longest is not None and longest.seconds:
        facts["longest"] = f"{plain_function(longest.function)}: {longest.seconds:.1f} s [{longest.compile_id}]"
    head: Record = told if told is not None else _first(rows)
    yield from_record(
        head,
        f"Compiling took {seconds:.0f} s of the {span:.0f} s that the log covers ({share:.0%}); steps wait for it.",
        Severity.WARNING,
        confidence=Confidence.CERTAIN if told is not None else Confidence.LIKELY,
        code=_place(longest),
        cost=Cost(int(seconds * 1e9), share, "measured" if told is not None else "estimated"),
        facts=facts,
        fixes=_FIXES,
    )


def _measured(compiles: Compiles, t: Thresholds) -> Iterator[Finding]:
    """What compiling took by the structured log of the slowest process: it does not tell how long the run was."""
    by_process: dict[tuple[int | None, int | None], list[CompileRow]] = {}
    for row in compiles:
        if row.measured is not None:
            by_process.setdefault((row.origin.rank, row.origin.pid), []).append(row)
    if not by_process:
        return
    rows = max(by_process.values(), key=lambda found: sum(r.measured or 0.0 for r in found))
    seconds = sum(r.measured or 0.0 for r in rows)
    longest = max(rows, key=lambda r: r.measured or 0.0)
    if seconds < t.seconds:
        return
    yield from_record(
        _first(rows),
        f"Compiling took {seconds:.0f} s in {len(rows)} compilation{'s' if len(rows) > 1 else ''}; steps wait for it. "
        "How long the run was, the structured log does not tell.",
        Severity.NOTE,
        code=_place(longest),
        cost=Cost(int(seconds * 1e9), None, "measured"),
        facts={
            "compiling (s)": round(seconds, 1),
            "compilations": len(rows),
            "recompilations": sum(not r.compile_id.endswith("/0") for r in rows),
            "longest": f"{plain_function(longest.function)}: {longest.measured or 0.0:.1f} s [{longest.compile_id}]",
        },
        fixes=_FIXES,
    )


_Source = tuple[CompileStep | None, Sequence[CompileRow]]


def _shares(compiles: Compiles) -> Iterator[tuple[float, float, _Source]]:
    """(compile seconds, covered seconds, where they come from) of each process."""
    by_process: dict[tuple[str, int, int | None, int | None], list[CompileRow]] = {}
    for row in compiles:
        by_process.setdefault((row.anchor.input, row.attempt, row.origin.rank, row.origin.pid), []).append(row)
    told = {
        (s.anchor.input, s.attempt, s.origin.rank, s.origin.pid): s
        for s in compiles.steps
        if s.step == "metrics" and s.seconds
    }
    for key in {**dict.fromkeys(by_process), **dict.fromkeys(told)}:
        rows, step = by_process.get(key, []), told.get(key)
        span = compiles.span(key[0], key[1])
        seconds = step.seconds if step is not None else sum(r.seconds or 0.0 for r in rows)
        if span is not None and seconds:
            yield seconds, span, (step, rows)


def _first(rows: Sequence[CompileRow]) -> Record:
    row = rows[0]
    return Record(row.anchor, origin=row.origin, seq=row.seq, attempt=row.attempt)


def _place(row: CompileRow | None) -> tuple[Place, ...]:
    if row is None or not row.file or is_library(row.file):
        return ()
    return (Place(row.file, row.line, None, plain_function(row.function), "", "function", "compile log"),)
