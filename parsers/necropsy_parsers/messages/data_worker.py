"""What happens to DataLoader workers: killed, gone, out of shared memory, too many.

RuntimeError: DataLoader worker (pid 6403) is killed by signal: Killed.
RuntimeError: DataLoader worker (pid(s) 4411, 4412) exited unexpectedly
ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).
UserWarning: This DataLoader will create 16 worker processes in total. Our suggested max number of worker in
current system is 4, which is smaller than what this DataLoader is going to create. ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "data_worker"
TITLE: Final = "Deaths and number of DataLoader workers"
TRIGGERS: Final = (
    b"DataLoader worker",
    b"This DataLoader will create",
    b"bus error encountered in worker",
    b"shared memory",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "RuntimeError: DataLoader worker (pid 6403) is killed by signal: Killed. ": {"pids": (6403,), "signal": "Killed"},
}
_KILLED: Final = lazily(r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: (?P<signal>[^.\n]+)")
_EXITED: Final = lazily(
    r"DataLoader worker \(pid(?:\(s\))? (?P<pids>[\d, ]+)\) exited unexpectedly(?: with exit code (?P<code>-?\d+))?"
)
_SHM: Final = lazily(
    r"out of shared memory|insufficient shared memory"
    r"|unable to (?:open|allocate|write to) (?:shared memory|file)[^\n]*(?:torch_|/dev/shm)?"
    r"|unable to mmap \d+ bytes from file <?/torch"
)
_COUNT: Final = lazily(
    r"This DataLoader will create (?P<asked>\d+) worker processes in total\. Our suggested max number of worker in "
    r"current system is (?P<suggested>\d+)"
)


class WorkerDeath(Record, frozen=True):
    """A worker that died: `pids`, the `signal` as printed or "", its exit code, shared-memory evidence."""

    pids: tuple[int, ...]
    signal: str
    exit_code: int | None
    shared_memory: bool
    from_exception: bool


class WorkerCount(Record, frozen=True):
    """torch's warning about the number of workers: asked for, and suggested (CPUs)."""

    asked: int
    suggested: int


def read(message: Message) -> Iterator[WorkerDeath | WorkerCount]:
    """Worker events that `message` reports."""
    text = " ".join(message.text.split())
    if (m := _COUNT.search(text)) is not None:
        yield WorkerCount(message.anchor, int(m["asked"]), int(m["suggested"]), **message.common)
        return
    shm = _SHM.search(text) is not None
    pids: tuple[int, ...] = ()
    signal, code = "", None
    if (m := _KILLED.search(text)) is not None:
        pids, signal = (int(m["pid"]),), m["signal"].strip()
    elif (m := _EXITED.search(text)) is not None:
        pids = tuple(int(p) for p in re.findall(r"\d+", m["pids"]))
        code = int(m["code"]) if m["code"] else None
    elif not (shm and ("bus error" in text or message.exception is not None)):
        return
    yield WorkerDeath(message.anchor, pids, signal, code, shm, message.exception is not None, **message.common)
