"""The vocabulary that every format speaks: where a record stands and whose it is.

All records are frozen; formats derive their own from `Record`. Lines are numbered
from 1 (as editors show them); byte offsets count the text *after* decompression and
conversion to UTF-8, half open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct


class Anchor(Struct, frozen=True):
    """A quoted stretch of an input.

    `input` is the input's display name (its path, `archive.tar!member`, or `-`),
    `start`/`end` are byte offsets, `line` is 1-based, `text` is the quoted first line
    without control characters and without launcher prefixes.
    """

    input: str
    start: int
    end: int
    line: int
    text: str = ""


class Stamp(Struct, frozen=True):
    """A clock reading as printed.

    `seconds` are comparable only between stamps of the same `clock`: `date` (seconds
    since 1970, zone as printed or none), `no-year` (glog: month and day but no year)
    or `day` (time of day only).
    """

    seconds: float
    clock: str
    text: str


class Origin(Struct, frozen=True):
    """Who wrote a line, as far as its prefixes tell; every part may be unknown.

    `source` is a service, pod, container or worker name; `stream` is `stdout` or
    `stderr`; `level` is the printed level of the message (`ERROR`, `W`, ...); `place`
    is the `file:line` of the logging call where a prefix shows it (0 where only the
    module is named). `compile_id` (`0/1`, `0/1_2`, `!0/0/0`) and `artifact`
    (`graph_breaks`) stand in the prefixes of torch's compiler.
    """

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    source: str | None = None
    stream: str | None = None
    level: str | None = None
    place: tuple[str, int] | None = None
    time: Stamp | None = None
    compile_id: str = ""
    artifact: str = ""


UNKNOWN = Origin()


class Frame(Struct, frozen=True):
    """One frame of a Python stack. `line` is None where the text does not say.

    `text` is the source text as the log quoted it ("" when it did not).
    """

    file: str
    line: int | None
    function: str = ""
    text: str = ""


INPUT_SHIFT: Final = 44  # bits of `Record.seq` for the place within an input: 16 TiB of text


def input_number(seq: int) -> int:
    """The number of the input, in order of reading, that a record's `seq` belongs to."""
    return seq >> INPUT_SHIFT


class Written(Struct, frozen=True, kw_only=True):
    """Whose message it is, and its place in the order of the run.

    `seq` is the order of reading within a run: the number of the input above
    `INPUT_SHIFT`, the byte offset below. `attempt` counts restarts from 0.
    """

    origin: Origin = UNKNOWN
    seq: int = 0
    attempt: int = 0


class Record(Written, frozen=True):
    """What every format's records share.

    Records, and the rows of tables, are msgspec's: a class is made in a fortieth of a
    dataclass's time (there are some 150, all made at start), an instance in an eighth.
    """

    anchor: Anchor


class Postponed(Record, frozen=True):
    """Records that `read` yields when somebody asks for their table: reading them costs more than most runs gain."""

    read: Callable[[], Iterable[Record]]
