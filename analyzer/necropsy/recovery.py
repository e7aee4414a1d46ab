"""What a log shows of error handling, dumps and restarts: facts and next steps about exactly these settings.

What is on already is never advised, and what is off is named with the value and the line that show it. Names, defaults
and effects are those of ProcessGroupNCCL (torch 1.13 to 2.13) and of torchrun. A launcher's own lines count only where
no rank says what is in force there; an old name only where the new one is not set (c10d's Utils.hpp).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

from msgspec import Struct

from necropsy_parsers.messages.setting import Setting

from necropsy.evidence.settings import Settings
from necropsy.evidence.worker_groups import WorkerGroups
from necropsy.finding import Fact, Fix, Related

HANDLING: Final = ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING")
BLOCKING: Final = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
MONITOR: Final = ("TORCH_NCCL_ENABLE_MONITORING",)
DUMP: Final = ("TORCH_NCCL_DUMP_ON_TIMEOUT",)
BUFFER: Final = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")  # the first since torch 2.9
FILES: Final = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
HEARTBEAT: Final = ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",)
DESYNC: Final = ("TORCH_NCCL_DESYNC_DEBUG", "NCCL_DESYNC_DEBUG")
RESTARTS: Final = ("TORCHELASTIC_MAX_RESTARTS",)
_SHOWN: Final = (HANDLING, BLOCKING, MONITOR, HEARTBEAT, DUMP, BUFFER, FILES, DESYNC)
_NO: Final = frozenset({"0", "n", "no", "f", "false"})  # c10d's getCvarBool
_YES: Final = frozenset({"1", "y", "yes", "t", "true"})
_SIZE: Final = "TORCH_NCCL_TRACE_BUFFER_SIZE=2000"  # the old name: releases before 2.9 know no other
_PREFIX: Final = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/tmp/nccl_trace_rank_"
_PLAIN: Final = re.compile(r"[\w./~-]{1,200}")  # nothing that a shell would read as more than a path
_NAMES_IT: Final = "of all ranks; they name the rank that never entered, and its Python line"

P = ParamSpec("P")
T = TypeVar("T")

_AGAIN: Final = Fix(
    "Let torchrun start the workers again (max_restarts is 0), and load the last checkpoint at start",
    "flag",
    command="torchrun --max-restarts=3 ...",
)


class InForce(Struct, frozen=True):
    """One setting in force: the row of each rank that says it, or the launcher's only."""

    rows: tuple[Setting, ...]

    @property
    def text(self) -> str:
        """`NAME=value`, each value once."""
        return f"{self.rows[0].name}={'|'.join(dict.fromkeys(r.value for r in self.rows))}"

    def having(self, values: Iterable[str]) -> InForce | None:
        """What of it has one of these values; None if nothing has."""
        rows = tuple(r for r in self.rows if r.value.lower() in values)
        return InForce(rows) if rows else None

    @property
    def who(self) -> str:
        """` on rank 3`, where some ranks only are meant by name."""
        ranks = sorted({r.spoken_by for r in self.rows if r.spoken_by is not None})
        return f" on rank {ranks[0]}" if len(ranks) == 1 else ""


def _once(work: Callable[Concatenate[Settings, P], T]) -> Callable[Concatenate[Settings, P], T]:
    """Many findings of a run ask the same of its settings, and every rank may have said each of them."""

    @wraps(work)
    def told(settings: Settings, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (work.__name__, args, *kwargs.items())
        if key not in settings.told:
            settings.told[key] = work(settings, *args, **kwargs)
        found: T = settings.told[key]
        return found

    return told


@_once
def in_force(settings: Settings, names: tuple[str, ...]) -> InForce | None:
    """The value in force under the first of `names` that is told; None if none is."""
    for name in names:
        rows = [s for s in settings.named(name) if s.value]
        if rows:
            told = [s for s in rows if s.spoken_by is not None] or rows
            return InForce(tuple({s.spoken_by: s for s in told}.values()))
    return None


def facts(settings: Settings, groups: WorkerGroups) -> dict[str, Fact]:
    """The settings seen, as one fact."""
    seen = list(_seen(settings))
    if (limit := restarts(settings, groups)) is not None:
        seen.append(f"max_restarts={limit}")
    return {"settings seen": seen} if seen else {}


@_once
def _seen(settings: Settings) -> tuple[str, ...]:
    return tuple(found.text for names in _SHOWN if (found := in_force(settings, names)) is not None)


def restarts(settings: Settings, groups: WorkerGroups) -> int | None:
    """The restarts that torchrun may make; None if the log does not say."""
    if groups.restarts is not None:
        return groups.restarts
    told = in_force(settings, RESTARTS)
    value = told.rows[0].value if told is not None else ""
    return int(value) if value.isdecimal() and len(value) < 10 else None


@_once
def quotes(settings: Settings, *, dumps: bool = True) -> tuple[Related, ...]:
    """The lines that show what keeps a failed job from ending, or (`dumps`) from being explained."""
    unrecorded = (_unrecorded(settings) or _off(settings, DUMP)) if dumps else None
    found = (_unhandled(settings), _blocking(settings), _off(settings, MONITOR), unrecorded)
    return tuple(Related(f.rows[0].anchor, f"in force: {f.text}") for f in found if f is not None)


def ending(settings: Settings, groups: WorkerGroups) -> tuple[Fix, ...]:
    """Next steps so that a failed communication ends the job, and the job starts again."""
    return (*hanging(settings, groups), *again(settings, groups))


@_once
def hanging(settings: Settings, groups: WorkerGroups) -> tuple[Fix, ...]:
    """Next steps about what keeps ranks from ending once a communication failed."""
    return tuple(_hanging(settings, restarts(settings, groups)))


def again(settings: Settings, groups: WorkerGroups) -> tuple[Fix, ...]:
    """The next step if torchrun was told never to restart."""
    return (_AGAIN,) if restarts(settings, groups) == 0 else ()


def _hanging(settings: Settings, limit: int | None) -> Iterator[Fix]:
    still = "; torchrun cannot restart what does not end" if limit else ""
    if (off := _unhandled(settings)) is not None:
        why = "only the communicator is aborted" if off.rows[0].value == "2" else "nothing ends the ranks"
        yield Fix(
            f"Unset {off.text}{off.who}: after an error or a timeout {why}, so the job hangs{still} "
            "(default: 3, the process ends)",
            "env",
            "safe",
            f"unset {off.rows[0].name}",
        )
    if (blocking := _blocking(settings)) is not None:
        yield Fix(
            f"Unset {blocking.text}{blocking.who}: no watchdog runs, so ranks outside of wait() are not ended and no "
            "dump is written",
            "env",
            "safe",
            f"unset {blocking.rows[0].name}",
        )
    if (off := _off(settings, MONITOR)) is not None:
        yield Fix(
            f"Unset {off.text}{off.who}: a process whose watchdog hangs is never ended, and dumps are not written",
            "env",
            "safe",
            f"unset {off.rows[0].name}",
        )


@_once
def recorder(settings: Settings) -> tuple[Fix, ...]:
    """Next steps to get flight-recorder dumps: what is missing of it, or where the dumps are."""
    size, dump = in_force(settings, BUFFER), in_force(settings, DUMP)
    off = [f for f in (_unrecorded(settings), _off(settings, DUMP)) if f is not None]
    if size is not None and dump is not None and not off:
        place = in_force(settings, FILES)
        where = place.rows[0].value if place is not None and _PLAIN.fullmatch(place.rows[0].value) else ""
        return (
            Fix(
                f"Give the flight-recorder dumps {_NAMES_IT}",
                "investigate",
                command=f"analyze {where}*"
                if where
                else "ls /tmp/nccl_trace_rank_* ~/.cache/torch/comm_lib_trace_rank_*",
            ),
        )
    missing = [
        *([_SIZE] if size is None or _unrecorded(settings) is not None else []),
        *(["TORCH_NCCL_DUMP_ON_TIMEOUT=1"] if dump is None or _off(settings, DUMP) is not None else []),
        *([_PREFIX] if in_force(settings, FILES) is None else []),
    ]
    why = f" (seen: {', '.join(f.text for f in off)})" if off else ""
    return (Fix(f"Collect flight-recorder dumps{why} {_NAMES_IT}", "env", "safe", " ".join(missing)),)


def renamed(settings: Settings) -> tuple[Fix, ...]:
    """Old names that torch itself warned of."""
    known = {n: names[0] for names in (HANDLING, BLOCKING, DESYNC) for n in names[1:]}
    return tuple(
        Fix(
            f"Set {known[name]} instead of {name}, which torch warns is deprecated; the new name wins if both are set",
            "env",
        )
        for name in settings.valueless
        if name in known
    )


def _off(settings: Settings, names: tuple[str, ...]) -> InForce | None:
    found = in_force(settings, names)
    return found.having(_NO) if found is not None else None


def _unhandled(settings: Settings) -> InForce | None:
    found = in_force(settings, HANDLING)
    return found.having(("0", "2")) if found is not None else None


def _blocking(settings: Settings) -> InForce | None:
    found = in_force(settings, BLOCKING)
    return found.having(_YES) if found is not None else None


def _unrecorded(settings: Settings) -> InForce | None:
    found = in_force(settings, BUFFER)
    return found.having(("0", "-1")) if found is not None else None
