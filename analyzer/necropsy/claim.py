"""Helpers with which rules turn a row into a finding, so that all of them say the same things the same way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.records import Origin, Record

from necropsy.conditions import PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.finding import Confidence, Finding, Fix, Place, Role, Severity
from necropsy.provenance.frames import is_library


def process_of(origin: Origin) -> str:
    """A name for the process that wrote a line; "" where nothing tells."""
    if origin.rank is not None:
        return f"rank {origin.rank}"
    if origin.local_rank is not None:
        return f"{origin.host or ''} local rank {origin.local_rank}".strip()
    return origin.source or ""


def ranks_of(origin: Origin) -> tuple[int, ...]:
    """The rank as a finding carries it."""
    return () if origin.rank is None else (origin.rank,)


def logged_place(origin: Origin) -> tuple[Place, ...]:
    """The place of the logging call, where the logger printed it."""
    if origin.place is None or not origin.place[0].endswith(".py") or is_library(origin.place[0]):
        return ()
    return (Place(origin.place[0], origin.place[1], how="logger"),)


def from_exception(row: ExceptionRow, message: str, **changes: Any) -> Finding:
    """A finding about an exception: fatal if it ended its process, a note if it was handled."""
    base: dict[str, Any] = {
        "message": message,
        "anchor": row.anchor,
        "severity": Severity.FATAL,
        "code": row.places,
        "ranks": ranks_of(row.origin),
        "seq": row.seq,
        "attempt": row.attempt,
        "process": process_of(row.origin),
        "time": row.origin.time,
        "event": event_of(row),
        "leaves": frozenset({PROCESS_DIED}),
    }
    base.update(changes)
    finding = Finding(**base)
    if row.handled:
        return handled(finding)
    if row.kind == "bare" and finding.confidence is Confidence.CERTAIN:
        finding = replace(finding, confidence=Confidence.LIKELY)  # without a traceback, who raised it is not known
    if row.kind == "thread":
        return replace(finding, severity=min(finding.severity, Severity.ERROR))
    return finding


def event_of(row: ExceptionRow) -> str:
    """The id of an exception as an event."""
    return f"exception@{row.anchor.input}:{row.seq}"


def event_of_record(row: Record) -> str:
    """The id of a message as an event."""
    return f"{type(row).__name__}@{row.anchor.input}:{row.seq}"


def from_record(
    row: Record, message: str, severity: Severity, *, activity: Activity | None = None, **changes: Any
) -> Finding:
    """A finding about a message of the log; a note if `activity` shows that its writer went on working."""
    base: dict[str, Any] = {
        "message": message,
        "anchor": row.anchor,
        "severity": severity,
        "ranks": ranks_of(row.origin),
        "seq": row.seq,
        "attempt": row.attempt,
        "process": process_of(row.origin),
        "time": row.origin.time,
        "event": event_of_record(row),
    }
    finding = Finding(**{**base, **changes})
    if activity is not None and activity.went_on(row.origin, row.seq, row.attempt):
        return handled(finding)
    return finding


def handled(finding: Finding) -> Finding:
    """The finding as a note: what it tells did not stop the program."""
    message = finding.message.rstrip(".") + "; the program went on after it."
    return replace(finding, severity=Severity.NOTE, role=Role.SYMPTOM, message=message, leaves=frozenset(), fixes=())


def from_incident(first: Record, row: ExceptionRow | None, message: str, **changes: Any) -> Finding:
    """A finding about several records at once: at the place of the exception that said one, else at `first`."""
    if row is not None:
        return from_exception(row, message, **changes)
    return from_record(first, message, Severity.FATAL, **changes)


def told(
    record: Record,
    exceptions: Exceptions,
    message: str,
    severity: Severity,
    *,
    activity: Activity | None = None,
    **changes: Any,
) -> Iterator[Finding]:
    """The finding about a message, at its exception's place if one said it, else about the line.

    `severity` is that of the line; an exception's follows from what became of it.
    """
    row = exceptions.said(record)
    if row is not None:
        yield from_exception(row, message, **changes)
    elif not getattr(record, "from_exception", False):
        yield from_record(record, message, severity, activity=activity, **changes)


class Saying(Struct, frozen=True):
    """A wording of an exception and what it means.

    `says` is a sentence in which `{name}` stands for the pattern's groups; `types`
    limits it to exception classes (by their last name), `holds` to texts with one of
    these words: patterns that begin with anything cost much where they do not match.
    """

    regex: str
    says: str
    fixes: tuple[Fix, ...] = ()
    types: tuple[str, ...] = ()
    confidence: Confidence = Confidence.CERTAIN
    holds: tuple[str, ...] = ()

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled wording; compiled on first use, since most logs need few of the hundred."""
        return _compiled(self.regex)


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex, re.DOTALL)


def saying(
    pattern: str,
    says: str,
    *fixes: str | Fix,
    types: Sequence[str] = (),
    likely: bool = False,
    holds: Sequence[str] = (),
) -> Saying:
    """A `Saying`; plain strings are code fixes."""
    return Saying(
        pattern,
        says,
        tuple(f if isinstance(f, Fix) else Fix(f, "code") for f in fixes),
        tuple(types),
        Confidence.LIKELY if likely else Confidence.CERTAIN,
        tuple(holds),
    )


def match(sayings: Sequence[Saying], row: ExceptionRow) -> tuple[Saying, re.Match[str]] | None:
    """The first wording that the telling exception uses."""
    text = f"{row.name}: {row.text}"
    for s in sayings:
        if (s.types and row.name not in s.types) or (s.holds and not any(word in text for word in s.holds)):
            continue
        if (m := s.pattern.search(text)) is not None:
            return s, m
    return None


def said(found: tuple[Saying, re.Match[str]]) -> str:
    """The sentence with the groups filled in."""
    s, m = found
    groups = {k: " ".join((v or "").split()) for k, v in m.groupdict().items()}
    return s.says.format(**groups)


def one_line(text: str, limit: int = 200) -> str:
    """The first line of a message, shortened for a sentence."""
    line = " ".join(text.strip().split("\n", 1)[0].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
