"""Inputs that another process may read: traces, which take long and are many.

They are read after all other inputs, by as many processes as pay; what comes of it is
the same, in the same order, as when this process reads them one by one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy_parsers.issues import Issues, ParseIssue

if TYPE_CHECKING:
    from necropsy_parsers.records import Record
    from necropsy_parsers.sniff import Claim
    from necropsy_parsers.source import Source

Progress = Callable[[int, "int | None"], None]

FORMATS: Final = ("kineto",)
WORTH_IT: Final = 8 << 20  # bytes on disk of all traces; below, starting workers (0.2 s) costs more than it saves
PER_WORKER: Final = 256 << 20  # bytes of memory: columns up to where they are spilled, a chunk decoded, numpy


class Task(Struct, frozen=True):
    """An input to be read: its number in the order of reading, and the first `seq` of its records.

    `cached` says whether it may come from the cache, and go there (`necropsy.trace_cache`).
    """

    number: int
    seq: int
    source: Source
    claim: Claim
    cached: bool = False


class Outcome(Struct, frozen=True):
    """What came of a task; `issues` are those that its reader met."""

    task: Task
    records: list[Record]
    issues: list[ParseIssue]
    read: int


def deferrable(source: Source, claim: Claim | None) -> bool:
    """Whether another process could read it: a trace that is a file of its own."""
    if claim is None or claim.format.name not in FORMATS or source.path is None:
        return False
    try:
        return os.path.samefile(source.name, source.path)
    except (OSError, ValueError):
        return False


def read_all(tasks: Sequence[Task], jobs: int, progress: Progress | None) -> Iterator[Outcome]:
    """The outcomes in order of the tasks. `jobs` 0: as many processes as pay."""
    jobs = _worthwhile(tasks, jobs)
    if jobs < 2:
        yield from (here(t, progress) for t in tasks)
        return
    from necropsy.workers import apart

    yield from apart(tasks, jobs, progress)


def _worthwhile(tasks: Sequence[Task], jobs: int) -> int:
    """Processes to use: as asked, else by processors, files, their size, and free memory."""
    if jobs:
        return min(jobs, len(tasks))
    if sum(t.source.size or 0 for t in tasks) < WORTH_IT:
        return 1
    return max(1, min(processors(), len(tasks), free_memory() // PER_WORKER))


def processors() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def free_memory() -> int:
    """Bytes of memory that can be had, as the system or its container says; much where it says nothing."""
    free = 1 << 40
    for path, find in (("/proc/meminfo", _available), ("/sys/fs/cgroup/memory.max", _below_limit)):
        try:
            with open(path, encoding="ascii") as file:
                free = min(free, find(file.read()))
        except (OSError, ValueError, IndexError):
            continue
    return free


def _available(text: str) -> int:
    return int(text.partition("MemAvailable:")[2].split(maxsplit=1)[0]) << 10


def _below_limit(text: str) -> int:
    with open("/sys/fs/cgroup/memory.current", encoding="ascii") as file:
        return int(text) - int(file.read())


def here(task: Task, progress: Progress | None) -> Outcome:
    """Read by this process."""
    from necropsy.trace_cache import read_trace

    issues = Issues()
    records, read = read_trace(task.source, task.seq, issues, keep=task.cached)
    if progress is not None:
        progress(task.source.consumed, task.source.size)
    return Outcome(task, records, issues.rows(), read)
