"""Runs of text that nobody claims: counted, and judged as a sign that work went on."""

from __future__ import annotations

import re
from typing import Final

from necropsy_parsers.records import Record

# A training or evaluation step was reported: bars (`12/391 [00:41<21:33`), step and loss counters.
# Numbers are taken from their first digit: a run of thousands is not tried from each.
PROGRESS: Final = re.compile(
    r"\d(?<!\d\d)\d*(?:/\d+ \[\d+:\d\d|%\|.*\|)"
    r"|\b(?:step|iter(?:ation)?|epoch|batch|update)s?\b\W{0,3}\[?\d+"
    r"|\b(?:loss|lr|learning_rate|grad_norm|ppl|acc(?:uracy)?|throughput|tokens/s(?:ec)?|it/s|s/it)\W{1,4}-?\d",
    re.IGNORECASE,
)

# What shells, launchers, trackers and interpreters write when a job is already over.
TEARDOWN: Final = re.compile(
    r"\s|$|exit(?:ed)?\b|wandb|srun: |slurmstepd|sbatch|make(?:\[\d+\])?: |real\t|user\t|sys\t|\$ |\+ |[*=\-#_]{4,}"
    r"|terminate called|what\(\)|frame #\d|Exception raised from|Killed|Aborted|Segmentation fault"
    r"|.*(?:closing signal|destroy_process_group|resource_tracker|leaked semaphore|core dumped|exitcode|exit code"
    r"|nanobind|Error in atexit|Cleaning up|cleanup|shutting down|Shutting down|teardown"
    r"|JOB \d+|job \d+|Sending process)"
    r"|Root Cause|Failures:|\[\d+\]:$|<NO_OTHER|You can sync|View run|Find logs"
    r"|Synced|Set TORCH|Run history|Run summary"
    r"|[├└│╰╭].*|Please |For more|See |Search for|Compile with|For debugging|CUDA kernel errors|Note:|NOTE:",
)

# Marks of errors besides a logger's level: TensorRT's severity, trtexec's last line, Nsight Compute.
_ERROR_MARK: Final = re.compile(r"\[[EF]\] |&&&& FAILED|==ERROR==")
_ERROR_LEVELS: Final = frozenset({"E", "F", "ERROR", "FATAL", "CRITICAL"})

ANYBODY: Final = "?"  # the key of lines that were only counted: any writer's


def reports_step(text: str) -> bool:
    """Whether the line is a report of a training loop and hardly part of a message: counters first, or several."""
    hits = PROGRESS.finditer(text)
    first = next(hits, None)
    return first is not None and (not text[: first.start()].strip() or next(hits, None) is not None)


def is_error(text: str, level: str | None) -> bool:
    """Whether the line's own writer calls it an error."""
    return (level or "").upper() in _ERROR_LEVELS or _ERROR_MARK.match(text) is not None


class TextRun(Record, frozen=True):
    """Consecutive plain lines of one writer.

    `lines` counts all of them, `ordinary` those that are neither blank nor teardown,
    `progress` those that report a step of work; `last` is the text of the last ordinary one.
    """

    lines: int
    ordinary: int
    progress: int
    key: str = ""
    last: str = ""
