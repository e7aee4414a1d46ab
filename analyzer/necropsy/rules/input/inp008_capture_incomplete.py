"""A collector of `necropsy capture` did not collect what it was asked for

What it means
    The run folder lacks something that was asked for: the profiler recorded no step, or a collector
    failed. The job itself was not disturbed. What would have been judged by it is listed as not
    evaluated.

Why it happens
    The job ended before its steps were settled; it profiles itself, and two profilers cannot run at
    once; the disk was nearly full; a library is older or newer than the collector knows.

How to confirm
    `notes` in `process-PID.json` of the run folder say what each collector did, and when.

How to fix
    Begin earlier (`--skip 0`, or `--skip -1` for the import of torch), let the job run for more steps,
    or leave out the job's own profiler.

Limits
    Only what collectors noted is told. A process that was killed outright leaves the notes up to then.

References
    - docs/capture.md
    - https://docs.pytorch.org/docs/stable/profiler.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record, process_of
from necropsy.evidence.collector_notes import CollectorNotes
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_MISSED: Final = ("failed", "nothing", "refused", "left", "limit")
_DID: Final = {"failed": "failed", "limit": "stopped early"}
_EARLIER: Final = Fix(
    "Begin earlier, or let the job run for more steps", "command", command="necropsy capture --skip 0"
)


@rule("INP008", "capture-incomplete", Severity.NOTE)
def check(notes: CollectorNotes) -> Iterator[Finding]:
    """One finding a collector and reason; nothing where another process of the run has what is missing."""
    there = {n.collector for n in notes if n.what == "recorded"}
    seen: set[tuple[str, str]] = set()
    for n in notes:
        why = n.facts.get("error") or n.facts.get("why") or n.facts.get("reason") or ""
        if n.what not in _MISSED or not why or (n.collector, why) in seen:
            continue
        if n.what != "failed" and n.collector in there:
            continue
        seen.add((n.collector, why))
        who = process_of(n.origin) or f"process {n.pid}"
        did = _DID.get(n.what, "collected nothing")
        early = n.collector == "profiler" and n.what == "nothing"
        yield from_record(
            n,
            f"The collector `{n.collector}` of {who} {did}{f' ({why})' if why else ''}: what it would have shown is "
            "missing from this report.",
            Severity.NOTE,
            fixes=(_EARLIER,) if early else (),
        )
