"""How the rules about recompilations say things: what changed, where, and the remedy for that cause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.grammars.guard import shown
from necropsy_parsers.grammars.symbolic import asked
from necropsy_parsers.messages.recompile_limit import RecompileLimit
from necropsy_parsers.messages.setting import Setting
from necropsy_parsers.patterns import lazily

from necropsy.claim import one_line
from necropsy.evidence.compiles import Compiles
from necropsy.evidence.recompiles import RecompileRow
from necropsy.finding import MAX_PLACES, Cost, Fact, Fix, Place, Related
from necropsy.provenance.recompiles import VALUES, Story, failure_of
from necropsy.releases import torch_release

Version = tuple[int, int]
UNKNOWN: Final = ((2, 1), (99, 0))
_ARGUMENT: Final = lazily(r"^[^\W\d]\w*$")
_UNSAID: Final = frozenset(
    {"alias", "attribute", "membership", "missing", "identity", "deallocated", "state", "backend"}
)
_CHANGED: Final = lazily(r"(?:\+|-|\*|//?|%|\||&|<<|>>|\*\*)?=(?!=)")


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
    name = f"`{_named(story)}`"
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
        "keys": f"the keys of {name}",
        "membership": f"whether {name} holds {one_line(guard.expected, 40)}",
        "attribute": f"whether {name} has the attribute `{guard.expected}`",
        "missing": f"whether {name} is there",
        "type": f"the type of {name}",
        "identity": f"the object {name} (a new one is passed)",
        "deallocated": f"the object {name} (the one compiled for is gone)",
        "alias": f"which inputs are the same tensor ({one_line(guard.raw, 60)})",
        "state": f"torch's global state ({guard.source})" if guard.source else "torch's global state",
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


def _named(story: Story) -> str:
    """The changing thing's name; a closure's variable by its own name."""
    failure = story.failure
    assert failure is not None
    closure = re.match(r'guard on "(\w+)"', failure.note)
    return closure[1] if closure else one_line(failure.guard.source or failure.guard.raw, 80)


def change(story: Story) -> str:
    """What it was in turn, as ` (48 -> 41)`, "" if the log tells one value only."""
    failure = story.failure
    if failure is not None and failure.guard.kind in _UNSAID:
        return ""
    if words := asked_of(story):
        return f" (compiled for {words}{f'; now {story.now}' if story.now else ''})"
    values = [one_line(v, 30) for v in story.values]
    if len(values) > 6:
        values = [*values[:4], "...", values[-1]]
    if len(values) < 2 and failure is not None and failure.guard.operator not in ("==", "is", ""):
        return f" (compiled for {failure.guard.operator} {failure.guard.expected})" if failure.guard.expected else ""
    return f" ({' -> '.join(values)})" if len(values) > 1 else f" (compiled for {values[0]})" if values else ""


def asked_of(story: Story) -> str:
    """What the compiled version asks of a size that has become dynamic, in words: "multiples of 8"."""
    failure = story.failure
    if failure is None or failure.guard.kind != "size" or failure.guard.raw.startswith("tensor '"):
        return ""
    told = asked(failure.guard.raw)
    if told is None or told.only is not None:
        return ""
    other = re.fullmatch(r"(?P<words>.*?)(?P<size>\S+)\.size\(\)\[(?P<dim>\d+)\]", told.words)
    return f"{other['words']}dimension {other['dim']} of {shown(other['size'])}" if other else told.words


def code_of(story: Story) -> tuple[Place, ...]:
    """The line of the cause, then where the size entered, then the function that is compiled."""
    found = [p for p in (story.place, story.entered, story.header) if p is not None]
    unique = {(p.file, p.line): p for p in reversed(found)}
    return tuple(reversed(unique.values()))[:MAX_PLACES]


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
    took = {(c.anchor.input, c.attempt, c.origin.rank, c.origin.pid, c.compile_id): c.seconds for c in compiles}
    seconds: dict[tuple[int | None, int | None], float] = {}
    for r in story.rows:
        one = took.get((r.anchor.input, r.attempt, r.origin.rank, r.origin.pid, r.compile_id))
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


# -- remedies -----------------------------------------------------------------------------------------------------


def fixes(story: Story, known: tuple[Version, Version]) -> tuple[Fix, ...]:
    """What to do about this cause, in releases that may be this one."""
    failure = story.failure
    if failure is None:
        return (
            Fix("Log the reasons", "env", "safe", "TORCHDYNAMO_REPORT_GUARD_FAILURES=1 TORCH_LOGS=recompiles ...")
            if known[1] <= (2, 1)
            else Fix("Log all reasons", "env", "safe", "TORCH_LOGS=recompiles ..."),
        )
    guard = failure.guard
    if guard.kind == "size" and story.fixed is not None:
        return _fixed(story)
    if guard.kind == "size":
        return _asked(story) if asked_of(story) and not _zero_one(story) else _size(story, known)
    if is_int_attribute(story):
        return _attribute(story, known)
    name = _named(story)
    if guard.kind in ("int", "float"):
        return _number(guard.kind, name, known)
    if guard.source.endswith(".training") or guard.kind in ("state", "requires_grad"):
        return (
            Fix(
                "Switch modes rarely: each of train/eval, no_grad and autocast has a compiled version of its own",
                "code",
            ),
            Fix("Enter no_grad or autocast outside the compiled function, in the same way on every call", "code"),
        )
    told = {
        "stride": f"Pass one layout: `.contiguous()` (or one memory format) on `{name}` before the call",
        "rank": f"Give `{name}` the same number of dimensions on every call (unsqueeze, view)",
        "dtype": f"Convert `{name}` to one dtype before the call; each dtype is compiled separately",
        "device": f"Keep `{name}` on one device; each device is compiled separately",
        "keyset": f"Pass `{name}` from the same device and as the same kind of tensor on every call",
        "length": f"Give `{name}` a fixed length (pad it), or stack its tensors into one with a dynamic dimension",
        "keys": f"Give `{name}` the same keys in the same order on every call",
        "membership": f"Give `{name}` the same members on every call",
        "missing": f"Give `{name}` the same entries on every call",
        "attribute": f"Set the attribute `{guard.expected}` in the constructor, before the first call",
        "type": f"Pass `{name}` as the same type on every call",
        "identity": f"Create `{name}` once, outside the loop, and pass the same object",
        "deallocated": f"Create `{name}` once, outside the loop, and keep it alive",
        "alias": "Do not pass the same tensor twice on some calls only: clone it, or compile both ways on purpose",
        "backend": "Call torch.compile once and keep its result; pass the same backend object",
        "config": "Set torch._dynamo.config once, before the first compiled call",
        "str": f"Pass few values of `{name}`, or make the functions apart: each value is compiled separately",
        "bool": f"Decide `{name}` outside the compiled function, or pass a tensor: each value is compiled separately",
        "none": f"Pass `{name}` always or never; a neutral tensor (zeros, ones) can stand for None",
        "value": f"Keep `{name}` constant, or pass what changes as a tensor",
    }
    text = told.get(
        guard.kind, "Make what the guard compares the same on every call, or move it out of the compiled function"
    )
    return (Fix(text, "code"),)


def _fixed(story: Story) -> tuple[Fix, ...]:
    return (
        Fix(
            "Let the size stay a size on that line: it is used there as a Python number (a loop over range(), int(), a "
            "comparison, a constant of the same size), so that each value is compiled by itself. mark_dynamic alone "
            "would turn this into an error",
            "code",
        ),
        Fix("Pad or bucket the inputs to a few sizes", "code"),
    )


def _asked(story: Story) -> tuple[Fix, ...]:
    """The size is dynamic already; what is asked of it makes the versions."""
    return (
        Fix(
            f"The size is dynamic already; one version holds for {asked_of(story)}, another for the rest. Decide that "
            "outside the compiled function, or pad so that it comes out alike on every call",
            "code",
        ),
    )


def _size(story: Story, known: tuple[Version, Version]) -> tuple[Fix, ...]:
    failure = story.failure
    assert failure is not None
    guard = failure.guard
    dim = guard.dim if guard.dim is not None else 0
    name = guard.source if _ARGUMENT.match(guard.source) and not guard.source.startswith("___") else "x"
    found = []
    if _zero_one(story):
        since = "" if known[0] >= (2, 5) else " (since torch 2.5)"
        found.append(
            Fix("Avoid sizes 0 and 1, which always have a version of their own: drop or pad such batches", "code")
        )
        if known[1] >= (2, 5):
            found.append(Fix(f"`torch._dynamo.decorators.mark_unbacked({name}, {dim})`{since}", "code"))
        if all(failure_of(r) is None or not _size_changed(r) for r in story.rows):
            return tuple(found)
    mark = f"torch._dynamo.mark_dynamic({name}, {dim})"
    found.append(
        Fix(
            f"Mark the size dynamic before the first call: `{mark}`, or compile with dynamic=True", "code", command=mark
        )
    )
    if _shrank_once(story):
        found.append(
            Fix("If it is the ragged last batch: `drop_last=True` in the DataLoader, or pad that batch", "code")
        )
    else:
        found.append(Fix("Pad or bucket the inputs to a few sizes", "code"))
    return tuple(found)


def _zero_one(story: Story) -> bool:
    """Whether a size of 0 or 1 met a version for all other sizes."""
    found = [f for r in story.all() if (f := failure_of(r)) is not None]
    return any("0/1 specialization" in f.note or (f.guard.operator == ">=" and f.guard.expected == "2") for f in found)


def _size_changed(row: RecompileRow) -> bool:
    """Whether a version for one size met another."""
    return row.kind == "size" and row.operator == "=="


def _shrank_once(story: Story) -> bool:
    """Whether the first dimension fell once and by itself, as it does at the end of an epoch."""
    failure, values = story.failure, story.values
    if failure is None or failure.guard.dim not in (0, None) or len(values) != 2:
        return False
    return all(v.isdigit() for v in values) and int(values[1]) < int(values[0])


def _attribute(story: Story, known: tuple[Version, Version]) -> tuple[Fix, ...]:
    name, place = _named(story), story.place
    attribute = name.rpartition(".")[2]
    found = []
    if place is not None and changes(place, attribute):
        found.append(Fix("Keep the counter outside the compiled function, or advance it in the training loop", "code"))
    found.append(Fix(f'Make `{name}` a tensor: `self.register_buffer("{attribute}", torch.tensor(0))`', "code"))
    if known[1] >= (2, 7):
        since = "" if known[0] >= (2, 7) else " (since torch 2.7)"
        option = "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
        found.append(Fix(f"Let Dynamo treat such integers as dynamic: `{option}`{since}", "config", command=option))
    return tuple(found)


def changes(place: Place, attribute: str) -> bool:
    """Whether the quoted line assigns to the attribute; otherwise it only reads it."""
    m = re.search(rf"\.{re.escape(attribute)}\b\s*(?P<rest>\S.*)?$", place.text)
    return m is not None and _CHANGED.match(m["rest"] or "") is not None


def _number(kind: str, name: str, known: tuple[Version, Version]) -> tuple[Fix, ...]:
    if "__defaults__" in name or "__closure__" in name:
        return (Fix("Create the function once, outside the loop, and pass what changes as a tensor", "code"),)
    made = f": `torch.tensor({name})`" if _ARGUMENT.match(name) else ""
    tensor = Fix(f"Pass it as a tensor{made}, created once and filled in place", "code")
    if kind == "float" and known[1] <= (2, 5):
        return (tensor,)  # floats are always specialised there
    since = " (floats since torch 2.6)" if kind == "float" and known[0] < (2, 6) else ""
    dynamic = f"Leave dynamic=False out: torch makes a number dynamic once it has changed, 0 and 1 apart{since}"
    return (tensor, Fix(dynamic, "code"))


def without_text(place: Place) -> Place:
    """A place of a note, for lists."""
    return replace(place, text="")
