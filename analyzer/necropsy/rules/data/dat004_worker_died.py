"""A DataLoader worker died

What it means
    A worker process was killed or ended without an exception. The main process notices at
    some later moment, wherever it is, so the line of the traceback is only where it surfaced.

Why it happens
    Killed: the host's out-of-memory killer, or somebody's `kill`. Bus error: shared memory
    (/dev/shm) is full, most often in a container started with the default 64 MB. Segmentation
    fault: a native library in the data set's code.

How to confirm
    The kernel's log (`dmesg -T`) for kills; `df -h /dev/shm` for shared memory; the same
    sample with num_workers=0, which raises in the main process.

How to fix
    Fewer workers or more memory; a larger /dev/shm (docker --shm-size, --ipc=host, a memory
    volume in Kubernetes); fix the library or the sample.

Limits
    The log does not hold who sent a SIGKILL: without a kernel record the cause is
    undetermined.

References
    - https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    - https://docs.docker.com/reference/cli/docker/container/run/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.messages.data_worker import WorkerDeath

from necropsy.claim import from_exception, told
from necropsy.conditions import HOST_FULL, PROCESS_DIED, SHM_FULL, WORKER_DIED
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.worker_deaths import WorkerDeaths
from necropsy.finding import Confidence, Fact, Finding, Fix, Related, Severity
from necropsy.rule import rule

_SHM: Final = Fix(
    "Give the container more shared memory",
    "config",
    command="docker run --shm-size=16g ...   # or --ipc=host; Kubernetes: emptyDir {medium: Memory} on /dev/shm",
)
_FEWER: Final = Fix("Use fewer workers or a smaller prefetch_factor, or ask for more host memory", "config")
_KERNEL: Final = Fix(
    "Ask the kernel who was killed, and for what", "command", command="dmesg -T | grep -i -E 'killed process|oom'"
)
_INLINE: Final = Fix(
    "Run once with num_workers=0: an error in the data set then raises in the main process, on its line", "code"
)


def _verdict(d: WorkerDeath) -> tuple[str, Confidence, tuple[Fix, ...], frozenset[str]]:
    if d.shared_memory or "Bus error" in d.signal:
        return "shared memory (/dev/shm) is full", Confidence.LIKELY, (_SHM, _FEWER), frozenset({SHM_FULL})
    if d.signal.startswith("Killed"):
        return (
            (
                "something outside killed it, most often the out-of-memory killer; "
                "the log does not say who, so the cause is undetermined"
            ),
            Confidence.POSSIBLE,
            (_KERNEL, _FEWER),
            frozenset({HOST_FULL}),
        )
    if "egmentation" in d.signal:
        return "native code in the data set crashed", Confidence.LIKELY, (_INLINE,), frozenset()
    what = (
        f"signal {d.signal}"
        if d.signal
        else f"exit code {d.exit_code}"
        if d.exit_code is not None
        else "no reason in the log"
    )
    return (
        f"{what}; the cause is undetermined",
        Confidence.POSSIBLE,
        (_INLINE, _KERNEL),
        frozenset({HOST_FULL, SHM_FULL}),
    )


# What the main process meets instead of torch's own message when it was just taking a tensor from the worker
# that died: torch hands file descriptors over a socket (torch/multiprocessing/reductions.py, rebuild_storage_fd).
_LOST: Final = ("ConnectionResetError", "ConnectionRefusedError", "EOFError", "BrokenPipeError", "FileNotFoundError")


def _lost_worker(row: ExceptionRow) -> bool:
    files = [f.file.replace("\\", "/") for f in row.main.frames]
    loading = any(f.endswith("torch/utils/data/dataloader.py") for f in files)
    return row.name in _LOST and loading and any("multiprocessing/" in f for f in files[-6:])


@rule("DAT004", "worker-died", Severity.FATAL)
def check(deaths: WorkerDeaths, exceptions: Exceptions) -> Iterator[Finding]:
    """One finding a death; the shared-memory hint printed before it is part of the same story."""
    for lost in exceptions:
        if _lost_worker(lost):
            yield from_exception(
                lost,
                (
                    f"A DataLoader worker died ({lost.name} while its batch was fetched); "
                    "the log does not say of what, so the cause is undetermined."
                ),
                code=tuple(replace(p, exactness="function", how="surfaced here") for p in lost.places),
                confidence=Confidence.POSSIBLE,
                facts={"error": lost.name},
                fixes=(_INLINE, _KERNEL),
                shows=frozenset({HOST_FULL, SHM_FULL, WORKER_DIED}),
                leaves=frozenset({WORKER_DIED, PROCESS_DIED}),
            )
    hint = any(d.shared_memory for d in deaths)
    hints = tuple(Related(d.anchor, "said before") for d in deaths if not d.from_exception)
    raised = any(exceptions.said(d) is not None for d in deaths)
    for d in deaths:
        if raised and not d.from_exception:
            continue  # the bus error's line is part of the story that the exception tells
        clause, confidence, fixes, shows = _verdict(
            replace(d, shared_memory=d.shared_memory or (hint and not d.signal.startswith("Killed")))
        )
        who = f"DataLoader worker {', '.join(map(str, d.pids))}" if d.pids else "A DataLoader worker"
        facts: dict[str, Fact] = {"signal": d.signal} if d.signal else {}
        if d.pids:
            facts["pids"] = list(d.pids)
        row = exceptions.said(d)
        places = row.places if row is not None else ()
        yield from told(
            d,
            exceptions,
            f"{who} died: {clause}.",
            Severity.ERROR,
            code=tuple(replace(p, exactness="function", how="surfaced here") for p in places),
            related=hints[:3] if row is not None else (),
            facts=facts,
            confidence=confidence,
            fixes=fixes,
            shows=shows | {WORKER_DIED},
            leaves=frozenset({WORKER_DIED, PROCESS_DIED}),
        )
