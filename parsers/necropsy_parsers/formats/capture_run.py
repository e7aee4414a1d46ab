"""What `necropsy capture` writes about a run: the manifest of the run folder, and a file of each Python process.

    run/manifest.json        {"schema": "necropsy-capture/1", "command": ["python", "train.py"], "status": 1, ...}
    run/process-4711.json    {"schema": "necropsy-process/1", "pid": 4711, "rank": null, "notes": [...], ...}

The manifest tells the command, what was collected and why, the environment without secrets, and how the job ended; a
process tells versions, its GPU, and what each collector did or could not do (when the profiler began and why it ended).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.messages.process_exit import ProcessExit, signal_of
from necropsy_parsers.messages.scheduler import JobStop
from necropsy_parsers.messages.setting import Setting
from necropsy_parsers.records import UNKNOWN, Anchor, Origin, Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "capture_run"
TITLE: Final = "Manifests of `necropsy capture`"
PRIORITY: Final = 130
SAMPLES: Final = (
    '{\n "schema": "necropsy-capture/1",\n "necropsy": "0.1",\n "command": ["python", "train.py"]}',
    '{\n "schema": "necropsy-process/1",\n "pid": 4711,\n "notes": []}',
)
MAX_BYTES: Final = 16 << 20
_STOPS: Final = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hangup"}
_SHOWN: Final = 300  # characters of a value


class CapturedRun(Record, frozen=True):
    """A run of a command: `seconds` it took, `status` as a shell shows it (None: not known), what was collected."""

    command: str
    folder: str
    name: str
    why: str
    collect: tuple[str, ...]
    status: int | None
    seconds: float | None


class CollectorNote(Record, frozen=True):
    """What a collector of a process did (`recorded`) or could not do (`failed`), with its facts as texts."""

    collector: str
    what: str
    pid: int | None
    facts: dict[str, str]


def sniff(head: bytes, name: str) -> str | None:
    """Claims JSON objects whose schema says so."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:200]
    if start.startswith(b"{") and b'"schema"' in start:
        if b'"necropsy-capture/' in start:
            return "the manifest of a capture"
        if b'"necropsy-process/' in start:
            return "what collectors noted in a process"
    return None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """Records of a manifest or of a process's file; what is not as expected is left out."""
    text = b""
    for chunk in source.chunks():
        text += chunk
        if len(text) > MAX_BYTES:
            issues.add("source/limit", source.name, detail="longer than any manifest")
            return
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        issues.add("source/corrupt", source.name, detail="it is no valid JSON")
        return
    if not isinstance(data, dict):
        return
    reader = _Reader(source.name, text.decode("utf-8", "replace"), seq)
    yield from reader.process(data) if "notes" in data else reader.manifest(data)


class _Reader:
    """Finds the line of what it reads by looking for its key in the text."""

    def __init__(self, name: str, text: str, seq: int) -> None:
        self._name = name
        self._text = text
        self._seq = seq

    def manifest(self, data: dict[str, Any]) -> Iterator[Record]:
        """Settings in force, the run, and its end."""
        for name, value in _texts(data.get("environment")).items():
            yield Setting(self._anchor(f'"{name}"'), name, value, seq=self._seq)
        for number, run in enumerate(_dicts(data.get("passes")) or [{}]):
            status = run.get("status")
            yield CapturedRun(
                self._anchor('"command"'),
                " ".join(map(str, _list(data.get("command"))))[:_SHOWN],
                str(data.get("cwd") or ""),
                str(run.get("name") or ""),
                str(data.get("why") or ""),
                tuple(map(str, _list(data.get("collect")))),
                status if isinstance(status, int) else None,
                run["seconds"] if isinstance(run.get("seconds"), int | float) else None,
                seq=self._seq,
                attempt=number,
            )
            if isinstance(status, int) and status:
                yield self._end(status, number)

    def _end(self, status: int, attempt: int) -> Record:
        """The end of a run that failed, as a launcher's line would tell it."""
        anchor = self._anchor(f'"status": {status}')
        killed = signal_of(status)
        if killed in _STOPS:
            kind = _STOPS[killed]
            return JobStop(anchor, kind, "the job", "", "", "", None, False, seq=self._seq, attempt=attempt)
        return ProcessExit(anchor, killed, status, None, "launcher", "", False, seq=self._seq, attempt=attempt)

    def process(self, data: dict[str, Any]) -> Iterator[Record]:
        """The version of torch, and what collectors noted."""
        rank, pid = data.get("rank"), data.get("pid")
        origin = Origin(rank=rank if isinstance(rank, int) else None, pid=pid if isinstance(pid, int) else None)
        torch = _texts(data.get("versions")).get("torch")
        if torch:
            yield Setting(self._anchor('"torch"'), "torch", torch, origin.rank, origin=origin, seq=self._seq)
        for note in _dicts(data.get("notes")):
            facts = {k: v for k, v in _texts(note).items() if k not in ("collector", "what", "time")}
            collector, what = str(note.get("collector")), str(note.get("what"))
            anchor = self._anchor(f'"what": "{what}"', f'"collector": "{collector}"')
            yield CollectorNote(anchor, collector, what, origin.pid, facts, origin=origin or UNKNOWN, seq=self._seq)

    def _anchor(self, key: str, after: str = "") -> Anchor:
        start = max(0, self._text.find(key, max(0, self._text.find(after)) if after else 0))
        end = self._text.find("\n", start)
        end = len(self._text) if end < 0 else end
        line = self._text.count("\n", 0, start) + 1
        return Anchor(self._name, start, end, line, self._text[start:end].strip(" ,")[:_SHOWN])


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]


def _texts(value: object) -> dict[str, str]:
    """A table of plain values as texts."""
    if not isinstance(value, dict):
        return {}
    plain = {str(k): v for k, v in value.items() if isinstance(v, str | int | float | list)}
    return {k: (v if isinstance(v, str) else json.dumps(v))[:_SHOWN] for k, v in plain.items()}
