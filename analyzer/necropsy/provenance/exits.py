"""Ends of processes as several reporters tell them, to one end a process.

torchrun reports an end twice (at once, and in its summary), the shell a third time, faulthandler in the dying process
itself; each knows something else: rank, stack, signal. What a launcher stopped, or a scheduler after it had stopped the
job, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.messages.process_exit import ProcessExit
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame

from necropsy.evidence.elastic_failures import ElasticFailures
from necropsy.evidence.job_stops import JobStops
from necropsy.evidence.stopped_workers import StoppedWorkers

# What launchers raise because one of their processes ended; compared with the class's last name.
LAUNCHERS: Final = frozenset(
    {"ChildFailedError", "ProcessExitedException", "CalledProcessError", "SignalException", "WorkerCrashedError",
     "ActorDiedError", "RayActorError"}
)  # fmt: skip
_ASKED: Final = frozenset({"SIGTERM", "SIGINT"})  # how stopped processes end
_SRUN_TASKS: Final = lazily(r"srun: error: [\w.-]+: (tasks? [\d,-]+): ")
_WRAPPED: Final = 400  # bytes between the two lines in which mpirun names a process and tells its end


class End(Struct, frozen=True):
    """The end of one process: the report to quote, `subject` in words, srun's tasks, the stack of its error file."""

    row: ProcessExit
    subject: str
    tasks: str
    frames: tuple[Frame, ...]


def ends(
    exits: Iterable[ProcessExit], workers: ElasticFailures, stopped: StoppedWorkers, notices: JobStops
) -> list[End]:
    """One end a process that ended by itself: by a signal, or with an exit code that is not 0."""
    # Only SIGKILL is compared by number: in containers the processes of all nodes have the same few numbers.
    killed = {(s.pid, s.attempt) for s in stopped if s.pid is not None}
    over = {(n.attempt, n.anchor.input): n.seq for n in sorted(notices, key=lambda n: -n.seq)}  # the first of each
    rows = [_placed(row, workers) for row in _joined(sorted(exits, key=lambda r: r.seq))]
    told = [
        row
        for row in rows
        if not (row.signal == "SIGKILL" and (row.pid, row.attempt) in killed)
        and not (row.signal == "SIGKILL" and row.seq > over.get((row.attempt, row.anchor.input), row.seq))
        and row.signal not in _ASKED
        and (row.signal or row.code not in (0, None) or row.by == "Ray")
    ]
    return [_end(row, workers) for row in _one_each(told)]


def _joined(rows: Sequence[ProcessExit]) -> list[ProcessExit]:
    """Mpirun's two lines, of which the first names the process and the second tells its end, as one report."""
    out: list[ProcessExit] = []
    for row in rows:
        last = out[-1] if out else None
        names = last is not None and not last.signal and last.code is None
        if last is not None and names and row.anchor.input == last.anchor.input and row.seq - last.seq < _WRAPPED:
            out[-1] = replace(last, signal=row.signal, code=row.code)
        else:
            out.append(row)
    return out


def _placed(row: ProcessExit, workers: ElasticFailures) -> ProcessExit:
    """The report with the rank and node that torchrun's summary gives its process."""
    worker = workers.of_process(row.pid, row.attempt, row.seq)
    if worker is None:
        return row
    return replace(row, origin=replace(row.origin, rank=worker.rank, local_rank=worker.local_rank, host=worker.host))


def _one_each(rows: Sequence[ProcessExit]) -> list[ProcessExit]:
    """One report a process and way to end; the interpreter's own is the one to quote."""
    best: dict[tuple[int, str, str], ProcessExit] = {}
    for row in rows:
        key = (row.attempt, row.signal, _who(row))
        held = best.get(key)
        if held is None or (row.by == "interpreter" and held.by != "interpreter"):
            best[key] = row if held is None or row.origin.rank is not None else _with_rank(row, held)
    named: dict[tuple[int, str], list[ProcessExit]] = {}
    for (attempt, signal, who), row in best.items():
        if who:
            named.setdefault((attempt, signal), []).append(row)
    out = []
    for (attempt, signal, who), row in best.items():
        known = named.get((attempt, signal), [])
        bare = best.get((attempt, signal, ""))
        if not who and len(known) == 1 and row.by == "interpreter":
            out.append(_with_rank(row, known[0]))
        elif who and len(known) == 1 and bare is not None and bare.by == "interpreter":
            continue
        elif who or not known:
            out.append(row)
    return sorted(out, key=lambda r: r.seq)


def _who(row: ProcessExit) -> str:
    """The process of a report, as far as it is told; the shell knows only its child, which may be the launcher."""
    if row.origin.rank is not None:
        return f"rank {row.origin.rank}"
    if row.by in ("launcher", "Ray") and row.pid is not None:
        return f"pid {row.pid}"
    tasks = _SRUN_TASKS.match(row.anchor.text)
    return f"{row.origin.host} {tasks[1]}" if tasks is not None else ""


def _with_rank(row: ProcessExit, known: ProcessExit) -> ProcessExit:
    """A report with the rank that another report of the same end gives."""
    o = known.origin
    return replace(row, pid=row.pid or known.pid, origin=replace(row.origin, rank=o.rank, local_rank=o.local_rank))


def _end(row: ProcessExit, workers: ElasticFailures) -> End:
    worker = workers.of_process(row.pid, row.attempt, row.seq)
    tasks = _SRUN_TASKS.match(row.anchor.text)
    host = f" on {row.origin.host}" if row.origin.host and row.origin.host != "localhost" else ""
    if row.origin.rank is not None:
        subject = f"Rank {row.origin.rank}{host}"
    elif row.origin.local_rank is not None:
        subject = f"The process with local rank {row.origin.local_rank}{host}"
    elif tasks is not None:
        subject = f"Slurm's {tasks[1]}{host}"
    elif row.by == "Ray":
        subject = f"Ray's worker process {row.pid}{host}"
    else:
        subject = "The process"
    return End(row, subject, tasks[1] if tasks is not None else "", worker.frames if worker is not None else ())
