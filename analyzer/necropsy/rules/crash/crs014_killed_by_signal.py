"""A process died by a signal or without saying why

What it means
    The process did not end through Python: it crashed in native code (SIGSEGV, SIGBUS,
    SIGILL, SIGFPE, SIGABRT) or was killed from outside (SIGKILL). Without a record of
    who killed it, the cause is *undetermined*, and this finding says what to collect.

Why it happens
    Crashes: a C++ or CUDA extension built for another torch, memory written out of
    bounds, a library loaded twice, instructions the CPU does not have. SIGKILL: almost
    always the kernel's or a container's out-of-memory killer, a scheduler's limit, or a
    person; the shell's word "Killed" does not tell which.

How to confirm
    Crash: run with `python -X faulthandler`, which prints the Python stack. SIGKILL: look at
    `dmesg -T`, `sacct -j JOB -o State,MaxRSS,ReqMem` or `kubectl describe pod`.

How to fix
    Crash: rebuild the extension named by the stack against the installed torch, or
    upgrade the library. Kill: see what the record says.

Limits
    faulthandler's frame is where Python stood, the fault lies in the native code called
    there. An exit code alone (without message or stack) names no cause.

References
    - https://docs.python.org/3/library/faulthandler.html
    - https://man7.org/linux/man-pages/man7/signal.7.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.messages.process_exit import ProcessExit
from necropsy_parsers.messages.thread_stack import ThreadStack

from necropsy.claim import from_record, handled, logged_place, process_of
from necropsy.conditions import HOST_FULL, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.process_exits import ProcessExits
from necropsy.evidence.thread_stacks import ThreadStacks
from necropsy.finding import Confidence, Finding, Fix, Place, Severity
from necropsy.provenance.frames import innermost_user, place_of
from necropsy.rule import rule

_MEANING: Final = {
    "SIGSEGV": "native code touched memory it does not own (segmentation fault)",
    "SIGBUS": "a memory-mapped page could not be served (bus error; often shared memory that is full)",
    "SIGILL": "the CPU met an instruction it does not have (illegal instruction)",
    "SIGFPE": "native code divided by zero (floating point exception)",
    "SIGABRT": "native code gave up (abort)",
    "SIGKILL": "something outside killed it (SIGKILL)",
}
_STACK: Final = Fix(
    "Run it once more with faulthandler, which prints the Python stack at the crash",
    "command",
    command="python -X faulthandler train.py",
)
_WHO: Final = Fix(
    "Ask the system who killed it: the kernel log, the scheduler's accounting, or the container's last state",
    "command",
    command="dmesg -T | grep -i -E 'killed process|oom' ; sacct -j JOBID -o JobID,State,ExitCode,MaxRSS,ReqMem",
)
_CPU: Final = Fix(
    "Install a build for this CPU: compare `lscpu` flags with what the package was compiled for", "investigate"
)
_NEAR: Final = 64 * 1024  # bytes between a crash and its stack that still belong together


def _stack_near(row: ProcessExit, stacks: Sequence[ThreadStack]) -> ThreadStack | None:
    near = [s for s in stacks if 0 <= s.seq - row.seq < _NEAR and process_of(s.origin) == process_of(row.origin)]
    return next((s for s in near if s.current), near[0] if near else None)


def _places(row: ProcessExit, stack: ThreadStack | None) -> tuple[Place, ...]:
    if stack is None:
        return logged_place(row.origin)
    user = innermost_user(stack.frames)
    return (place_of(user, how="faulthandler"),) if user is not None else ()


def _say(row: ProcessExit, stack: ThreadStack | None, explained: bool) -> Finding:
    meaning = _MEANING.get(row.signal, f"it ended with {row.signal or f'exit code {row.code}'}")
    fixes: tuple[Fix, ...] = ()
    confidence = Confidence.CERTAIN
    shows = {PROCESS_DIED}
    if row.signal == "SIGKILL":
        message = f"The process was killed: {meaning}; the log does not say by whom, so the cause is undetermined."
        fixes, confidence = (_WHO,), Confidence.POSSIBLE
        shows.add(HOST_FULL)
    elif row.signal:
        native = stack.frames[-1] if stack is not None and stack.frames else None
        where = f" in `{native.function}`, called from Python" if native is not None else ""
        message = f"The process crashed: {meaning}{where}."
        fixes = () if stack is not None else (_STACK,)
        if row.signal == "SIGILL":
            fixes = (_CPU, *fixes)
        if stack is not None:
            fixes = (
                Fix(
                    "Update or rebuild the native package called at that line against the installed torch",
                    "investigate",
                ),
            )
    else:
        message = f"The process ended with exit code {row.code} and the log holds no reason; the cause is undetermined."
        fixes, confidence = (
            (Fix("Collect stderr of the process itself; launchers often keep it in another file", "investigate"),),
            Confidence.POSSIBLE,
        )
    severity = Severity.FATAL if row.signal or not explained else Severity.NOTE
    return from_record(
        row,
        message,
        severity,
        code=_places(row, stack),
        confidence=confidence,
        facts={
            k: v for k, v in (("signal", row.signal), ("exit code", row.code), ("pid", row.pid)) if v not in ("", None)
        },
        fixes=fixes,
        shows=frozenset(shows),
        leaves=frozenset({PROCESS_DIED}),
        last_resort=not row.signal,
        # Peers notice a lost process before its launcher reports the signal. SIGABRT is different: it is what
        # NCCL's watchdog does to a process that waited for another one.
        confirms=row.signal in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGKILL"),
    )


@rule("CRS014", "killed-by-signal", Severity.FATAL)
def check(exits: ProcessExits, stacks: ThreadStacks, exceptions: Exceptions, activity: Activity) -> Iterator[Finding]:
    """Ends by signal; bare exit codes only where the log holds no exception at all."""
    said_before: set[tuple[str, str, int]] = set()
    failed = any(not e.handled for e in exceptions)
    for row in exits:
        key = (row.signal, process_of(row.origin), row.attempt)
        if row.signal in ("SIGTERM", "SIGINT") or (not row.signal and (failed or said_before)):
            continue
        if not row.signal and row.code in (0, None):
            continue
        if key in said_before and row.by != "interpreter":
            continue
        said_before.add(key)
        finding = _say(row, _stack_near(row, stacks.rows), failed)
        yield handled(finding) if activity.went_on(row.origin, row.seq, row.attempt) else finding
