"""A kernel failed on the GPU: assertion, illegal address

What it means
    A kernel stopped: an assertion inside it failed, or it read or wrote memory that is
    not its own. The CUDA context is lost with it; every later CUDA call of the process
    reports the same error.

Why it happens
    Assertions: an index, label or id outside its range. Illegal addresses: a custom
    kernel or extension without bounds checks, a tensor of the wrong size, dtype or
    layout handed to one.

How to confirm
    CUDA reports errors of kernels at *some later call*, so the traceback shows where the
    error surfaced, not where it arose, unless CUDA_LAUNCH_BLOCKING=1 was set. Run once
    more with it, or run the same batch on the CPU, where the failing line raises.
    `compute-sanitizer` finds the access of a custom kernel.

How to fix
    Assertion: check the range of ids and labels before the call. Address: check bounds,
    sizes and strides in the kernel.

Limits
    Without CUDA_LAUNCH_BLOCKING and without the source, only the function in which the
    error surfaced is known; the work launched before in that function is listed. Work of
    callers may be at fault too. Triton's launcher can report an earlier kernel's error.

References
    - https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html
    - https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.messages.cuda_error import CudaError
from necropsy_parsers.messages.device_assert import DeviceAssert
from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, from_record
from necropsy.conditions import DEVICE_FAULT, OUT_OF_RANGE, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.cuda_errors import CudaErrors
from necropsy.evidence.device_asserts import DeviceAsserts
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.settings import Settings
from necropsy.evidence.sources import Sources
from necropsy.finding import Confidence, Finding, Fix, Place, Related, Severity
from necropsy.provenance.device_faults import FAULTS, explain_assert, launched_before, narrowed, of_index
from necropsy.rule import rule

_GENERATED: Final = lazily(r"c[a-z2-7]{50,51}\.py")  # Inductor names its files by hashes
_BLOCKING: Final = Fix(
    "Run once more with CUDA_LAUNCH_BLOCKING=1: the traceback then ends at the launch that fails",
    "env",
    "safe",
    command="CUDA_LAUNCH_BLOCKING=1 python train.py",
)
_SANITIZER: Final = Fix(
    "Check the kernel with compute-sanitizer; it names the thread and the access",
    "command",
    command="compute-sanitizer --tool memcheck python train.py",
)


def _set_at(settings: Settings) -> dict[int, int]:
    """Attempt -> where it first says that CUDA waits for each kernel."""
    on = sorted((s.seq, s.attempt) for s in settings.named("CUDA_LAUNCH_BLOCKING") if s.value not in ("0", ""))
    return {attempt: seq for seq, attempt in reversed(on)}


def _blocking(error: CudaError, set_at: dict[int, int]) -> bool | None:
    """Whether the traceback can be trusted: by torch's wording, else by a setting seen before in that attempt."""
    if error.blocking is not None:
        return error.blocking
    return True if set_at.get(error.attempt, error.seq) < error.seq else None


def _place(row: ExceptionRow, blocking: bool | None) -> tuple[Place, ...]:
    """The claim: the line if it is certain, the surrounding function if it only surfaced there."""
    if blocking or not row.places:
        return row.places
    first = row.places[0]
    return (replace(first, exactness="function", how="surfaced here"), *row.places[1:])


def _finding(
    error: CudaError, row: ExceptionRow, asserted: DeviceAssert | None, blocking: bool | None, sources: Sources
) -> Finding:
    what = f"{error.error} ({error.name})" if error.name else error.error
    code = _place(row, blocking)
    launched = launched_before(row, sources.tree) if not blocking else []
    pinned = narrowed(code, launched, asserted, sources.tree) if code and not blocking else None
    meaning, fix = explain_assert(asserted) if asserted else ("", None)
    sentence = f"CUDA error: {what}"
    if asserted is not None:
        sentence += f"; in {_kernel(asserted)} the check `{asserted.condition}` failed: {meaning}"
    confidence = Confidence.CERTAIN
    if pinned is not None:
        code = (pinned, *code)
        sentence += f"; it surfaced at line {code[1].line} and most likely comes from `{pinned.text}`."
        confidence = Confidence.LIKELY
    elif blocking:
        sentence += ", raised by the launch at this line."
    else:
        sentence += "; it surfaced here, but kernels report late: work launched before is to blame."
        confidence = Confidence.LIKELY if asserted else Confidence.POSSIBLE
    facts = {"error": what, "reported by the failing launch": {True: "yes", False: "no", None: "unknown"}[blocking]}
    if asserted is not None:
        facts |= {"kernel": asserted.kernel, "condition": asserted.condition}
    fixes = tuple(f for f in (fix, None if blocking else _BLOCKING, None if asserted else _SANITIZER) if f is not None)
    return from_exception(
        row,
        sentence,
        code=code[:5],
        confidence=confidence,
        facts={**facts, **({"launched before": [f"{c.line}: {c.text}" for c in launched][-8:]} if launched else {})},
        fixes=fixes,
        related=(Related(asserted.anchor, "the first thread's message"),) if asserted else (),
        shows=frozenset(
            {DEVICE_FAULT, OUT_OF_RANGE} if asserted is not None and of_index(asserted) else {DEVICE_FAULT}
        ),
        leaves=frozenset({DEVICE_FAULT, PROCESS_DIED}),
    )


def _trusted_first(
    errors: Sequence[tuple[CudaError, ExceptionRow, bool | None]],
) -> list[tuple[CudaError, ExceptionRow, bool | None]]:
    """A later run with CUDA_LAUNCH_BLOCKING says where the fault of the earlier one really is."""
    return sorted(errors, key=lambda e: (e[2] is not True, e[0].seq))


@rule("CRS015", "device-fault", Severity.FATAL)
def check(
    errors: CudaErrors,
    asserts: DeviceAsserts,
    exceptions: Exceptions,
    settings: Settings,
    sources: Sources,
    activity: Activity,
) -> Iterator[Finding]:
    """One story a kind of fault: the most trusted report leads, other ranks' and C++'s reports of it follow."""
    first_assert = asserts.rows[0] if asserts.rows else None
    faults = [e for e in errors if FAULTS.search(e.error)]
    set_at = _set_at(settings)
    said = [
        (e, row, _blocking(e, set_at)) for e in faults if (row := exceptions.said(e)) and row.name != "DistBackendError"
    ]
    lead: dict[str, str] = {}  # CUDA's text -> the event that leads its story
    for error, row, blocking in _trusted_first(said):
        asserted = first_assert if "assert" in error.error else None
        finding = _finding(error, row, asserted, blocking, sources)
        if not row.handled:
            finding = replace(finding, follows=lead.get(error.error, ""))
            lead.setdefault(error.error, finding.event)
        yield finding
    if not said and first_assert is not None:
        finding = _assertion(first_assert, activity)
        lead["device-side assert triggered"] = finding.event
        yield finding
    for error in faults:
        if not error.from_exception:
            yield from_record(
                error,
                f"C++ code reports the CUDA error: {error.error}.",
                Severity.FATAL,
                activity=activity,
                shows=frozenset({DEVICE_FAULT}),
                leaves=frozenset({DEVICE_FAULT, PROCESS_DIED}),
                fixes=(_BLOCKING,),
                facts={"error": error.error},
                follows=lead.get(error.error, ""),
            )


def _assertion(asserted: DeviceAssert, activity: Activity) -> Finding:
    """An assertion of which the log has no traceback."""
    meaning, fix = explain_assert(asserted)
    return from_record(
        asserted,
        (f"In {_kernel(asserted)} the check `{asserted.condition}` failed: {meaning}; the log has no traceback of it."),
        Severity.FATAL,
        activity=activity,
        facts={"kernel": asserted.kernel, "condition": asserted.condition},
        fixes=tuple(f for f in (fix, _BLOCKING) if f is not None),
        leaves=frozenset({DEVICE_FAULT, PROCESS_DIED}),
    )


def _kernel(asserted: DeviceAssert) -> str:
    """The kernel in words; Triton's driver does not know the names of its functions."""
    if asserted.kernel not in ("", "unknown"):
        return f"kernel `{asserted.kernel}`"
    name = re.split(r"[/\\]", asserted.file)[-1]
    return "a kernel of torch.compile" if _GENERATED.fullmatch(name) else f"a kernel of {name}"
