"""What collectors of `necropsy capture` noted in one Python process of a job.

    run/process-rank0-4711.json    {"schema": "necropsy-process/1", "pid": 4711, "rank": 0, "notes": [...], ...}

It tells versions, the GPU, and what each collector did or could not do: when the profiler began and why it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from necropsy_parsers.captured.document import claims, document, tables, texts
from necropsy_parsers.issues import Issues
from necropsy_parsers.messages.setting import Setting
from necropsy_parsers.records import Origin, Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "capture_process"
TITLE: Final = "Notes of the collectors of `necropsy capture`"
PRIORITY: Final = 131
SAMPLES: Final = ('{\n "schema": "necropsy-process/1",\n "pid": 4711,\n "notes": []}',)


class CollectorNote(Record, frozen=True):
    """What a collector of a process did (`recorded`) or could not do (`failed`), with its facts as texts."""

    collector: str
    what: str
    pid: int | None
    facts: dict[str, str]


def sniff(head: bytes, name: str) -> str | None:
    """Claims JSON objects whose schema says so."""
    return "what collectors noted in a process" if claims(head, b"necropsy-process") else None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """The version of torch, and what collectors noted; what is not as expected is left out."""
    found = document(source, issues)
    if found is None:
        return
    rank, pid = found.data.get("rank"), found.data.get("pid")
    origin = Origin(rank=rank if type(rank) is int else None, pid=pid if type(pid) is int else None)
    torch = texts(found.data.get("versions")).get("torch")
    if torch:
        yield Setting(found.anchor('"torch"'), "torch", torch, origin.rank, origin=origin, seq=seq)
    for note in tables(found.data.get("notes")):
        facts = {k: v for k, v in texts(note).items() if k not in ("collector", "what", "time")}
        collector, what = str(note.get("collector")), str(note.get("what"))
        anchor = found.anchor(f'"what": "{what}"', f'"collector": "{collector}"')
        yield CollectorNote(anchor, collector, what, origin.pid, facts, origin=origin, seq=seq)
