"""What shells, interpreters and launchers could not start or open.

bash: ./launch.sh: Permission denied
python: can't open file '/home/trainer/projects/asr/trian.py': [Errno 2] No such file or directory
slurmstepd: error: execve(): /home/trainer/projects/asr/launch.sh: Permission denied
run.sh: line 3: torchrun: command not found
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "shell_refusal"
TITLE: Final = "Programs and scripts that could not be started"
TRIGGERS: Final = (
    b"Permission denied",
    b"No such file or directory",
    b"command not found",
    b"can't open file",
    b"not found in $PATH",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "python: can't open file 'trian.py': [Errno 2] No such file or directory": {"path": "trian.py", "by": "python"},
    "run.sh: line 3: torchrun: command not found": {"path": "torchrun", "reason": "command not found"},
}
_FORMS: Final = (
    lazily(
        r"(?P<by>\S*python[\d.]*(?:\.exe)?): can't open file '(?P<path>[^']+)': "
        r"(?:\[Errno \d+\] )?"
        r"(?P<reason>No such file or directory|Permission denied)"
    ),
    lazily(
        r"(?P<by>slurmstepd|srun|sbatch|mpirun): error: "
        r"(?:execve\(\): |\S+: )?"
        r"(?P<path>[^:]+): (?P<reason>Permission denied|No such file or directory)$"
    ),
    lazily(
        r"(?P<by>(?:\S*/)?(?:ba|z|da)?sh|\S+\.(?:sh|slurm|sbatch)|/usr/bin/env|env|exec)"
        r"(?:: line \d+)?: (?:\d+: )?(?:exec: )?"
        r"[\u2018'\"]?(?P<path>[^:'\u2019\"]+)[\u2019'\"]?: "
        r"(?P<reason>Permission denied|No such file or directory|command not found|not found)$"
    ),
)


class ShellRefusal(Record, frozen=True):
    """One refusal: the `path` or command, the `reason` in the system's words, who said it."""

    path: str
    reason: str
    by: str


def read(message: Message) -> Iterator[ShellRefusal]:
    """The refusal that `message` is, if it is one."""
    if message.exception is not None:
        return
    text = message.first.strip()
    m = next((found for form in _FORMS if (found := form.match(text))), None)
    if m is not None:
        by = m["by"].rsplit("/", 1)[-1]
        reason = "command not found" if m["reason"] == "not found" else m["reason"]
        yield ShellRefusal(
            message.anchor,
            m["path"].strip(),
            reason,
            by,
            **message.common,
        )
