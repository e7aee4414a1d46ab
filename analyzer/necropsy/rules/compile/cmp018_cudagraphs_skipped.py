"""CUDA graphs were asked for and are skipped, or recorded over and over

What it means
    `mode="reduce-overhead"` or `"max-autotune"` replays a whole compiled graph with one launch.
    This graph is not replayed: every kernel is launched from the CPU again, which is what the mode
    was meant to save.

Why it happens
    A captured graph replays fixed addresses on one device. A CPU tensor among its inputs or inside
    (a 0-dim scalar made with `torch.tensor(…)`), an input written in place, several devices, an
    operator that waits for the GPU (`.item()`, `nonzero`, boolean indexing), a data-dependent
    branch or changing addresses prevent it. With dynamic shapes one graph is recorded for each
    size.

How to confirm
    `TORCH_LOGS=cudagraphs` (perf_hints before torch 2.11) names the reason and, since torch 2.3,
    the line. A profile shows `cudaGraphLaunch` where graphs are used and many `cudaLaunchKernel`
    where not.

How to fix
    By reason: make scalars and buffers on the GPU (or pass Python numbers), clone inputs that are
    written in place or write outside the compiled function, keep one device in it, move `.item()`
    and boolean indexing out of it, pad inputs to a few sizes. Since torch 2.9 a graph is split
    around such operators (`torch._inductor.config.graph_partition`, off by default in 2.7 and 2.8)
    and only they are left out.

Limits
    The stack is that of the first use of the tensor in the compiled code; a CPU tensor was made by
    the caller. Before torch 2.3 no line is told. Whether launches are the bottleneck at all only a
    profile tells.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.messages.cudagraph import CudagraphNotice, CudagraphSkip
from necropsy_parsers.records import Frame

from necropsy.claim import from_exception
from necropsy.evidence.cudagraph_notices import CudagraphNotices
from necropsy.evidence.cudagraph_partitions import CudagraphPartitions
from necropsy.evidence.cudagraph_skips import CudagraphSkips
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.settings import Settings
from necropsy.finding import Confidence, Fact, Finding, Fix, Place, Severity
from necropsy.provenance.dynamo import claimed_frame, plain_function
from necropsy.releases import torch_release
from necropsy.rule import rule

_SPLIT: Final = Fix(
    "Or let torch split the graph around it: the default since torch 2.9, in 2.7 and 2.8 by this switch", "config",
    command="torch._inductor.config.graph_partition = True",
)  # fmt: skip
_PAD: Final = Fix("Pad or bucket inputs to a few sizes, or compile with dynamic=False for them", "code")
_OUTSIDE: Final = Fix(
    "Move this operator out of the compiled function, or replace it by one that does not wait", "code"
)


class Words(Struct, frozen=True):
    """What a kind of reason means: a clause after "CUDA graphs are skipped: ", what to do, whether splitting helps."""

    clause: str
    fixes: tuple[Fix, ...]
    split: bool = False


_KINDS: Final = {
    "cpu": Words(
        "a CPU tensor ({name}) takes part in the compiled graph",
        (
            Fix("Create this tensor on the GPU once (device=...), or pass a Python number instead of it", "code"),
        ),
        split=True,
    ),
    "mutation": Words(
        "an input of the compiled function is written in place",
        (
            Fix("Write in place outside the compiled function, or into a clone (x = x.clone()) and return it", "code"),
            Fix("Keep a buffer or cache at one address: register_buffer, torch._dynamo.mark_static_address", "code"),
        ),
    ),
    "devices": Words(
        "the compiled graph spans several devices", (Fix("Keep one device in each compiled function", "code"),)
    ),
    "dynamic": Words("sizes are dynamic and cudagraph_skip_dynamic_graphs is on", (_PAD,)),
    "branch": Words("a branch on the device (torch.cond) cannot be captured", (_OUTSIDE,), split=True),
    "overlap": Words(
        "an input overlaps itself in memory (expanded or strided view)",
        (Fix("Pass a contiguous copy (.contiguous(), .clone()) of the expanded input", "code"),),
    ),
    "op": Words("{name} cannot be captured", (_OUTSIDE,), split=True),
    "inputs": Words(
        "the compiled graph takes inputs that are no tensors",
        (Fix("Pass tensors on the GPU, or make the value a constant of the function", "code"),),
    ),
    "rerecord": Words(
        "the address of an input{of} changed so often that torch gave up recording",
        (
            Fix("Keep parameters and buffers at one address: update them with copy_, do not assign new ones", "code"),
            Fix("Do not mark an input that changes each call as static (torch._dynamo.mark_static_address)", "code"),
        ),
    ),
    "allocator": Words(
        "the caching allocator is off (PYTORCH_NO_CUDA_MEMORY_CACHING)",
        (Fix("Unset PYTORCH_NO_CUDA_MEMORY_CACHING; it is for debugging only", "env"),),
    ),
    "wrapper": Words(
        "the C++ wrapper does not split graphs yet",
        (Fix("Turn torch._inductor.config.cpp_wrapper off to compare", "config"),),
    ),
    "node": Words(
        "{reason} are left out",
        (Fix("Move them out of the compiled function if the pieces around them are short", "code"),),
    ),
    "other": Words("{reason}", (Fix("Set TORCH_LOGS=cudagraphs,perf_hints to see the reason and the line", "env"),)),
}  # fmt: skip


def _place(frames: Sequence[Frame]) -> tuple[Place, ...]:
    frame = claimed_frame(frames)
    if frame is None:
        return ()
    return (Place(frame.file, frame.line, None, plain_function(frame.function), frame.text, how="compiler's stack"),)


def _fixes(words: Words, release: tuple[int, int] | None) -> tuple[Fix, ...]:
    if words.split and (release is None or (2, 7) <= release < (2, 9)):
        return (*words.fixes, _SPLIT)
    if words.split and release < (2, 7):  # type: ignore[operator]
        return (
            *words.fixes,
            Fix("Torch 2.9 and later split the graph around it instead of skipping all of it", "config"),
        )
    return words.fixes


def _sentence(skip: CudagraphSkip, words: Words, where: str, number: int) -> str:
    name = f"`{skip.name}`" if skip.name else "an operator" if skip.kind == "op" else ""
    what = words.clause.format(
        name=name or "unnamed", of=f" ({name})" if name else "", reason=skip.reason or "no reason told"
    )
    times = f" ({number} graphs)" if number > 1 else ""
    if skip.partial:
        return (
            f"CUDA graphs are split{where}: {what}{times}; the pieces before and after are replayed, "
            "and the rest is launched kernel by kernel."
        )
    return f"CUDA graphs are skipped{where}: {what}{times}, so each of its kernels is launched from the CPU."


def _skipped(skips: list[CudagraphSkip], exceptions: Exceptions, release: tuple[int, int] | None) -> Finding:
    """One finding for all skips of one reason at one place."""
    first = skips[0]
    words = _KINDS.get(first.kind, _KINDS["other"])
    code = _place(first.frames)
    where = f" for the graph of `{code[0].function}`" if code and code[0].function else ""
    facts: dict[str, Fact] = {"reason": first.reason[:200], "graphs": len(skips)}
    if code and code[0].text:
        facts["line"] = code[0].text
    if ids := sorted({s.origin.compile_id for s in skips if s.origin.compile_id}):
        facts["compilations"] = ids[:20]
    row = exceptions.said(first)
    message = _sentence(first, words, where, len(skips))
    if row is not None:  # torch._inductor.config.triton.cudagraph_or_error
        return from_exception(row, message, code=code or row.places, facts=facts, fixes=_fixes(words, release))
    return Finding(
        message=message,
        anchor=first.anchor,
        severity=Severity.NOTE if first.partial else Severity.WARNING,
        code=code,
        ranks=tuple(sorted({s.origin.rank for s in skips if s.origin.rank is not None})),
        facts=facts,
        fixes=_fixes(words, release),
        seq=first.seq,
        attempt=first.attempt,
        time=first.origin.time,
        count=len(skips),
        event=f"cudagraph-skip@{first.anchor.input}:{first.seq}",
    )


def _noticed(notices: list[CudagraphNotice]) -> Finding:
    """One finding for all notices of a kind."""
    first = notices[0]
    most = max(n.count for n in notices)
    if first.kind == "sizes":
        message = (
            f"CUDA graphs are recorded anew for each input size: {most} sizes so far, each with its own recording and "
            "memory."
        )
        fixes: tuple[Fix, ...] = (
            Fix("Pad or bucket inputs to a few fixed sizes", "code"),
            Fix("Or keep CUDA graphs off for graphs with dynamic sizes", "config",
                command="torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True"),
        )  # fmt: skip
    elif first.kind == "pending":
        message = (
            "CUDA graphs are not replayed on their fast path: a forward pass runs again while the backward pass of the "
            "one before is still pending."
        )
        fixes = (
            Fix("Run evaluation under torch.no_grad(), and detach outputs that need no backward", "code"),
            Fix("Mark the begin of each iteration before the model is called", "code",
                command="torch.compiler.cudagraph_mark_step_begin()"),
        )  # fmt: skip
    else:
        named = f" (input `{first.name}`)" if first.name else ""
        message = f"CUDA graphs are recorded anew, {len(notices)} times: {first.text}{named}."
        fixes = _KINDS["rerecord"].fixes[:1]
    return Finding(
        message=message,
        anchor=first.anchor,
        severity=Severity.WARNING if first.kind == "sizes" or len(notices) > 3 else Severity.NOTE,
        confidence=Confidence.CERTAIN,
        code=_place(first.frames),
        ranks=tuple(sorted({n.origin.rank for n in notices if n.origin.rank is not None})),
        facts={"times": len(notices), "sizes": most} if first.kind == "sizes" else {"times": len(notices)},
        fixes=fixes,
        seq=first.seq,
        attempt=first.attempt,
        time=first.origin.time,
        count=len(notices),
        event=f"cudagraph-{first.kind}@{first.anchor.input}:{first.seq}",
    )


# Torch 2.11 and later: one reason for all operators of a job that asked for no CUDA graphs (scheduler.py).
_OFF: Final = "cudagraphs is disabled"


@rule("CMP018", "cudagraphs-skipped", Severity.WARNING, aliases=("skipping cudagraphs due to",))
def check(
    skips: CudagraphSkips,
    notices: CudagraphNotices,
    partitions: CudagraphPartitions,
    exceptions: Exceptions,
    settings: Settings,
) -> Iterator[Finding]:
    """One finding for each reason and place, and for each kind of notice."""
    release = torch_release(settings)
    groups: dict[tuple[object, ...], list[CudagraphSkip]] = {}
    for skip in skips:
        if skip.kind == "chosen" or _OFF in skip.reason:
            continue
        frame = claimed_frame(skip.frames)
        where = (frame.file, frame.line) if frame is not None else ("", skip.reason[:80])
        groups.setdefault((skip.attempt, skip.partial, skip.kind, *where), []).append(skip)
    for found in groups.values():
        yield _skipped(found, exceptions, release)
    alike: dict[tuple[int, str], list[CudagraphNotice]] = {}
    for notice in notices:
        alike.setdefault((notice.attempt, notice.kind), []).append(notice)
    for noted in alike.values():
        yield _noticed(noted)
    bare = [p for p in partitions if p.captured == 0 and p.pieces]
    if bare and not groups and not any(_OFF in s.reason for s in skips):
        yield Finding(
            message=f"CUDA graphs capture nothing of {len(bare)} compiled graph{'s' if len(bare) > 1 else ''}: "
            "no piece is free of operators that cannot be captured.",
            anchor=bare[0].anchor,
            severity=Severity.WARNING,
            fixes=(Fix("Set TORCH_LOGS=cudagraphs to see the operators and their lines", "env"),),
            seq=bare[0].seq,
            attempt=bare[0].attempt,
            count=len(bare),
        )
