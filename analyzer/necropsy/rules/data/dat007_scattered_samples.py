"""Batches are stacked from samples that are not contiguous

What it means
    The DataLoader without workers stacks the samples of a batch in the training process while the
    device runs nothing, and each sample comes out of a transposition (`transpose`, `permute`, `.T`).
    That is a view: neighbours in the sample are not neighbours in memory, so that stacking copies
    element by element instead of in runs.

Why it happens
    Images are decoded as height x width x channels and handed on as channels first, spectrograms are
    turned around; the view itself costs nothing, and the copying that it defers lands in the
    stacking of batches.

How to confirm
    `sample.is_contiguous()` is False for what the data set returns. Time `torch.stack` of one batch of
    samples, and of `[s.contiguous() for s in samples]`.

How to fix
    Stack the samples as they are, and turn the batch once, on the device: there it is a view, or
    one quick copy. Else make samples in the right order from the start, or end with
    `.contiguous()` in workers, where the copy is hidden behind training.

Limits
    What is told is the time of stacking. Measured with torch 2.13 on one core of a loaded machine, 48
    samples of 3 x 160 x 160: in float32 stacking took 1.8 to 3.3 times as long with the last two
    dimensions transposed as without, in bfloat16 4 to 11 times, in uint8 7 to 18 times; HWC to
    CHW 1.1 to 2.6 times in float32. So no cost is claimed. Newer torch records how the tensors lie
    that are stacked, which is then certain. Else it is silent if another operator, or NumPy, comes
    between the view and the stacking, if the recorded strides leave the innermost dimension where it
    is, or if stacking is as fast as that of contiguous samples. It needs stacks or the lines that
    `necropsy capture` marks. In workers it cannot be seen.

References
    - https://docs.pytorch.org/docs/stable/tensor_view.html
    - https://docs.pytorch.org/docs/stable/generated/torch.stack.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Confidence, Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.stacking import Scattered


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time that stacking takes: 5 %, as DAT001; about half of it can be saved."""

    share: float = 0.05


@rule("DAT007", "scattered-samples", Severity.WARNING, settings=Thresholds, aliases=("non-contiguous-samples",))
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a rank whose main thread stacks turned samples."""
    for p in traces.profiles:
        if p.graphs or not len(p.activity.loading):
            continue
        from necropsy.trace.stacking import scattered

        found = scattered(p)
        if found is not None and p.share(found.ns) >= t.share:
            yield _finding(p, found)


def _finding(p: Profile, s: Scattered) -> Finding:
    idle = "while the GPU does nothing" if not p.cpu_only else "before it can compute"
    return about(
        p,
        f"Each {p.step_word} spends {ms(p.per_step(s.ns))} ({part(p.share(s.ns))}) stacking samples in the main thread "
        f"{idle}: each comes out of `{s.view}`{in_function(s.place)} and is not contiguous, so that it is copied "
        "element by element.",
        Severity.WARNING,
        shows="aten::stack behind the views of each sample",
        places=[s.place],
        event=f"stacking@{p.input}",
        confidence=Confidence.CERTAIN if s.seen else Confidence.LIKELY,
        facts=_facts(s),
        fixes=_fixes(s),
    )


def _facts(s: Scattered) -> dict[str, Fact]:
    facts: dict[str, Fact] = {"views a batch": round(s.views / s.batches, 1)}
    if s.layout is not None:
        sizes = " x ".join(map(str, s.layout.sizes))
        facts["a sample"] = f"{sizes}, strides {', '.join(map(str, s.layout.strides))}"
    if s.rate:
        facts["stacking (GB/s)"] = round(s.rate, 2)
    facts["saved if contiguous (estimated)"] = "about half of it"
    return facts


def _fixes(s: Scattered) -> tuple[Fix, ...]:
    once = f"`batch.{s.batch}` after `.to(device)`" if s.batch else "after `.to(device)`"
    return (
        Fix(f"Leave out `{s.view}` there, and turn the whole batch once instead, {once}: a view", "code"),
        Fix("Or make samples in that order from the start (decode, allocate or store them so)", "code"),
        Fix(
            "With DataLoader workers: `.contiguous()` behind the view, which then costs the workers' time only", "code"
        ),
    )
