"""Traces read by several processes at once, behind the interface of `concurrent.futures`.

A worker parses a trace into columns and leaves them in a file that this process maps
(`necropsy_parsers.trace.parcel`), so that neither memory nor time is spent on moving
them. Everything else is what the serial run does, in the same order.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from msgspec import Struct

from necropsy_parsers.issues import Issues, ParseIssue
from necropsy_parsers.source import open_sources
from necropsy_parsers.trace.model import Trace
from necropsy_parsers.trace.parcel import Parcel, packed, unpacked

from necropsy.reading import Outcome, Progress, Task, here
from necropsy.trace_cache import read_trace


class Delivery(Struct, frozen=True):
    """What a worker sends."""

    parcels: list[Parcel]
    issues: list[ParseIssue]
    read: int


def apart(tasks: Sequence[Task], jobs: int, progress: Progress | None) -> Iterator[Outcome]:
    """The outcomes of tasks in their order, each read by one of `jobs` processes."""
    with tempfile.TemporaryDirectory(prefix="necropsy-", ignore_cleanup_errors=True) as folder:
        yield from _apart(tasks, jobs, folder, progress)


def pool(jobs: int) -> Executor:
    """Processes of this machine. Forked where that is safe: they start in a hundredth of the time."""
    forked = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if forked else "spawn")
    return ProcessPoolExecutor(jobs, context, initializer=_quiet)


def _quiet() -> None:
    """An interrupt from the terminal reaches workers, too; they end without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _apart(tasks: Sequence[Task], jobs: int, folder: str, progress: Progress | None) -> Iterator[Outcome]:
    workers = pool(jobs)
    children = set(multiprocessing.active_children())
    done, total = 0, sum(t.source.size or 0 for t in tasks)
    try:
        futures = [workers.submit(read_one, t.source.name, t.seq, _file(folder, t), t.cached) for t in tasks]
        children = set(multiprocessing.active_children()) - children
        for task, future in zip(tasks, futures, strict=True):
            yield _received(task, future, folder, progress)
            done += task.source.size or 0
            if progress is not None:
                progress(done, total)
        workers.shutdown()
    except BaseException:  # an interrupt, or a reader of these outcomes that stopped
        workers.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.terminate()
        raise


def _file(folder: str, task: Task) -> str:
    return os.path.join(folder, f"{task.number}.columns")


def _received(task: Task, future: Future[Delivery], folder: str, progress: Progress | None) -> Outcome:
    try:
        return _outcome(task, future.result())
    except BrokenProcessPool:
        return _alone(task, folder)
    except Exception:  # no room for the columns, a record that cannot be sent: what this process can do, it does
        return here(task, progress)


def _alone(task: Task, folder: str) -> Outcome:
    """A worker died and took the pool along; whose input it was shows when each has a process for itself."""
    with pool(1) as worker:
        try:
            again = os.path.join(folder, f"{task.number}.again")
            return _outcome(task, worker.submit(read_one, task.source.name, task.seq, again, task.cached).result())
        except BrokenProcessPool:
            issues = Issues()
            issues.add("trace/worker", task.source.name)
            return Outcome(task, [], issues.rows(), 0)


def _outcome(task: Task, delivery: Delivery) -> Outcome:
    return Outcome(task, [unpacked(p) for p in delivery.parcels], delivery.issues, delivery.read)


def read_one(path: str, seq: int, target: str, cached: bool = False) -> Delivery:
    """Parse a trace (in a worker) and leave its columns in files that begin with `target`."""
    issues = Issues()
    source = next(open_sources([path], issues))
    records, read = read_trace(source, seq, issues, keep=cached)
    traces = [t for t in records if isinstance(t, Trace)]
    parcels = [packed(t, f"{target}{n or ''}") for n, t in enumerate(traces)]
    return Delivery(parcels, issues.rows(), read)
