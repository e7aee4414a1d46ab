"""What Necropsy says: a finding, the places it names, its cost and its fixes."""

from __future__ import annotations

import hashlib
from enum import IntEnum, StrEnum
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.records import Anchor, Stamp

MAX_PLACES: Final = 5  # more places than this in one finding is no claim at all


class Severity(IntEnum):
    """How bad: larger is worse. `label` is the word used in JSON and on screen."""

    NOTE = 0  # worth knowing
    WARNING = 1  # costs time, memory or accuracy
    ERROR = 2  # an operation failed, wrong results, or a frame silently eager
    FATAL = 3  # ended the run

    @property
    def label(self) -> str:
        """Lower-case name."""
        return self.name.lower()

    @classmethod
    def parse(cls, text: str) -> Severity:
        """The severity named `text`. Raises `KeyError` for an unknown name."""
        return cls[text.upper()]


class Confidence(StrEnum):
    """How sure: the input says so / several signs agree / a pattern only."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Role(StrEnum):
    """Place in the story: the cause, what died with it, or an outward sign of it."""

    ROOT = "root"
    CASCADE = "cascade"
    SYMPTOM = "symptom"


class Rests:
    """What a place rests on beyond its words, for passes that can say more; equal to any other, and not in reports."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rests)

    def __hash__(self) -> int:
        return 0


class Place(Struct, frozen=True):
    """A place in the user's program.

    `exactness` says how far to trust `line`: `line` and `statement` are claims about
    that line; `function` and `module` only name the surrounding code. `how` names the
    resolver that found it; `text` is the source as the input quoted it.
    """

    file: str
    line: int | None
    end_line: int | None = None
    function: str = ""
    text: str = ""
    exactness: str = "line"
    how: str = "traceback"
    rests: Rests = Rests()


class Related(Struct, frozen=True):
    """Further evidence: a labelled anchor."""

    anchor: Anchor
    label: str


class Fix(Struct, frozen=True):
    """A next step. `safety` is `safe`, `unsafe` or `display-only` (after ruff).

    `kind`: `code`, `config`, `env`, `flag`, `command`, `investigate`.
    """

    title: str
    kind: str = "investigate"
    safety: str = "display-only"
    command: str = ""


class Cost(Struct, frozen=True):
    """What it cost: nanoseconds, share of a step or of the run, and how it was got.

    `basis` is `measured`, `estimated` or `unknown`.
    """

    ns: int | None = None
    share: float | None = None
    basis: str = "unknown"


Fact = str | int | float | bool | list[str] | list[int]


class Finding(Struct, frozen=True, kw_only=True):
    """One claim with its evidence.

    `message` is one sentence: fact, then consequence. `code[0]` is the claim, at most
    five places. `leaves` and `shows` are conditions (see `conditions.py`): what this
    event can lead to later, and what it may itself be a sign of; `correlate` joins on
    them. `seq`, `process` and `attempt` give the order and the process it happened in. `event` is the
    evidence row it rests on: two findings of one event are one story. A finding that
    `confirms` (a kernel's record of a kill) may come after what it explains; one that
    `follows` an event is its consequence wherever that stands (a later run that says it
    better); further events that it tells are its `claims`; one of `last_resort` is
    dropped if anything else failed. `time` is the clock reading of its line; `processes` are
    those of all copies (a rule gives those of the events it claims); `attempts`, `moment`,
    `began` (the clock when its input began) and `explained_by` are set by `correlate`.
    `explained_by` is the fingerprint of the cause.
    `subject` tells findings of one rule at one place apart: which of several values that line uses.
    """

    message: str
    anchor: Anchor
    severity: Severity
    rule: str = ""
    name: str = ""
    confidence: Confidence = Confidence.CERTAIN
    role: Role = Role.ROOT
    code: tuple[Place, ...] = ()
    related: tuple[Related, ...] = ()
    facts: dict[str, Fact] = field(default_factory=dict)
    fixes: tuple[Fix, ...] = ()
    ranks: tuple[int, ...] = ()
    cost: Cost = Cost()
    leaves: frozenset[str] = frozenset()
    shows: frozenset[str] = frozenset()
    seq: int = 0
    attempt: int = 0
    process: str = ""
    event: str = ""
    count: int = 1
    explained_by: str = ""
    confirms: bool = False
    follows: str = ""
    last_resort: bool = False
    claims: frozenset[str] = frozenset()
    time: Stamp | None = None
    processes: tuple[str, ...] = ()
    attempts: tuple[int, ...] = ()
    moment: float | None = None
    began: float | None = None
    subject: str = ""

    @property
    def fingerprint(self) -> str:
        """Stable across runs: rule, file, function and quoted text; no paths, and a number only for want of them."""
        place = self.code[0] if self.code else None
        where = (place.file.replace("\\", "/").rsplit("/", 1)[-1], *_words(place)) if place else ()
        what = "".join(c for c in self.anchor.text if not c.isdigit()) if not place else ""
        key = "\0".join((self.rule, *where, what, *([self.subject] if self.subject else [])))
        return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]


def _words(place: Place) -> tuple[str, str]:
    """Function and quoted text, which survive edits above the line; the line only where neither is told."""
    text = place.text.strip()
    return place.function, text if text or place.function else f"line {place.line}"
