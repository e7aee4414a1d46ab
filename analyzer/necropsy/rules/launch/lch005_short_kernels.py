"""A loop launches many tiny kernels

What it means
    One of the program's functions calls the same small operation again and again, for each
    of many tensors. Each launch makes a kernel of a few microseconds, which is no
    longer than launching it takes: the GPU is busy with beginning and ending.

Why it happens
    Averages of weights (EMA), gradient clipping, weight decay or statistics written as a loop
    over `model.parameters()`; element-wise steps of a loop over time.

How to confirm
    The function's kernels in the trace are shorter than the calls that launch them.

How to fix
    Use the operations on lists of tensors (`torch._foreach_mul_`, `torch._foreach_add_`,
    `torch._foreach_lerp_`, `torch.optim.swa_utils.AveragedModel(..., use_buffers=...)` with
    `get_ema_multi_avg_fn`), which take all tensors in a few kernels; or compile the function.

Limits
    Only element-wise operations and reductions that a function of the user's calls itself at least 20
    times a step count; layers of `nn.Module`, optimizers and the backward pass do not. The
    gain is less than the time given, since a fused kernel must move the same data.

References
    - https://docs.pytorch.org/tutorials/recipes/foreach_map.html
    - https://github.com/AMD-AGI/TraceLens
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile
    from necropsy.trace.repeats import Loop


class Thresholds(Struct, frozen=True):
    """`share` of the steps that the kernels and the idle time in front of them take, from which it is a warning.

    2 % is our own; a warning, too, if launch calls take `launching` of the steps (an article's 30 %).
    """

    share: float = 0.02
    launching: float = 0.3


@rule("LCH005", "short-kernels", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function that launches tiny kernels from a loop."""
    for p in traces.gpu_profiles:
        from necropsy.trace.idle import judgeable
        from necropsy.trace.late import launch_rows
        from necropsy.trace.repeats import small_kernels

        if not judgeable(p):
            continue
        rows = launch_rows(p)
        calling = p.share(int((p.rank.calls["end"] - p.rank.calls["start"])[rows].sum()))
        for loop in small_kernels(p):
            loud = p.share(loop.device + loop.idle) >= t.share or calling >= t.launching
            yield _finding(p, loop, calling, loud)


def _finding(p: Profile, loop: Loop, calling: float, loud: bool) -> Finding:
    names = " and ".join(n.removeprefix("aten::") for n in loop.ops[:2])
    whole = p.share(loop.device + loop.idle)
    return about(
        p,
        f"A loop{in_function(loop.place)} launches {p.per_step(len(loop.kernels)):,.0f} tiny kernels a {p.step_word} "
        f"({names}, {ms(loop.mean)} each): they take {part(whole)} of the time, gaps before them included.",
        Severity.WARNING if loud else Severity.NOTE,
        shows=f"{loop.ops[0]} again and again",
        ns=loop.idle,
        places=[loop.place],
        facts={
            f"kernels a {p.step_word}": round(p.per_step(len(loop.kernels))),
            "mean (us)": round(loop.mean / 1e3, 2),
            f"GPU time (ms a {p.step_word})": round(p.per_step(loop.device) / 1e6, 3),
            f"idle before them (ms a {p.step_word})": round(p.per_step(loop.idle) / 1e6, 3),
            "launch calls of all (% of the time)": round(100 * calling, 1),
        },
        fixes=(
            Fix(
                "Take all tensors at once: `torch._foreach_mul_`, `torch._foreach_add_`, `torch._foreach_lerp_`", "code"
            ),
            Fix("Or compile the function: `@torch.compile` makes few kernels of the loop", "code"),
        ),
    )
