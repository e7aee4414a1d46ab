"""What compiled graphs will ask of other ranks, graph by graph."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.structured.kinds.schedules import GraphPlan

from necropsy.evidence._records import COMMON, RecordTable


class GraphPlans(RecordTable[GraphPlan]):
    """One row a graph and kind of plan."""

    name = "graph_plans"
    row = GraphPlan
    accepts = (GraphPlan,)
    formats = ("torch_trace",)
    supply = "structured logs of all ranks (TORCH_TRACE=folder)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "collectives, tensors, or report (torch's own comparison)",
        "steps": "collectives in order, or operations with the shapes of their results",
        "digest": "the same for the same steps",
        "told": "torch's own words about a difference",
    }
