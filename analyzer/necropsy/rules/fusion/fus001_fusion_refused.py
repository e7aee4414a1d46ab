"""Inductor refused to fuse operations of the program

What it means
    Inductor's scheduler looks at pairs of operations and fuses those that may run in one
    kernel. For some pairs it printed why not; each of them then runs as a kernel of its
    own, and its result travels through device memory.

Why it happens
    Most refusals say nothing: the two share no data, or something must run between them.
    Others follow from the program: the two loop over different numbers of elements (a
    reduction and what is computed from it, a broadcast), they read the same buffer in
    different orders (a transpose between them), they are too far apart to be fused
    without holding more memory.

How to confirm
    `TORCH_LOGS=fusion` prints the refusals, `TORCH_LOGS=output_code` the kernels that came
    out. What a refusal costs stands in a profiler trace, not in this log.

How to fix
    Where the order of elements differs, give both operands the same layout before the
    region (channels-last for the whole model, `contiguous()` once). Where the sizes
    differ, nothing is wrong unless a profile shows the two kernels to be large.

Limits
    A refusal is a fact, not a loss: this stays a note. Source lines stand in the list of
    candidates of recent releases only; before, the nodes are named as Inductor names
    them. `FusionDecision: REJECTED`, which articles quote, is printed by no release.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    - torch/_inductor/scheduler.py (`WhyNoFuse`, `can_fuse`), torch 2.2 to 2.13
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.records import Frame
from necropsy_parsers.tallies.fusion import FusionRefusal

from necropsy.claim import from_record
from necropsy.evidence.fusions import Fusions
from necropsy.finding import Fact, Finding, Fix, Place, Related, Severity
from necropsy.provenance.dynamo import claimed_frame
from necropsy.provenance.frames import place_of
from necropsy.rule import rule


class Thresholds(Struct, frozen=True):
    """`pairs`: how many pairs of lines are listed; the rest is counted."""

    pairs: int = 5


# Reason -> what it means for the pair, and what to do about it (torch/_inductor/scheduler.py, codegen/simd.py).
_MEANINGS: Final[tuple[tuple[str, str, Fix], ...]] = (
    (
        r"numel/rnumel mismatch",
        "they loop over different numbers of elements",
        Fix("Look in a profile whether the two kernels are large; sizes that differ cannot share a loop"),
    ),
    (
        r"memory deps did not match|indexing mismatch|different indexing formula|loop order|tiling",
        "they read the same data in different orders",
        Fix(
            "Give both operands the same memory layout before the region (one `contiguous()` or channels-last)", "code"
        ),
    ),
    (
        r".*(?:peak memory|too far away)",
        "fusing them would hold more memory at once",
        Fix("Nothing to do unless a profile shows the pair to be large: the refusal saves memory"),
    ),
    (
        r"exceeds max fusion",
        "the fused kernel has reached its largest size",
        Fix("Raise `torch._inductor.config.max_fusion_size` and compare the step time", "config"),
    ),
    (r"device mismatch", "they run on different devices", Fix("Move both operands to one device", "code")),
    (
        r"register spilling|.*slowdown",
        "the fused kernel was measured and is slower",
        Fix("Nothing to do: Inductor kept the faster of the two"),
    ),
)


def _meaning(row: FusionRefusal) -> tuple[str, Fix | None]:
    for pattern, words, fix in _MEANINGS:
        if re.match(pattern, row.reason):
            return words, fix
    return f"“{row.detail}”", None


def _named(stack: Sequence[Frame], node: str) -> str:
    frame = claimed_frame(stack)
    if frame is None:
        return f"`{node}`"
    return f"{frame.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{frame.line}"


def _pair(row: FusionRefusal) -> str:
    names = f"{_named(row.first, row.nodes[0])} with {_named(row.second, row.nodes[1])}"
    return f"{names}: {row.detail} ({row.count}×)"


def _places(row: FusionRefusal) -> tuple[Place, ...]:
    frames = dict.fromkeys(claimed_frame(s) for s in (row.first, row.second))
    return tuple(place_of(f, how="fusion log") for f in frames if f is not None)


def _facts(rows: Sequence[FusionRefusal], told: Sequence[FusionRefusal], table: Fusions, limit: int) -> dict[str, Fact]:
    reasons: dict[str, int] = {}
    for row in rows:
        reasons[row.reason] = reasons.get(row.reason, 0) + row.count
    facts: dict[str, Fact] = {
        "refused": sum(s.refused for s in table.summaries),
        "fused": sum(s.fused for s in table.summaries),
        "reasons": [f"{r}: {n}" for r, n in sorted(reasons.items(), key=lambda x: -x[1])[:8]],
        "pairs": [_pair(r) for r in told[:limit]],
    }
    if len(told) > limit:
        facts["further pairs"] = len(told) - limit
    return facts


@rule(
    "FUS001",
    "fusion-refused",
    Severity.NOTE,
    settings=Thresholds,
    aliases=("FusionDecision: REJECTED", "cannot-fuse"),
)
def check(fusions: Fusions, t: Thresholds) -> Iterator[Finding]:
    """One note for the job: the refusals that follow from the program, the rest as a count."""
    told = sorted((r for r in fusions if not r.trivial), key=lambda r: (-bool(r.first), -r.count, r.seq))
    if not told:
        return
    head = told[0]
    words, fix = _meaning(head)
    total, own = sum(s.refused for s in fusions.summaries), sum(r.count for r in told)
    pairs = f"{_named(head.first, head.nodes[0])} with {_named(head.second, head.nodes[1])}"
    yield from_record(
        head,
        f"Inductor refused {total} fusions, {own} of them because of what the program does: most often {pairs}, "
        f"because {words}; each stays a kernel of its own.",
        Severity.NOTE,
        code=_places(head),
        related=tuple(Related(r.anchor, _pair(r)) for r in told[1 : t.pairs]),
        facts=_facts(list(fusions), told, fusions, t.pairs),
        fixes=(fix,) if fix is not None else (),
        ranks=tuple(sorted({rank for r in told for rank in r.ranks})),
    )
