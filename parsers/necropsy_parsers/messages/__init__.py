"""Messages inside logs, one kind per file.

A message module offers `NAME`, `TITLE`, `TRIGGERS` (byte literals, one of which every
message of the kind holds), optionally `SAMPLED` (literals so frequent that on large
inputs only a sample of their lines is read), `SAMPLES` (text -> what is read from it) and
`read(message) -> Iterator[Record]`. Discovery walks this folder; adding a kind edits no
list. Tracebacks are assembled by the text front end (`text.traceback`), and every
message is then offered what an exception said as well as what stood in a line.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Final, TypedDict

from ahocorasick_rs import AhoCorasick, Implementation
from msgspec import Struct

from necropsy_parsers.records import Anchor, Origin, Record
from necropsy_parsers.torch_artifacts import Reads

if TYPE_CHECKING:
    from necropsy_parsers.text.traceback import PythonTraceback


class Common(TypedDict):
    """The fields that a record has besides its own."""

    origin: Origin
    seq: int
    attempt: int


class Message(Struct, frozen=True):
    """A message: its first line and the lines that belong to it, joined by newlines.

    `exception` is the traceback that said it, or None for a line of the log; `headed`
    tells that a time, level or logger stood before it.
    """

    text: str
    anchor: Anchor
    origin: Origin
    seq: int
    attempt: int
    headed: bool = False
    exception: PythonTraceback | None = None

    @property
    def common(self) -> Common:
        """What every record of this message shares, for `Record(..., **message.common)`."""
        return {"origin": self.origin, "seq": self.seq, "attempt": self.attempt}

    @property
    def first(self) -> str:
        """The first line."""
        return self.text.split("\n", 1)[0]


# What may stand before an error's own words in a line: nothing, an exception's name, C++'s labels.
_LABEL: Final = re.compile(
    r"^\W{0,4}(?:what\(\):\s*)?(?:[\w.:]*(?:Error|Exception|error|ERROR)\W{0,3}:? *)*$"
    r"|(?:terminated with exception|[Cc]aught (?:exception|error)|[Ee]xception|[Uu]nhandled \w+|failed with|failed): *$"
)


def is_label(before: str) -> bool:
    """Whether the text before an error's words only introduces them; in prose and quotations it does not."""
    return (
        len(before) < 300
        and _LABEL.search(before) is not None
        and not (before.count('"') % 2 or before.count("(") > before.count(")"))
    )


class MessageFormat(Struct, frozen=True):
    """A message module, as found."""

    name: str
    title: str
    doc: str
    triggers: tuple[str, ...]
    samples: dict[str, dict[str, object]]
    read: Callable[[Message], Iterator[Record]]
    sampled: tuple[str, ...] = ()
    reads: tuple[Reads, ...] = ()


@cache
def all_messages() -> tuple[MessageFormat, ...]:
    """Every message module, sorted by name."""
    found = []
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        module = importlib.import_module(info.name)
        found.append(
            MessageFormat(
                module.NAME,
                module.TITLE,
                module.__doc__ or "",
                tuple(t.decode() for t in module.TRIGGERS),
                module.SAMPLES,
                module.read,
                tuple(t.decode() for t in getattr(module, "SAMPLED", ())),
                getattr(module, "READS", ()),
            )
        )
    return tuple(found)


MANY: Final = 300  # texts after which it is made in any case
LONG: Final = 4096  # characters of a text for which the DFA, twice as fast and ready in 7 ms instead of one, is made
_ASKED: Final = count()


@cache
def _index(*, long: bool) -> tuple[AhoCorasick, tuple[MessageFormat, ...]]:
    """A search for all literals at once, and the kind of each literal."""
    pairs = [(t, kind) for kind in all_messages() for t in (*kind.triggers, *kind.sampled)]
    search = AhoCorasick([t for t, _ in pairs], implementation=Implementation.DFA if long else None)
    return search, tuple(kind for _, kind in pairs)


def kinds_of(text: str) -> list[MessageFormat]:
    """The kinds one of whose literals stands in `text`, sorted by name."""
    search, kinds = _index(long=next(_ASKED) > MANY or len(text) > LONG)
    found = {i for i, _, _ in search.find_matches_as_indexes(text, overlapping=True)}
    if len(found) < 2:
        return [kinds[i] for i in found]
    named = {kinds[i].name: kinds[i] for i in found}
    return [named[name] for name in sorted(named)]


def read_all(message: Message, kinds: Sequence[MessageFormat] | None = None) -> Iterator[Record]:
    """Offer `message` to every kind whose literals it holds: `kinds`, where they are known."""
    for kind in kinds_of(message.text) if kinds is None else kinds:
        yield from kind.read(message)
