"""Fusions that Inductor refused, by reason and pair of lines, and how many pairs it fused."""

from __future__ import annotations

from typing import Any, ClassVar

from necropsy_parsers.tallies.fusion import FusionRefusal, FusionSummary
from necropsy_parsers.tallies.shared_buffers import SharedBuffer

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON


class Fusions(Table[FusionRefusal]):
    """One row a reason and pair of lines; `summaries` has one an input, `shared` those that do share a buffer."""

    name = "fusions"
    row = FusionRefusal
    accepts = (FusionRefusal, FusionSummary, SharedBuffer)
    supply = "the log of a run with TORCH_LOGS=fusion"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "reason": "why the scheduler refused, without sizes",
        "detail": "the reason as printed for the first such pair",
        "trivial": "true of most pairs of any graph: counted over all lines",
        "count": "pairs refused",
        "nodes": "the first such pair, as Inductor names nodes",
        "first": "stack of the first node's line, outermost first, empty where none is told",
        "second": "the same of the second node",
        "ranks": "ranks that printed it",
        "compile_ids": "compilations in which it happened",
    }

    def __init__(self) -> None:
        super().__init__()
        self.summaries: list[FusionSummary] = []
        self.shared: list[SharedBuffer] = []

    def add(self, record: Any) -> None:
        """Take a refusal, what two operations share, or a summary."""
        kinds: dict[type, list[Any]] = {FusionRefusal: self.rows, SharedBuffer: self.shared}
        kinds.get(type(record), self.summaries).append(record)
