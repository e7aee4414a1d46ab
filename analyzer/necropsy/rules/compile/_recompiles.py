"""How the rules about recompilations say things: what changed, where, and the remedy for that cause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from necropsy_parsers.messages.recompile_limit import RecompileLimit
from necropsy_parsers.messages.setting import Setting

from necropsy.claim import one_line
from necropsy.evidence.compiles import Compiles
from necropsy.evidence.recompiles import RecompileRow
from necropsy.finding import MAX_PLACES, Cost, Fact, Place, Related
from necropsy.provenance.recompiles import VALUES, Story, failure_of
from necropsy.provenance.sizes import asked_in_words
from necropsy.releases import torch_release

Version = tuple[int, int]
UNKNOWN: Final = ((2, 1), (99, 0))
_UNSAID: Final = frozenset(
    {"alias", "attribute", "membership", "missing", "identity", "deallocated", "state", "backend"}
)


def versions(stories: Iterable[Story], settings: Iterable[Setting]) -> tuple[Version, Version]:
    """The release that the log names; else the oldest and the newest that word their messages like this."""
    if (release := torch_release(settings)) is not None:
        return (release, release)
    low, high = UNKNOWN
    for story in stories:
        for row in story.all():
            failure = failure_of(row)
            if isinstance(row, RecompileLimit) and "cache_size_limit" in row.option:
                high = min(high, (2, 6))
            elif isinstance(row, RecompileLimit) and "recompile_limit" in row.option:
                low = max(low, (2, 7))
            if row.wording == "2.1":
                high = min(high, (2, 1))
            if failure is None:
                continue
            if failure.entry:
                low = max(low, (2, 5))
            if failure.stack:
                low = max(low, (2, 11))
            if failure.note.startswith("torch.compile considers integer"):
                low = max(low, (2, 8))
            if re.search(r"\bL\[", failure.guard.raw):
                high = min(high, (2, 6))
            elif failure.guard.raw.startswith("tensor '"):
                low = max(low, (2, 7))
    return (low, high) if low <= high else UNKNOWN


def is_int_attribute(story: Story) -> bool:
    """Whether an integer attribute of a module changes. Since torch 2.8 it says so; before, `self` is taken for one."""
    failure = story.failure
    if failure is None or failure.guard.kind != "int":
        return False
    if "integer attributes of the nn.Module" in failure.note:
        return True
    return not failure.stack and re.match(r"self\b.*\.\w+$", failure.guard.source) is not None


def subject(story: Story) -> str:
    """What changes, as a sentence's subject."""
    failure = story.failure
    if failure is None:
        return "a guard that the log does not tell"
    guard = failure.guard
    name = f"`{named(story)}`"
    if guard.source.startswith("___stack"):  # what the resumed function found on the stack
        name += " (a value kept across a graph break)"
    dim = f"dimension {guard.dim} of " if guard.dim is not None else ""
    words = {
        "size": f"the size of {dim}{name}",
        "stride": f"the memory layout (stride) of {dim}{name}",
        "rank": f"the number of dimensions of {name}",
        "dtype": f"the dtype of {name}",
        "device": f"the device of {name}",
        "keyset": f"the device or kind of tensor (dispatch keys) of {name}",
        "requires_grad": f"requires_grad of {name}",
        "length": f"the length of {name}",
        "keys": f"the set of keys of {name}",
        "membership": f"whether {name} holds {one_line(guard.expected, 40)}",
        "attribute": f"whether {name} has the attribute `{guard.expected}`",
        "missing": f"whether {name} is there",
        "type": f"the type of {name}",
        "identity": f"the object {name} (a new one is passed)",
        "deallocated": f"the object {name} (the one compiled for is gone)",
        "alias": f"which inputs are the same tensor ({one_line(guard.raw, 60)})",
        "state": f"torch's global state ({states})" if (states := _states(story)) else "torch's global state",
        "backend": "the backend that torch.compile was given",
        "config": "torch._dynamo.config",
        "none": f"whether {name} is None",
    }
    if guard.kind in words:
        return words[guard.kind]
    if guard.kind in VALUES:
        noun = {"int": "integer", "float": "float", "str": "string", "bool": "flag"}.get(guard.kind, "value")
        if is_int_attribute(story):
            return f"the integer attribute {name}"
        return f"the Python {noun} {name}" if guard.kind in ("int", "float", "str") else f"the {noun} {name}"
    return f"the guard `{one_line(guard.raw, 80)}`"


def _states(story: Story) -> str:
    """The parts of torch's state that changed: grad_mode, autocast."""
    if story.failure is None or story.failure.guard.kind != "state":
        return ""
    found = [f.guard.source for r in story.all() if (f := failure_of(r)) is not None and f.guard.kind == "state"]
    return ", ".join(dict.fromkeys(part for source in found for part in source.split()))


def named(story: Story) -> str:
    """The changing thing's name; a closure's variable by its own name."""
    failure = story.failure
    assert failure is not None
    closure = re.match(r'guard on "(\w+)"', failure.note)
    return closure[1] if closure else one_line(failure.guard.source or failure.guard.raw, 80)


def about(story: Story) -> str:
    """What tells stories at one line apart: which value, which of its properties."""
    failure = story.failure
    if failure is None:
        return ""
    guard = failure.guard
    dim = "" if guard.dim is None else str(guard.dim)
    return " ".join(filter(None, (guard.kind, guard.source, dim, guard.term)))


def change(story: Story) -> str:
    """What it was in turn, as ` (48 -> 41)`, "" if the log tells one value only."""
    failure = story.failure
    if failure is not None and failure.guard.kind in _UNSAID:
        return ""
    if words := asked_of(story):
        return f" (compiled for {words}{f'; now {story.now}' if story.now else ''})"
    values = [one_line(v, 30) for v in story.values]
    if failure is not None and failure.guard.kind == "keys" and values:
        return f" (compiled for {', '.join(values[:3])})"
    if len(values) > 6:
        values = [*values[:4], "...", values[-1]]
    if len(values) < 2 and failure is not None and failure.guard.operator not in ("==", "is", ""):
        return f" (compiled for {failure.guard.operator} {failure.guard.expected})" if failure.guard.expected else ""
    return f" ({' -> '.join(values)})" if len(values) > 1 else f" (compiled for {values[0]})" if values else ""


def asked_of(story: Story) -> str:
    """What the compiled version asks of a size that has become dynamic, in words: "multiples of 8"."""
    failure = story.failure
    return "" if failure is None else asked_in_words(failure.guard)


def code_of(story: Story) -> tuple[Place, ...]:
    """The line of the cause, then the one that reads the value, where a size entered, the function that is compiled."""
    found = [p for p in (story.place, story.read, story.entered, story.header) if p is not None]
    unique: dict[tuple[str, int | None], Place] = {}
    for place in found:
        unique.setdefault((place.file, place.line), place)
    return tuple(unique.values())[:MAX_PLACES]


def quoted(story: Story) -> str:
    """` at \\`self.steps += 1\\``, where the log quotes the line."""
    place = story.place
    text = re.sub(r"\s{2,}#[^\"']*$", "", place.text) if place is not None else ""
    at = ", first used at" if place is story.entered else " at"
    return f"{at} `{one_line(text, 80)}`" if text else ""


def functions(story: Story) -> str:
    """The functions touched, as a phrase."""
    names = story.functions()
    if not names:
        return "a compiled function"
    if names == ["inner"] and story.header is None:  # torch/_dynamo/external_utils.py stands for modules of torch
        return "A module of torch that is compiled by itself"
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(f"`{n}`" for n in names[:2]) + more


def facts(story: Story) -> dict[str, Fact]:
    """Numbers and words behind a finding."""
    failure = story.failure
    found: dict[str, Fact] = {}
    if story.rows:
        found["recompilations"] = len(story.rows)
        found["most of one function"] = story.most
    if failure is not None:
        found["guard"] = one_line(failure.guard.raw, 200)
    if values := story.values:
        found["values"] = [one_line(v, 60) for v in values[:12]]
    if names := story.functions():
        found["functions"] = names[:8]
    if ids := story.compile_ids():
        found["compilations"] = ids[:16]
    return found


def spent(story: Story, compiles: Compiles | None) -> Cost:
    """The seconds that the recompilations took, where the log shows when each began and ended."""
    if compiles is None:
        return Cost()
    seconds: dict[tuple[int | None, int | None], float] = {}
    for r in story.rows:
        one = compiles.seconds_of(r, r.compile_id)
        who = (r.origin.rank, r.origin.pid)
        seconds[who] = seconds.get(who, 0.0) + (one or 0.0)
    most = max(seconds.values(), default=0.0)  # ranks compile side by side
    return Cost(int(most * 1e9), None, "estimated") if most > 0 else Cost()


def related(story: Story, count: int = 3) -> tuple[Related, ...]:
    """Further entries of the log."""
    rows = sorted(story.all(), key=lambda r: r.seq)
    labels = {
        r.seq: f"recompilation {r.compile_id}".strip() if isinstance(r, RecompileRow) else "limit hit" for r in rows
    }
    return tuple(Related(r.anchor, labels[r.seq]) for r in rows[1 : count + 1])
