"""A process died while Dynamo traced a line of the program

What it means
    The log of the process ends with lines that Dynamo (the part of torch.compile that reads Python code) traced, and
    a signal ended the process. It was still tracing: the line that it looked at last is where to search.

Why it happens
    Tracing runs operators on tensors without data, imports modules and calls code of extensions: what crashes there
    crashes the process. Or memory of the host ran out while it traced a large model, and the kernel killed it.

How to confirm
    Run the function once without torch.compile. Run it again with `TORCH_LOGS=trace_source` and see whether it ends
    at the same line; at another one each time it is memory or a hang, not the line.

How to fix
    Keep the call on that line out of the compiled function (`torch.compiler.disable`), or register it as a custom
    operator with a fake implementation (`torch.library.custom_op`).

Limits
    Only with `TORCH_LOGS=trace_source`. A line is told when tracing reaches it, not when it is through with it. The
    rule is silent if the compiler logs anything else behind that line, if it is a `return`, and unless the end of the
    process is told within a few lines: a program that went on prints something.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    - torch/_dynamo/symbolic_convert.py (`trace_source`), torch 2.1 to 2.13
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.messages.process_exit import ProcessExit
from necropsy_parsers.tallies.last_traced import LastTraced

from necropsy.claim import from_record, one_line
from necropsy.evidence.last_traced import LastTracedLines
from necropsy.evidence.process_exits import ProcessExits
from necropsy.finding import Confidence, Finding, Fix, Related, Severity
from necropsy.provenance.dynamo import claimed_frame
from necropsy.provenance.frames import place_of
from necropsy.rule import rule

AT_ONCE: Final = 5  # lines from the traced line to the message about the end


@rule("CMP033", "died-while-tracing", Severity.NOTE)
def check(traced: LastTracedLines, exits: ProcessExits) -> Iterator[Finding]:
    """One note a process that a signal ended."""
    for row in traced:
        end = next((e for e in exits if e.signal and _of(e, row, traced.rows)), None)
        frame = claimed_frame(row.frames)
        if end is None or frame is None or frame.text.startswith("return "):
            continue  # behind a `return` nothing of the function is left to trace
        inner = row.frames[-1]
        inside = "" if inner is frame else f", inside `{inner.function}` ({inner.file.rpartition('/')[2]}:{inner.line})"
        yield from_record(
            row,
            f"The process was ended by {end.signal} while Dynamo traced `{one_line(frame.text or frame.file, 80)}` in "
            f"`{frame.function}`{inside}: its compiler logged nothing after that line.",
            Severity.NOTE,
            code=(place_of(frame, how="traced line"),),
            confidence=Confidence.LIKELY,
            facts={"signal": end.signal},
            fixes=(
                Fix("Keep the call on that line out of the compiled function with `torch.compiler.disable`", "code"),
            ),
            related=(Related(end.anchor, "end of the process"),),
        )


def _of(end: ProcessExit, row: LastTraced, rows: Sequence[LastTraced]) -> bool:
    """Whether it is the end of that very process: by number, by rank, or because there is no other."""
    if end.anchor.input != row.anchor.input or not 0 < end.anchor.line - row.anchor.line <= AT_ONCE:
        return False
    if end.pid is not None and row.origin.pid is not None and len(rows) > 1:
        return end.pid == row.origin.pid
    if end.origin.rank is not None and row.origin.rank is not None:
        return end.origin.rank == row.origin.rank
    return len(rows) == 1
