"""Where in the program the time of compiled kernels goes

What it means
    torch.compile turns a model into kernels with names such as
    `triton_poi_fused_add_gelu_3`, which say nothing about lines, and calls libraries for
    products and convolutions. The code that it generated tells which lines each of these
    computes; with a trace of the same program, the GPU's time can be told by line.

Why it happens
    In a trace all kernels of a compiled function belong to the one call of that function.

How to confirm
    `TORCH_LOGS=output_code` prints the kernels; the comment above each names the nodes that
    it computes, and the comments of `TORCH_LOGS=post_grad_graphs` the line of each node.

How to fix
    Nothing is wrong. Start with the heaviest lines: fewer or smaller operations there, a
    fused operator of torch's own, a lower precision.

Limits
    A note. The time of a kernel that computes several lines is shared out by what its nodes
    are, which is an estimate; facts tell how much of a line's time is its kernels' alone.
    Generated kernels are joined by name, products and convolutions by their place between
    those; a run of kernels that does not fit the code stays untold. Trace and log must be of
    the same program with the same sizes. Optimizers and what is not compiled are not told.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_inductor_profiling.html
    - torch/_inductor/utils.py (`get_kernel_metadata`), torch 2.1 to 2.13
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Place, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, ms, part

if TYPE_CHECKING:
    from necropsy.trace.generated import ByLine, Share
    from necropsy.trace.profile import Profile


SURE: Final = 0.95  # of compiled kernels' time that has lines; with less another line may be the heaviest


class Thresholds(Struct, frozen=True):
    """`share`: part of the GPU's computing time with lines from which it is told; `lines`: how many facts list."""

    share: float = 0.1
    lines: int = 12


@rule("KRN024", "compiled-time-by-line", Severity.NOTE, settings=Thresholds, general=True)
def check(traces: Traces, generated: InductorKernels, t: Thresholds) -> Iterator[Finding]:
    """A note a trace."""
    if not len(generated):
        return
    for p in traces.gpu_profiles:
        from necropsy.trace.generated import by_line

        told = by_line(p, generated)
        if told.total and told.shares and told.known >= t.share * told.total:
            yield _finding(p, told, t)


def _finding(p: Profile, told: ByLine, t: Thresholds) -> Finding:
    first = told.shares[0]
    heaviest = "the heaviest line" if told.known >= SURE * told.compiled else "of the lines that are known the heaviest"
    return about(
        p,
        f"Kernels that torch.compile made or calls take {part(told.compiled / told.total)} of the GPU's computing "
        f"time; {heaviest}, {_named(first)}, {ms(p.per_step(first.ns))} of each {p.step_word} "
        f"({part(first.ns / told.total)}).",
        Severity.NOTE,
        shows="kernels of generated code",
        places=[_place(s) for s in told.shares],
        event=f"by line@{p.input}",
        facts={
            "by line": [_row(p, s, told.total) for s in told.shares[: t.lines]],
            "compiled kernels without a line": part((told.compiled - told.known) / told.total),
        },
    )


def _named(share: Share) -> str:
    return f"{share.frame.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{share.frame.line}"


def _row(p: Profile, share: Share, total: float) -> str:
    alone = f", {part(share.alone / share.ns)} of it alone" if share.fused else ""
    return f"{_named(share)}: {ms(p.per_step(share.ns))} a {p.step_word} ({part(share.ns / total)}{alone})"


def _place(share: Share) -> Place:
    f = share.frame
    return Place(f.file, f.line, None, f.function, f.text, "line", "generated code")
