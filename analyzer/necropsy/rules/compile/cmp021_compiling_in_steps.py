"""Compiling, or recording CUDA graphs, inside the profiled steps

What it means
    Part of the profiled steps went into torch.compile's or Triton's compilers, or into
    recording CUDA graphs, while the device ran nothing. What is compiled again and again was compiled
    for a property that keeps changing (a size, a number on a module, a flag). After a
    limit of versions of one function (8 by default) Dynamo gives up on it: the function runs
    without compilation from then on, without a word in the trace.

Why it happens
    Inputs of changing sizes, attributes of modules that count or change, different
    dtypes or modes from call to call; for CUDA graphs, each new size of an input. Or the
    profiler started before everything had been compiled once.

How to confirm
    `TORCH_LOGS=recompiles` prints the guard that failed each time; with the log beside
    the trace, CMP007 to CMP009 name what changes.

How to fix
    Make what changes constant, a tensor, or dynamic (`torch._dynamo.mark_dynamic`,
    `torch.compile(dynamic=True)`); pad inputs to a few sizes. If it is only the first compilation: start
    the profiler later (`schedule(wait=..., warmup=...)`).

Limits
    A trace shows that something was compiled, and for which function; why is in the log. A
    first compilation in the profiled steps, and a second version right behind it, are a note. That the limit was hit is
    inferred: a try on a function compiled before that ended without compiling anything,
    and none behind it.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    - https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy.evidence.recompile_limits import RecompileLimits
from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Finding, Fix, Place, Severity
from necropsy.provenance.dynamo import plain_function
from necropsy.rule import rule
from necropsy.trace.claim import about, ms, part

if TYPE_CHECKING:
    from necropsy.trace.compiling import Compilation
    from necropsy.trace.profile import Profile
    from necropsy.trace.rank import Mask

_GUARDS: Final = Fix("See which guard fails each time", "investigate", command="TORCH_LOGS=recompiles python train.py")
_LATER: Final = Fix("Let the profiler start later: `schedule(wait=..., warmup=...)`", "code")
_DYNAMIC: Final = Fix(
    "Make what changes constant, a tensor, or dynamic (`torch.compile(dynamic=True)`, `torch._dynamo.mark_dynamic`)",
    "code",
)


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time from which compiling is told: as DAT001's 5 %; a limit that was hit is always told."""

    share: float = 0.05


@rule("CMP021", "compiling-in-steps", Severity.WARNING, settings=Thresholds, aliases=("recompilation-in-trace",))
def check(traces: Traces, t: Thresholds, limits: RecompileLimits | None) -> Iterator[Finding]:
    """At most one finding a trace for compilers, and one for CUDA graphs."""
    for p in traces.profiles:
        if not p.partition.total("compiling"):
            continue
        from necropsy.trace.compiling import compilations, given_up, split

        found = compilations(p)
        ns, recording = split(p, found)
        last = given_up(p, found)
        if found and last is not None:
            yield _limit(p, found, last, ns, _told(limits, last))
        elif found and p.share(ns) >= t.share:
            yield _compiling(p, found, ns)
        if p.share(recording) >= t.share:
            yield _recording(p, recording)


def _limit(p: Profile, found: Sequence[Compilation], last: Compilation, ns: int, follows: str) -> Finding:
    before = [c for c in found if c.frame == last.frame and not c.refused]
    again = f"gives up on {_what(last)}"
    if before:
        again = f"compiles {_what(last)} once more in step {_number(p, before[-1])} and gives up on it"
    return about(
        p,
        f"torch.compile {again} in step {_number(p, last)}, after {last.version} versions (the recompile limit): "
        f"compiling takes {ms(ns)} of the profiled steps, and from then on it runs without compilation.",
        Severity.WARNING,
        shows="compile_id=" + last.id,
        ns=ns,
        places=[last.place, *_places(found)],
        confidence=Confidence.LIKELY,
        follows=follows,
        facts={"compile ids": [c.id for c in found if c.id][:20], **_steps(p, found)},
        fixes=(
            _GUARDS,
            _DYNAMIC,
            Fix("If so many versions are wanted, raise `torch._dynamo.config.recompile_limit` "
                "(`cache_size_limit` until torch 2.5)", "config"),
        ),
    )  # fmt: skip


def _told(limits: RecompileLimits | None, last: Compilation) -> str:
    """The event in the log beside the trace that says the limit was hit, as CMP008 tells it."""
    for row in limits or ():
        name = row.file.replace("\\", "/").rpartition("/")[2]
        place = last.place
        if place is None or not name or not place.file.endswith(name):
            continue
        if plain_function(row.function) == place.function or (not place.function and row.compile_id == last.id):
            return f"{type(row).__name__}@{row.anchor.input}:{row.seq}"
    return ""


def _compiling(p: Profile, found: Sequence[Compilation], ns: int) -> Finding:
    steps = sorted({c.step for c in found})
    again = _again(found)
    whole = p.steps.how == "window"
    longest = max(found, key=lambda c: c.ns)
    what = _what(longest)
    others = len({c.place for c in found}) - 1
    if others > 0:
        what += f" and {others} other function{'s' if others > 1 else ''}"
    if again and not whole:
        message = (
            f"In {len(steps)} of {len(p.steps)} steps {what} "
            f"{'are' if others > 0 else 'is'} compiled again, for {ms(ns / len(steps))} each ({part(p.share(ns))} of "
            f"the time): something that was compiled in {'keeps changing' if len(steps) > 1 else 'has changed'}."
        )
        fixes: tuple[Fix, ...] = (_GUARDS, _DYNAMIC, _LATER)
    else:
        message = (
            f"Compiling {what} takes {ms(ns)} ({part(p.share(ns))}) of the profiled time, "
            "which says little about later steps: the profiler started before everything was compiled."
        )
        fixes = (_LATER,)
    return about(
        p,
        message,
        Severity.WARNING if again and not whole else Severity.NOTE,
        shows="entire_frame_compile, (dynamo_timed), triton/compiler",
        ns=ns,
        places=_places(found),
        facts={"compilations": len(found), "compile ids": [c.id for c in found if c.id][:20], **_steps(p, found)},
        fixes=fixes,
    )


def _again(found: Sequence[Compilation]) -> bool:
    """Whether it is more than a program's start.

    A second version right behind the first is one: Dynamo takes a size for constant until
    it changes, and then makes it dynamic.
    """
    firsts = {c.frame for c in found if c.version == 0}
    versions = any(c.version > 1 or (c.again and c.frame not in firsts) for c in found)
    return versions or len({c.step for c in found if c.version < 0}) > 2


def _recording(p: Profile, ns: int) -> Finding:
    from necropsy.trace.compiling import SHORT, recorded, recorded_sizes, recording_places

    slow = recorded(p) >= SHORT
    steps = int(slow.sum())
    again = steps > 1 and p.steps.how != "window"
    sizes = recorded_sizes(p) if again else []
    why = f", because an input has a new size each time ({', '.join(map(str, sizes[:3]))})" if sizes else ""
    message = (
        f"CUDA graphs are recorded again in {steps} of {len(p.steps)} steps, for {ms(ns / steps)} each "
        f"({part(p.share(ns))} of the time){why}{_without(p, slow)}."
        if again
        else f"Recording CUDA graphs takes {ms(ns)} ({part(p.share(ns))}) of the profiled time, "
        "which says little about later steps: they replay what was recorded."
    )
    fixes = (
        Fix("Pad or bucket inputs to a few sizes, and run each once before training starts", "code"),
        Fix("Compile sizes that change without CUDA graphs: `torch._inductor.config.triton."
            "cudagraph_skip_dynamic_graphs = True`", "config"),
    )  # fmt: skip
    return about(
        p,
        message,
        Severity.WARNING if again else Severity.NOTE,
        shows="CUDAGraphNode.record, cudaStreamBeginCapture",
        ns=ns,
        places=recording_places(p),
        facts={"graphs captured": p.captures},
        fixes=fixes if again else (_LATER,),
    )


def _without(p: Profile, slow: Mask) -> str:
    """How long the steps are in which nothing is recorded."""
    rest = p.steps.length[~slow]
    return f"; a step that only replays takes {ms(sum(rest.tolist()) / len(rest))}" if len(rest) else ""


def _what(c: Compilation) -> str:
    name = c.place.function if c.place is not None and c.place.function else "a function"
    return f"the part of {name} behind the graph break in line {c.resumed}" if c.resumed is not None else name


def _number(p: Profile, c: Compilation) -> int:
    return int(p.steps.number[c.step])


def _places(found: Sequence[Compilation]) -> list[Place | None]:
    return [c.place for c in sorted(found, key=lambda c: -c.ns)]


def _steps(p: Profile, found: Sequence[Compilation]) -> dict[str, str]:
    """Step -> host time of compiling in it."""
    ns: dict[int, int] = {}
    for c in found:
        ns[c.step] = ns.get(c.step, 0) + c.ns
    return {f"compiling in step {int(p.steps.number[s])}": ms(n) for s, n in list(ns.items())[:6]}
