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
    `dmesg -T`, `sacct -j JOB -o State,MaxRSS,ReqMem` or `kubectl describe pod`. An exit code
    without a reason: collect stderr of each rank (`torchrun --log-dir logs --tee 3`), or
    decorate the main function with torch's `@record`.

How to fix
    Crash: rebuild the extension named by the stack against the installed torch, or
    upgrade the library. Kill: see what the record says.

Limits
    faulthandler's frame is where Python stood, the fault lies in the native code called
    there. An exit code alone (without message or stack) names no cause. Processes that a
    launcher stopped itself (SIGTERM, then SIGKILL) are consequences and not reported; which
    one torchrun noticed first says little about which one failed first.

References
    - https://docs.python.org/3/library/faulthandler.html
    - https://man7.org/linux/man-pages/man7/signal.7.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from necropsy_parsers.messages.process_exit import ProcessExit
from necropsy_parsers.messages.thread_stack import ThreadStack

from necropsy.claim import event_of, from_record, handled, logged_place, process_of
from necropsy.conditions import HOST_FULL, JOB_STOPPED, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.elastic_failures import ElasticFailures
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.job_stops import JobStops
from necropsy.evidence.process_exits import ProcessExits
from necropsy.evidence.stopped_workers import StoppedWorkers
from necropsy.evidence.thread_stacks import ThreadStacks
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.finding import Confidence, Finding, Fix, Place, Severity
from necropsy.provenance.exits import LAUNCHERS, End, ends
from necropsy.provenance.frames import innermost_user, place_of
from necropsy.rule import rule

_MEANING: Final = {
    "SIGSEGV": "native code touched memory it does not own (segmentation fault)",
    "SIGBUS": "a memory-mapped page could not be served (bus error; often shared memory that is full)",
    "SIGILL": "the CPU met an instruction it does not have (illegal instruction)",
    "SIGFPE": "native code divided by zero (floating point exception)",
    "SIGABRT": "native code gave up (abort)",
    "SIGKILL": "something outside killed it (SIGKILL)",
    "SIGHUP": "its terminal was closed (SIGHUP)",
    "SIGXCPU": "it used up its limit of CPU time (SIGXCPU)",
    "SIGUSR1": "it was sent SIGUSR1 and has no handler for it (Slurm's --signal warns so before the time limit)",
}
_CRASHES: Final = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"})
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
_NATIVE: Final = Fix(
    "Update or rebuild the native package called at that line against the installed torch", "investigate"
)
_STDERR: Final = (
    Fix("Collect stderr of the process itself; launchers often keep it in another file", "investigate"),
    Fix(
        "Have torchrun keep and show each rank's output, or decorate main() with torch.distributed.elastic's @record",
        "command",
        command="torchrun --log-dir logs --tee 3 ...",
    ),
)
_RAY: Final = Fix(
    "Read that worker's own log on its node", "command", command="ls /tmp/ray/session_latest/logs/worker-*PID*"
)
_NEAR: Final = 64 * 1024  # bytes between a crash and its stack that still belong together


def _stack_near(row: ProcessExit, stacks: Sequence[ThreadStack]) -> ThreadStack | None:
    # A summary may have told the rank of a process that does not name it itself.
    whose = (process_of(row.origin), "") if row.by == "interpreter" else (process_of(row.origin),)
    near = [s for s in stacks if 0 <= s.seq - row.seq < _NEAR and process_of(s.origin) in whose]
    return next((s for s in near if s.current), near[0] if near else None)


def _places(end: End, stack: ThreadStack | None) -> tuple[Place, ...]:
    user = innermost_user(end.frames) if stack is None else innermost_user(stack.frames)
    if user is not None:
        return (place_of(user, how="faulthandler" if stack is not None else "error file"),)
    return logged_place(end.row.origin) if stack is None else ()


def _said(end: End, stack: ThreadStack | None) -> tuple[str, tuple[Fix, ...], Confidence]:
    """The sentence about an end, what to do, and how sure it is."""
    signal, who = end.row.signal, end.subject
    meaning = _MEANING.get(signal, f"it ended with {signal or f'exit code {end.row.code}'}")
    if signal == "SIGKILL":
        sentence = f"{who} was killed: {meaning}; the log does not say by whom, so the cause is undetermined."
        return sentence, (_WHO,), Confidence.POSSIBLE
    if signal in ("SIGHUP", "SIGXCPU", "SIGUSR1"):
        return f"{who} was stopped: {meaning}.", (_WHO,), Confidence.LIKELY
    if not signal and end.row.by == "Ray":
        sentence = f"{who} died, and Ray does not know why ({end.row.reason.rstrip('.')}); the cause is undetermined."
        return sentence, (_RAY, _WHO), Confidence.POSSIBLE
    if not signal:
        sentence = f"{who} ended with exit code {end.row.code} and the log holds no reason; the cause is undetermined."
        return sentence, _STDERR, Confidence.POSSIBLE
    native = stack.frames[-1] if stack is not None and stack.frames else None
    where = f" in `{native.function}`, called from Python" if native is not None else ""
    fixes = (_NATIVE,) if stack is not None else ((_CPU, _STACK) if signal == "SIGILL" else (_STACK,))
    return f"{who} crashed: {meaning}{where}.", fixes, Confidence.CERTAIN


def _finding(end: End, stack: ThreadStack | None, explained: bool, exceptions: Iterable[ExceptionRow]) -> Finding:
    row = end.row
    sentence, fixes, confidence = _said(end, stack)
    shows = {PROCESS_DIED, JOB_STOPPED} | ({HOST_FULL} if row.signal == "SIGKILL" else set())
    facts = {"signal": row.signal, "exit code": row.code, "pid": row.pid, "node": row.origin.host, "tasks": end.tasks}
    return from_record(
        row,
        sentence,
        Severity.FATAL if row.signal or row.by == "Ray" or not explained else Severity.NOTE,
        code=_places(end, stack),
        confidence=confidence,
        facts={k: v for k, v in facts.items() if v not in ("", None, "localhost")},
        fixes=fixes,
        shows=frozenset(shows),
        leaves=frozenset({PROCESS_DIED}),
        last_resort=not row.signal and row.by != "Ray",
        # Peers notice a lost process before its launcher reports the signal. SIGABRT is different: it is what
        # NCCL's watchdog does to a process that waited for another one.
        confirms=row.signal in _CRASHES or row.signal == "SIGKILL" or row.by == "Ray",
        claims=frozenset(event_of(e) for e in exceptions),
    )


@rule("CRS014", "killed-by-signal", Severity.FATAL)
def check(
    exits: ProcessExits,
    stacks: ThreadStacks,
    exceptions: Exceptions,
    activity: Activity,
    workers: ElasticFailures,
    stopped: StoppedWorkers,
    notices: JobStops,
    trt_builds: TrtBuilds | None,
) -> Iterator[Finding]:
    """Ends by signal, one a process; bare exit codes only where the log holds no exception at all."""
    failed = any(not e.handled and e.name not in LAUNCHERS for e in exceptions)
    found = ends(exits, workers, stopped, notices)
    signalled = [e for e in found if e.row.signal]
    for end in found:
        row = end.row
        if not row.signal and row.by != "Ray" and (failed or signalled):
            continue
        if trt_builds is not None and trt_builds.crashed_built(row) is not None:
            continue  # TRT034 tells that the engine was built
        said = exceptions.said(row)
        if said is not None and said.places and said.name == "CalledProcessError":
            continue  # the program runs other programs itself, and its own line is the better claim
        finding = _finding(end, _stack_near(row, stacks.rows), failed, () if said is None else (said,))
        yield handled(finding) if activity.went_on(row.origin, row.seq, row.attempt) else finding
