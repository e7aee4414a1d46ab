"""The manifest of a run folder of `necropsy capture`.

    run/manifest.json        {"schema": "necropsy-capture/1", "command": ["python", "train.py"], "status": 1, ...}

It tells the command, what was collected and why, the environment without secrets, and how the job ended. All that the
job printed lies beside it: a run folder without a log is that of a silent job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from necropsy_parsers.captured.document import SHOWN, Document, claims, document, items, tables, texts
from necropsy_parsers.issues import Issues
from necropsy_parsers.messages.process_exit import ProcessExit, signal_of
from necropsy_parsers.messages.scheduler import JobStop
from necropsy_parsers.messages.setting import Setting
from necropsy_parsers.records import UNKNOWN, Origin, Record
from necropsy_parsers.text.naming import named

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "capture_run"
TITLE: Final = "Manifests of `necropsy capture`"
PRIORITY: Final = 130
SAMPLES: Final = ('{\n "schema": "necropsy-capture/1",\n "necropsy": "0.1",\n "command": ["python", "train.py"]}',)
_PROFILED: Final = "ncu"  # the run under Nsight Compute; how that ends says nothing about the job
_STOPS: Final = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hangup"}


class CapturedRun(Record, frozen=True):
    """A run of a command: `seconds` it took, `status` as a shell shows it (None: not known), what was collected."""

    command: str
    folder: str
    name: str
    why: str
    collect: tuple[str, ...]
    status: int | None
    seconds: float | None


def sniff(head: bytes, name: str) -> str | None:
    """Claims JSON objects whose schema says so."""
    return "the manifest of a capture" if claims(head, b"necropsy-capture") else None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """Settings in force, the runs of the command, and how they ended; what is not as expected is left out."""
    found = document(source, issues)
    if found is None:
        return
    data = found.data
    rank = named(source.name).rank  # `run/rank-3/manifest.json`, where each task has a launcher
    origin = UNKNOWN if rank is None else Origin(rank=rank)
    for name, value in texts(data.get("environment")).items():
        yield Setting(found.anchor(f'"{name}"'), name, value, rank, origin=origin, seq=seq)
    for number, run in enumerate(tables(data.get("passes")) or [{}]):
        status = run.get("status")
        yield CapturedRun(
            found.anchor('"command"'),
            " ".join(map(str, items(data.get("command"))))[:SHOWN],
            str(data.get("cwd") or ""),
            str(run.get("name") or ""),
            str(data.get("why") or ""),
            tuple(map(str, items(data.get("collect")))),
            status if isinstance(status, int) else None,
            _number(run.get("seconds")),
            origin=origin,
            seq=seq,
            attempt=number,
        )
        if isinstance(status, int) and status and run.get("name") != _PROFILED:
            yield _end(found, status, {"origin": origin, "seq": seq, "attempt": number})


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _end(found: Document, status: int, common: dict[str, Any]) -> Record:
    """The end of a run that failed, as a launcher's line would tell it."""
    anchor = found.anchor(f'"status": {status}')
    killed = signal_of(status)
    if killed in _STOPS:
        return JobStop(anchor, _STOPS[killed], "the job", "", "", "", None, False, **common)
    return ProcessExit(anchor, killed, status, None, "launcher", "", False, **common)
