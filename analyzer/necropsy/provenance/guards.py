"""Which guard decided a recompilation, and which line of code it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.numbers import natural
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame
from necropsy_parsers.text.guard_failure import GuardFailure

from necropsy.finding import Place
from necropsy.provenance.dynamo import claimed_frame, plain_function, whole_path
from necropsy.provenance.frames import is_library, place_of

# The order in which the guard of a tensor compares (torch/csrc/dynamo/guards.cpp, `TensorCheck::check_verbose`).
_STAGES: Final = {"keyset": 0, "dtype": 1, "device": 2, "requires_grad": 3, "rank": 4, "size": 5, "stride": 5}
# What goes to and fro in every job: a version that failed at something else did fit in this.
_TOGGLES: Final = ("requires_grad", "state")
_VALUES: Final = ("int", "float", "bool", "str", "none", "value")
_NOTHING: Final[Mapping[str, str]] = {}
# Files of torch and its neighbours after the common part with torch's own folder was cut off.
_CUT_LIBRARY: Final = lazily(
    r"^(?:nn/(?:modules|functional|parallel|utils|attention)|_\w+/|utils/|optim/|distributed/|autograd/|fx/|amp/|cuda/"
    r"|functional\.py|[\w.-]+-packages/|transformers/|diffusers/|torchvision/|einops/|lightning/|accelerate/|peft/)"
)


def deciding(entries: Sequence[Sequence[GuardFailure]], before: Mapping[str, str] = _NOTHING) -> GuardFailure | None:
    """The failure that called for a new version.

    It is that of the version used last, unless an older version came further: one that differs in a tensor's size did
    fit in all that is compared before sizes, and a change of mode has a version of its own already. `before` tells
    whose value each version failed at last time: one that failed there and now fails elsewhere has what is asked for
    of that value (guards that failed are tried first), so that what it fails at now decides.
    """
    first = next((entry[0] for entry in entries if entry), None)
    if first is None:
        return None
    best = first
    if first.guard.kind in _VALUES:
        for entry in entries[1:]:
            other = entry[0] if entry else None
            if other is not None and before.get(other.entry) == first.guard.source != other.guard.source:
                return other
    if not _may_yield(first):
        return best
    for entry in entries[1:]:
        other = entry[0] if entry else None
        if other is None:
            continue
        a, b = best.guard, other.guard
        same = a.source == b.source and a.kind in _STAGES and b.kind in _STAGES
        if (same and _STAGES[b.kind] > _STAGES[a.kind]) or (
            (a.kind in _TOGGLES or a.source.endswith(".training"))
            and b.kind not in (*_TOGGLES, "unknown")
            and not b.source.endswith(".training")
        ):
            best = other
    return best


def _may_yield(failure: GuardFailure) -> bool:
    """Whether another version's failure can say more than this one."""
    guard = failure.guard
    return guard.kind in _STAGES or guard.kind in _TOGGLES or guard.source.endswith(".training")


def guard_place(failure: GuardFailure | None, known: Iterable[str]) -> Place | None:
    """The user's line that made a guard, or None where the guard is torch's own; `known` are whole paths of the run."""
    if failure is None:
        return None
    frame, how = claimed_frame(failure.stack), "user stack trace"
    if frame is None or is_library(frame.file):
        frame, how = failure.comment, "guard comment"
        if frame is None:
            return None
        frame = replace(frame, file=whole_path(frame.file, known))
        if is_library(frame.file) or frame.file.startswith("<") or _CUT_LIBRARY.match(frame.file):
            return None
    place = place_of(frame, how=how)
    return replace(place, function=plain_function(place.function))


# A range has one comment for each of its bounds: `... (note) and if t > 64:  # path:16 in forward (framework)`.
_SECOND: Final = lazily(r"\) and (?P<text>\S.*?)  # (?P<file>\S+\.py):(?P<line>\d+) in (?P<function>[\w<>]+)")
_RANGE: Final = lazily(r"^-?\d+ <=? _ <=? (?P<high>-?\d+)$")


def bound_place(failure: GuardFailure | None, now: str, known: Iterable[str]) -> Place | None:
    """The line behind the upper bound of a range that a size has passed, where the log tells both."""
    if failure is None or failure.guard.operator != "in range" or not now.isdecimal():
        return None
    bounds, second = _RANGE.match(failure.guard.expected), _SECOND.search(failure.note)
    if bounds is None or second is None or natural(now) <= natural(bounds["high"]):
        return None
    frame = Frame(second["file"], natural(second["line"]), second["function"], second["text"].strip())
    return guard_place(GuardFailure("", comment=frame), known)
