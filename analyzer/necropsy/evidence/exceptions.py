"""Python exceptions: one row a traceback, with the exception that tells the cause.

Whether an exception ended its process is judged here, once for all rules: a traceback
after which the same writer reports further work was handled.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.messages.training_value import TrainingValue
from necropsy_parsers.records import Anchor, Origin, Record
from necropsy_parsers.text.plain import TextRun
from necropsy_parsers.text.traceback import Exc, PythonTraceback

from necropsy.evidence import Table
from necropsy.evidence.activity import Activity
from necropsy.finding import Place
from necropsy.provenance.frames import primary, user_places


class ExceptionRow(Struct, frozen=True):
    """One traceback. `main` is the exception that tells the cause, `chain` all of them.

    `handled` means that the writer went on working after it; `places` are the user's
    places, the claim first.
    """

    anchor: Anchor
    origin: Origin
    seq: int
    attempt: int
    type: str
    message: str
    text: str
    kind: str
    handled: bool
    places: tuple[Place, ...]
    main: Exc
    chain: tuple[Exc, ...]
    lead: str

    @property
    def name(self) -> str:
        """The class name without its module."""
        return self.type.rsplit(".", 1)[-1]

    @property
    def everything(self) -> str:
        """All that the chain says, for searches."""
        return "\n".join(f"{e.type}: {e.text}" for e in self.chain)


class Exceptions(Table[ExceptionRow]):
    """One row a traceback, in order of reading."""

    name = "exceptions"
    row = ExceptionRow
    accepts = (PythonTraceback, TextRun, TrainingValue)
    columns: ClassVar[dict[str, str]] = {
        "anchor": "the line that names the telling exception",
        "origin": "who wrote it: rank, host, pid, time",
        "seq": "order of reading",
        "attempt": "number of the attempt in the log, from 0",
        "type": "class of the telling exception, as printed",
        "message": "its first line",
        "text": "its whole message",
        "kind": "plain, thread, ignored, logged, headless or bare",
        "handled": "the writer went on working after it",
        "places": "places of the user's code, the claim first",
        "main": "the telling exception of the chain",
        "chain": "all exceptions in printed order",
        "lead": "the line before the traceback",
    }

    def __init__(self) -> None:
        super().__init__()
        self._activity = Activity()
        self._at: dict[tuple[str, int], ExceptionRow] = {}
        self._fatal: dict[int, set[int]] = {}

    def add(self, record: Record) -> None:
        """Take a traceback, or a sign of work going on."""
        if isinstance(record, PythonTraceback):
            if record.kind != "stack":
                self.rows.append(_row(record))
        else:
            self._activity.add(record)

    def said(self, record: Record) -> ExceptionRow | None:
        """The exception whose message `record` was read from, or None for a line of the log."""
        return self._at.get((record.anchor.input, record.seq))

    def ranks_ended(self, attempt: int) -> Collection[int]:
        """The ranks that an exception of an attempt ended."""
        return self._fatal.get(attempt, frozenset())

    def finish(self) -> None:
        """Judge which exceptions were handled; needs what came after them."""
        self._activity.finish()
        self.rows = _joined(sorted(self.rows, key=lambda r: r.seq))
        self.rows = [
            replace(
                r,
                handled=r.kind == "ignored"
                or caught_by_dynamo(r)
                or self._activity.went_on(r.origin, r.seq, r.attempt),
            )
            for r in self.rows
        ]
        self.rows = _without_logged(self.rows)
        for row in self.rows:
            self._at.setdefault((row.anchor.input, row.seq), row)
            if not row.handled and row.origin.rank is not None:
                self._fatal.setdefault(row.attempt, set()).add(row.origin.rank)


def caught_by_dynamo(row: ExceptionRow) -> bool:
    """Whether Dynamo printed it after it had caught it.

    What `convert_frame.py` logs (`WON'T CONVERT ... due to:`) begins there; one that ends a program begins in the
    program, which called the compiled function.
    """
    first = [exc.frames[0].file.replace("\\", "/") for exc in row.chain if exc.frames]
    return bool(first) and row.kind != "headless" and all(f.endswith("/torch/_dynamo/convert_frame.py") for f in first)


def _joined(rows: list[ExceptionRow]) -> list[ExceptionRow]:
    """A traceback that torch logs while it raises belongs to the exception that follows.

    `torch/_subclasses/fake_tensor.py` logs "failed while attempting to run meta for ..."
    with the operator's own error (since torch 2.1); what then surfaces is Dynamo's wrapper.
    """
    out: list[ExceptionRow] = []
    for row in rows:
        last = out[-1] if out else None
        near = last is not None and last.attempt == row.attempt and last.anchor.input == row.anchor.input
        if last is not None and near and _logged_copy(last) and "_dynamo" in row.type:
            chain = (last.main, *row.chain)
            chain[1].relation = "cause"
            out[-1] = replace(
                row, anchor=last.anchor, type=last.type, message=last.message, text=last.text, main=last.main,
                chain=chain, places=tuple(user_places(chain, last.main)),
            )  # fmt: skip
        else:
            out.append(row)
    return out


def _logged_copy(row: ExceptionRow) -> bool:
    place = row.origin.place
    if place is None or row.places:
        return False
    # What `torch/_guards.py` logs of a guard that failed may stand open before it.
    return place[0].endswith(("_subclasses/fake_tensor.py", "torch/_guards.py"))


def _without_logged(rows: list[ExceptionRow]) -> list[ExceptionRow]:
    """What the compiler logs while it raises ended nothing, if the process died of something else later.

    `torch/_guards.py` logs "Error while creating guard" and raises; a program that catches that goes on.
    """
    out: list[ExceptionRow] = []
    died: dict[tuple[str, int, int | None], set[str]] = {}
    for row in reversed(rows):
        who = (row.anchor.input, row.attempt, row.origin.rank)
        logged = row.origin.place is not None and row.origin.place[0].endswith("torch/_guards.py")
        later = died.get(who, set())
        if not logged and not row.handled and row.kind == "plain":
            died.setdefault(who, set()).add(row.name)
        out.append(replace(row, handled=True) if logged and later and row.name not in later else row)
    return out[::-1]


def _row(record: PythonTraceback) -> ExceptionRow:
    chain = _connected(record.chain)
    main = primary(chain)
    line, start, end = main.at
    anchor = record.anchor
    if line:  # the line that names the exception says more than the traceback's first
        anchor = Anchor(anchor.input, start, end, line, f"{main.type}: {main.message}"[:400].rstrip(": "))
    return ExceptionRow(
        anchor=anchor,
        origin=record.origin,
        seq=record.seq,
        attempt=record.attempt,
        type=main.type,
        message=main.message,
        text=main.text,
        kind=record.kind,
        handled=False,
        places=tuple(user_places(chain, main)),
        main=main,
        chain=chain,
        lead=record.lead,
    )


def _connected(chain: tuple[Exc, ...]) -> tuple[Exc, ...]:
    """Without stacks that only stood before: no exception ended them, and nothing says that the next came of them."""
    kept = [e for e, later in pairwise(chain) if e.complete or e.type or later.relation]
    return (*kept, chain[-1])
