"""Processes that a launcher stopped because another one had ended: never a cause.

Sending process 25353 closing signal SIGTERM                                       torchrun
Unable to shutdown process 25353 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL
[2026-11-29 14:48:32,101] [INFO] [launch.py:335:sigkill_handler] Killing subprocess 25353       DeepSpeed
srun: Terminating StepId=88.0        srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "worker_stopped"
TITLE: Final = "Processes that a launcher stopped"
TRIGGERS: Final = (
    b"closing signal", b"Closing process", b"Unable to shutdown process", b"Killing subprocess",
    b"Terminating StepId", b"Terminating job",
    b"Job step aborted", b"Force Terminated", b"did not exit after", b"Terminating process",
)  # fmt: skip
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Sending process 25353 closing signal SIGTERM": {"pid": 25353, "signal": "SIGTERM", "by": "torchrun"},
    "Unable to shutdown process 25353 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL": {
        "signal": "SIGKILL"
    },
}
_FORMS: Final = (
    (lazily(r"Sending process (?P<pid>\d+) closing signal (?P<signal>SIG\w+)"), "torchrun"),
    (lazily(r"Terminating process (?P<pid>\d+) via signal (?P<signal>SIG\w+)"), "torch.multiprocessing"),
    (lazily(r"Closing process (?P<pid>\d+) via signal (?P<signal>SIG\w+)"), "torchrun"),
    (
        lazily(
            r"Unable to shutdown process (?P<pid>\d+) via \S+, forcefully exitt?ing via (?:Signals\.)?"
            r"(?P<signal>SIG\w+|\d+)"
        ),
        "torchrun",
    ),
    (lazily(r"Process (?P<pid>\d+) did not exit after (?P<signal>SIG\w+) within"), "torchrun"),
    (lazily(r"Killing subprocess (?P<pid>\d+)$"), "DeepSpeed"),
    (
        lazily(
            r"srun: (?:launch/slurm: \w+: )?(?:Terminating|Force Terminated) (?:StepId|JobId|job)|srun: Job step "
            r"aborted"
        ),
        "srun",
    ),
)


class WorkerStopped(Record, frozen=True):
    """One stop: the process (None for all of a step), the signal sent ("" if untold), the launcher."""

    pid: int | None
    signal: str
    by: str


def read(message: Message) -> Iterator[WorkerStopped]:
    """The stop that `message` reports, if it does."""
    if message.exception is not None:
        return
    text = message.first.strip()
    for form, by in _FORMS:
        if (m := form.search(text)) is not None:
            part = m.groupdict()
            signal = part.get("signal") or ""
            yield WorkerStopped(
                message.anchor,
                int(part["pid"]) if part.get("pid") else None,
                {"9": "SIGKILL", "15": "SIGTERM"}.get(signal, signal),
                by,
                **message.common,
            )
            return
