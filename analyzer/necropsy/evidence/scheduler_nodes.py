"""Scheduler nodes of torch 2.5 to 2.8, and the lines that the nodes of their graphs come from."""

from __future__ import annotations

from typing import Any, ClassVar

from necropsy_parsers.records import Frame, Origin, Record
from necropsy_parsers.tallies.fusion_origins import NodeOrigins
from necropsy_parsers.tallies.graph_nodes import GraphNode

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON

Key = tuple[object, ...]


class SchedulerNodes(Table[NodeOrigins]):
    """One row a scheduler node; `line_of` joins it with the graph that was printed before."""

    name = "scheduler_nodes"
    row = NodeOrigins
    accepts = (NodeOrigins, GraphNode)
    supply = "the log of a run with TORCH_LOGS=fusion,post_grad_graphs"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "name": "the node, as Inductor names it",
        "origins": "nodes of the graph after Inductor's passes that it computes",
    }

    def __init__(self) -> None:
        super().__init__()
        self._nodes: dict[Key, list[NodeOrigins]] = {}
        self._graph: dict[Key, list[GraphNode]] = {}

    def add(self, record: Any) -> None:
        """Take a scheduler node as a row, and a node of a graph."""
        key = (*_writer(record), record.name)
        if isinstance(record, NodeOrigins):
            self.rows.append(record)
            self._nodes.setdefault(key, []).append(record)
        else:
            self._graph.setdefault(key, []).append(record)

    def line_of(self, name: str, record: Record) -> Frame | None:
        """The line of a node that `record` names: that of the last operation it computes.

        Names begin anew with each graph: what was told last before the record is meant.
        """
        node = _before(self._nodes.get((*_writer(record), name), ()), record.seq)
        if node is None:
            return None
        found = [
            g for o in node.origins if (g := _before(self._graph.get((*_writer(record), o), ()), node.seq)) is not None
        ]
        return max(found, key=lambda g: g.order).frame if len(found) == len(node.origins) else None


def _writer(record: Record) -> Key:
    origin: Origin = record.origin
    return (record.anchor.input, origin.rank, origin.pid, origin.compile_id)


def _before(told: Any, seq: int) -> Any:
    """The last record before a place in the log."""
    return max((r for r in told if r.seq < seq), key=lambda r: r.seq, default=None)
