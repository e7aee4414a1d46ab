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
    without holding more memory. "No shared data" is also said of two that share a buffer
    but index it differently; with `ir_pre_fusion` in the log those are told apart.

How to confirm
    `TORCH_LOGS=fusion,ir_pre_fusion` prints the refusals and what operations read and write,
    `TORCH_LOGS=output_code` the kernels that came out. What a refusal costs stands in a
    profiler trace, not in this log.

How to fix
    Where the order of elements differs, give both operands the same layout before the
    region (channels-last for the whole model, `contiguous()` once). Where the sizes
    differ, nothing is wrong unless a profile shows the two kernels to be large.

Limits
    A refusal is a fact, not a loss: this stays a note. Source lines stand in the list of
    candidates since torch 2.9; of 2.5 to 2.8 they are found if `post_grad_graphs` is logged
    besides; before, the nodes are named as Inductor names them.
    `FusionDecision: REJECTED`, which articles quote, is printed by no release.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    - torch/_inductor/scheduler.py (`WhyNoFuse`, `can_fuse`), torch 2.2 to 2.13
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.records import Frame
from necropsy_parsers.tallies.fusion import FusionRefusal
from necropsy_parsers.tallies.shared_buffers import SharedBuffer

from necropsy.claim import from_record, ranks_of
from necropsy.evidence.fusions import Fusions
from necropsy.evidence.scheduler_nodes import SchedulerNodes
from necropsy.finding import Fact, Finding, Fix, Place, Related, Severity
from necropsy.provenance.dynamo import claimed_frame
from necropsy.provenance.frames import place_of
from necropsy.rule import rule


class Thresholds(Struct, frozen=True):
    """`pairs`: how many pairs of lines are listed; the rest is counted."""

    pairs: int = 5


_ORDER: Final = Fix(
    "Give both operands the same memory layout before the region (one `contiguous()` or channels-last)", "code"
)
_SIZES: Final = Fix("Look in a profile whether the two kernels are large; sizes that differ cannot share a loop")
# Reason -> what it means for the pair, and what to do about it (torch/_inductor/scheduler.py, codegen/simd.py).
_MEANINGS: Final[tuple[tuple[str, str, Fix], ...]] = (
    (r"numel/rnumel mismatch|nodes numel", "they loop over different numbers of elements", _SIZES),
    (
        r"memory deps did not match|indexing mismatch|different indexing formula|loop order|tiling",
        "they read the same data in different orders",
        _ORDER,
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
_KINDS: Final = {
    "order": Fix(
        "If a transpose or permute stands between the two, give both one memory layout before the region; a reduction "
        "over other dimensions needs a kernel of its own"
    ),
    "size": _SIZES,
}


def _meaning(row: FusionRefusal | SharedBuffer) -> tuple[str, Fix | None]:
    if isinstance(row, SharedBuffer):
        words, kind = row.difference
        return words or "both use one buffer, but index it differently", _KINDS.get(kind)
    for pattern, words, fix in _MEANINGS:
        if re.match(pattern, row.reason):
            return words, fix
    return f"“{row.detail}”", None


class _Told(Struct):
    """Refusals for one reason between two lines: the first of them, the lines, how many there are."""

    row: FusionRefusal | SharedBuffer
    lines: tuple[Frame | None, Frame | None]
    how: str
    count: int = 0
    ranks: frozenset[int] = frozenset()


def _lines(row: FusionRefusal | SharedBuffer, nodes: SchedulerNodes) -> tuple[tuple[Frame | None, Frame | None], str]:
    """The lines of a pair, and where they are told: in the list of candidates, or in the graph printed before."""
    found, how = [], "fusion log"
    for stack, name in zip((row.first, row.second), row.nodes, strict=True):
        frame = claimed_frame(stack)
        if frame is None and not stack:
            told = (f for n in re.split(r"_(?=op\d|buf\d)", name) if (f := nodes.line_of(n, row)) is not None)
            frame = claimed_frame(list(told)[:1])
            how = "graph nodes" if frame is not None else how
        found.append(frame)
    return (found[0], found[1]), how


def _collected(rows: Iterable[FusionRefusal | SharedBuffer], nodes: SchedulerNodes) -> list[_Told]:
    """One entry a reason and pair of lines, those with lines and many pairs first."""
    made: dict[tuple[object, ...], _Told] = {}
    for row in rows:
        lines, how = _lines(row, nodes)
        ends = tuple((f.file, f.line) if f is not None else name for f, name in zip(lines, row.nodes, strict=True))
        reason = _meaning(row)[0] if isinstance(row, SharedBuffer) else row.reason
        told = made.setdefault((reason, *ends), _Told(row, lines, how))
        told.count += row.count
        told.ranks |= frozenset(row.ranks if isinstance(row, FusionRefusal) else ranks_of(row.origin))
    return sorted(made.values(), key=lambda t: (t.lines == (None, None), -t.count, t.row.seq))


def _named(frame: Frame | None, node: str) -> str:
    if frame is None:
        return f"`{node}`"
    return f"{frame.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{frame.line}"


def _ends(told: _Told) -> str:
    return " with ".join(_named(f, n) for f, n in zip(told.lines, told.row.nodes, strict=True))


def _pair(told: _Told) -> str:
    row = told.row
    return f"{_ends(told)}: {row.detail if isinstance(row, FusionRefusal) else _meaning(row)[0]} ({told.count}×)"


def _places(told: _Told) -> tuple[Place, ...]:
    return tuple(place_of(f, how=told.how) for f in dict.fromkeys(told.lines) if f is not None)


def _facts(rows: Iterable[FusionRefusal], told: Sequence[_Told], table: Fusions, limit: int) -> dict[str, Fact]:
    reasons: dict[str, int] = {}
    for row in rows:
        reasons[row.reason] = reasons.get(row.reason, 0) + row.count
    facts: dict[str, Fact] = {
        "refused": sum(s.refused for s in table.summaries),
        "fused": sum(s.fused for s in table.summaries),
        "reasons": [f"{r}: {n}" for r, n in sorted(reasons.items(), key=lambda x: -x[1])[:8]],
        "pairs": [_pair(t) for t in told[:limit]],
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
def check(fusions: Fusions, nodes: SchedulerNodes, t: Thresholds) -> Iterator[Finding]:
    """One note for the job: the refusals that follow from the program, the rest as a count."""
    told = _collected([*(r for r in fusions if not r.trivial), *fusions.shared], nodes)
    if not told:
        return
    head = told[0]
    words, fix = _meaning(head.row)
    total, own = sum(s.refused for s in fusions.summaries), sum(p.count for p in told)
    yield from_record(
        head.row,
        f"Inductor refused {total} fusions, {own} of them because of what the program does: most often {_ends(head)}, "
        f"because {words}; each stays a kernel of its own.",
        Severity.NOTE,
        code=_places(head),
        related=tuple(Related(p.row.anchor, _pair(p)) for p in told[1 : t.pairs]),
        facts=_facts(list(fusions), told, fusions, t.pairs),
        fixes=(fix,) if fix is not None else (),
        ranks=tuple(sorted({rank for p in told for rank in p.ranks})),
    )
