"""A function could not be compiled

What it means
    torch.compile (or Triton) met a frame or kernel that it could not compile. Unless the error is
    suppressed it ends the call; with `suppress_errors` that function runs eagerly from then on.

Why it happens
    Three different things, which the finding tells apart. The machine: no working C or C++
    compiler, MSVC without its x64 environment, Triton missing or in another Python, headers of
    Python missing, a full disk, a folder that cannot be written, a worker killed for want of
    memory, a GPU or ptxas that is too old. The program: an operation that fails for the shapes it
    gets, a dimension marked dynamic that the code fixes, a backend of one's own that raises.
    torch itself: Dynamo, Inductor or Triton fails on code that is right.

How to confirm
    Of the machine: run the command of the finding in the job's own environment. Of the program:
    run the function without torch.compile. Of torch: `backend="eager"`, then `"aot_eager"`, then
    `"inductor"` shows which layer fails.

How to fix
    As the finding says, by cause. `torch._dynamo.config.suppress_errors = True` hides the failure
    and leaves the function slow; it repairs nothing.

Limits
    Inductor does not say which line of the program a failing kernel came from (except a lowering,
    since torch 2.11): then the place is where the compiled function was called. Graph breaks,
    recompile limits and CUDA-graph errors have rules of their own, and so have wrong shapes
    (CRS010) and mixed versions (CRS021) that surface while compiling.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    - https://docs.pytorch.org/docs/stable/generated/torch.compiler.disable.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.messages.compile_failure import CompileFailure
from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, from_record, one_line
from necropsy.evidence.compile_failures import CompileFailures
from necropsy.evidence.compiler_lines import CompilerLines
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.pip_lines import PipLines
from necropsy.evidence.sources import Sources
from necropsy.finding import Fact, Finding, Place, Severity
from necropsy.provenance.dynamo import claimed_frame, plain_function
from necropsy.provenance.frames import is_library, place_of
from necropsy.provenance.triton import kernel_error, kernel_place
from necropsy.rule import rule
from necropsy.rules.compile._exports import exported, suggested
from necropsy.rules.compile._failure_reasons import Reason, reason_of

_SAID: Final = lazily(r"\b(?:fatal error|error)\b[^\n]*")
_NUMBER: Final = lazily(r"0x[0-9a-f]+|\d+")


@rule("CMP011", "compile-failed", Severity.FATAL, general=True, aliases=("frame-failed-to-compile", "backend-failed"))
def check(
    failures: CompileFailures, exceptions: Exceptions, pip: PipLines, lines: CompilerLines, sources: Sources
) -> Iterator[Finding]:
    """One finding a failure that was raised, one a function whose failure was suppressed."""
    suppressed: dict[tuple[str, str, str], list[CompileFailure]] = {}
    raised = {f.reason for f in failures if f.from_exception}
    for failure in (_with_output(f, lines) for f in failures):
        row = exceptions.said(failure)
        reason = reason_of(failure, row, pip, exceptions)
        if failure.frame is not None:
            key = (failure.frame.file, plain_function(failure.frame.function), _NUMBER.sub("0", reason.clause))
            suppressed.setdefault(key, []).append(failure)
        elif row is not None:
            yield _raised(failure, row, reason, sources)
        elif not failure.from_exception and failure.reason not in raised:
            yield from_record(
                failure,
                f"{_subject(failure)}: {reason.clause}.",
                Severity.ERROR,
                code=_places(failure, reason, ()),
                facts=_facts(failure, reason),
                fixes=reason.fixes,
            )
    for rows in suppressed.values():
        yield _suppressed(rows, reason_of(rows[0], None, pip, exceptions))


def _with_output(failure: CompileFailure, lines: CompilerLines) -> CompileFailure:
    """The failure, with what the C compiler of Triton printed before it: its exception only has the command."""
    if failure.error != "CalledProcessError" and failure.kind != "CalledProcessError":
        return failure
    before = [c for c in lines if c.anchor.input == failure.anchor.input and c.seq < failure.seq]
    if not before:
        return failure
    return replace(failure, output=before[-1].text, text=f"{failure.text}\n{before[-1].text}")


def _raised(failure: CompileFailure, row: ExceptionRow, reason: Reason, sources: Sources) -> Finding:
    """A failure that an exception told."""
    code = _places(failure, reason, row.places)
    error = kernel_error(row.main)
    if error is not None and code:
        inside = kernel_place(error, replace(code[0], exactness="line"), sources.tree)
        code = ((inside,) if inside is not None else ()) + code
    consequence = "" if row.handled or row.kind == "bare" else "; nobody caught the error and the process ended"
    return from_exception(
        row,
        f"{_subject(failure, row)}: {reason.clause}{consequence}.",
        code=code,
        facts=_facts(failure, reason) | {"exception": row.type},
        fixes=(*suggested(failure.text), *reason.fixes),
        confidence=reason.confidence,
    )


def _suppressed(rows: Sequence[CompileFailure], reason: Reason) -> Finding:
    """A failure that `suppress_errors` hid: the function runs eagerly."""
    first = rows[0]
    assert first.frame is not None
    name = plain_function(first.frame.function)
    own = Place(first.frame.file, first.frame.line, None, name, "", "function", "frame info")
    places = _places(first, reason, ())
    code = places if is_library(own.file) else (*places, own)
    facts = _facts(first, reason)
    if len(rows) > 1:
        facts["times"] = len(rows)
    if ids := sorted({r.origin.compile_id for r in rows if r.origin.compile_id}):
        facts["compile ids"] = ids
    return from_record(
        first,
        f"`{name}` could not be compiled: {reason.clause}; the error is suppressed, and the function runs eagerly "
        "from here on.",
        Severity.ERROR,
        code=code,
        ranks=tuple(sorted({r.origin.rank for r in rows if r.origin.rank is not None})),
        facts=facts,
        fixes=reason.fixes,
        confidence=reason.confidence,
    )


def _subject(failure: CompileFailure, row: ExceptionRow | None = None) -> str:
    if row is not None and exported(row):
        return "torch.export failed"
    frame = claimed_frame(failure.frames)
    if frame is not None and frame.function:
        return f"`{plain_function(frame.function)}` could not be compiled"
    return "torch.compile failed" if failure.through else "Triton could not compile a kernel"


def _places(failure: CompileFailure, reason: Reason, called: tuple[Place, ...]) -> tuple[Place, ...]:
    """The user's line that torch names; else where the compiled function was called, which is no line's fault."""
    frame = claimed_frame(failure.frames)
    if frame is not None:
        place = place_of(frame, how="from user code")
        return (place, *(p for p in called if (p.file, p.line) != (place.file, place.line)))
    if reason.exact:
        return called or ((place_of(failure.raised),) if failure.raised is not None else ())
    return tuple(replace(p, exactness="function", how="call of the compiled function") for p in called)


def _facts(failure: CompileFailure, reason: Reason) -> dict[str, Fact]:
    facts: dict[str, Fact] = {"cause": reason.key, "side": reason.side}
    told = (
        ("backend", failure.backend),
        ("error", one_line(f"{failure.error}: {failure.reason}".removeprefix(": "))),
        ("operator", failure.operator),
        ("kernel", failure.kernel),
        ("compiler", failure.command.split(" ", 1)[0]),
    )
    facts |= {name: value for name, value in told if value}
    if (said := _SAID.search(failure.output)) is not None:
        facts["compiler said"] = one_line(said[0])
    return facts | reason.facts
