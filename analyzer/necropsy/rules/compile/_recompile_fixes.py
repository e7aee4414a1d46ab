"""The remedy for each cause of recompilations, in releases that may be those of the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.numbers import natural
from necropsy_parsers.patterns import lazily

from necropsy.evidence.recompiles import RecompileRow
from necropsy.finding import Fix, Place
from necropsy.provenance.recompiles import Story, failure_of
from necropsy.rules.compile._recompiles import Version, asked_of, is_int_attribute, named

_ARGUMENT: Final = lazily(r"^[^\W\d]\w*$")
_RATE: Final = lazily(r"param_groups\[\d+\]\[['\"]lr['\"]\]")
# torch's recipe on compiled optimizers with schedulers: these fill a tensor in place (2.4 and later).
LEARNING_RATE: Final = Fix(
    "Make the learning rate a tensor, which schedulers fill in place: a float is compiled in as a constant",
    "code",
    command="torch.optim.SGD(parameters, lr=torch.tensor(0.1))",
)
_CHANGED: Final = lazily(r"(?:\+|-|\*|//?|%|\||&|<<|>>|\*\*)?=(?!=)")


def fixes_for(story: Story, known: tuple[Version, Version]) -> tuple[Fix, ...]:
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
        return (
            _asked(story)
            if asked_of(story) and (story.bound is not None or not _zero_one(story))
            else _size(story, known)
        )
    if is_int_attribute(story):
        return _attribute(story, known)
    name = named(story)
    if guard.kind in ("int", "float"):
        return (*_counted(story, name), *_number(guard.kind, name, known))
    if guard.kind == "length" and (collected := _collected(story, name)):
        return collected
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
        "length": f"Give `{name}` the same length on every call (the same keys, or padding), or stack its tensors into "
        "one with a dynamic dimension",
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
    return all(v.isdecimal() for v in values) and natural(values[1]) < natural(values[0])


def _attribute(story: Story, known: tuple[Version, Version]) -> tuple[Fix, ...]:
    name, place = named(story), story.place
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


def _counted(story: Story, name: str) -> Iterator[Fix]:
    """For a number that the line itself advances."""
    place = story.place
    if place is not None and _ARGUMENT.match(name) and re.match(rf"{name}\s*(?:\+|-|\*|//?)=", place.text.strip()):
        yield Fix("Keep the counter outside the compiled function, or advance it in the training loop", "code")


def _collected(story: Story, name: str) -> tuple[Fix, ...]:
    """For a list that the line itself makes longer."""
    place = story.place
    if place is None or not re.search(r"\.(?:append|extend|insert|add|update)\(", place.text):
        return ()
    return (
        Fix(
            f"Collect into `{name}` outside the compiled function (return what is to be kept), or keep it a tensor",
            "code",
        ),
    )


def _number(kind: str, name: str, known: tuple[Version, Version]) -> tuple[Fix, ...]:
    if "__defaults__" in name or "__closure__" in name:
        return (Fix("Create the function once, outside the loop, and pass what changes as a tensor", "code"),)
    if kind == "float" and _RATE.search(name):
        return (LEARNING_RATE,)
    made = f": `torch.tensor({name})`" if _ARGUMENT.match(name) else ""
    tensor = Fix(f"Pass it as a tensor{made}, created once and filled in place", "code")
    if kind == "float" and known[1] <= (2, 5):
        return (tensor,)  # floats are always specialised there
    since = " (floats since torch 2.6)" if kind == "float" and known[0] < (2, 6) else ""
    dynamic = f"Leave dynamic=False out: torch makes a number dynamic once it has changed, 0 and 1 apart{since}"
    return (tensor, Fix(dynamic, "code"))
