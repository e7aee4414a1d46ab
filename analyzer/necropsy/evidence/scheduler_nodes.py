"""Scheduler nodes of torch 2.5 to 2.8, and the lines that the nodes of their graphs come from."""

from __future__ import annotations

from typing import Any, ClassVar

from necropsy_parsers.inductor.records import GraphLines, KernelText
from necropsy_parsers.records import Frame, Origin, Record
from necropsy_parsers.tallies.fusion_origins import NodeOrigins
from necropsy_parsers.tallies.graph_nodes import GraphNode

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON

Key = tuple[object, ...]


class SchedulerNodes(Table[NodeOrigins]):
    """One row a scheduler node; `line_of` joins it with the graph that was printed before.

    Where the text log holds no graphs, those of the process's structured log (TORCH_TRACE) are read.
    """

    name = "scheduler_nodes"
    row = NodeOrigins
    accepts = (NodeOrigins, GraphNode, KernelText)
    supply = "the log of a run with TORCH_LOGS=fusion,post_grad_graphs, or with TORCH_LOGS=fusion and TORCH_TRACE=DIR"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "name": "the node, as Inductor names it",
        "origins": "nodes of the graph after Inductor's passes that it computes",
    }

    def __init__(self) -> None:
        super().__init__()
        self._nodes: dict[Key, list[NodeOrigins]] = {}
        self._graph: dict[Key, list[GraphNode]] = {}
        self._printed: set[Key] = set()  # writers whose text log holds graphs
        self._texts: list[KernelText] = []
        self._traced: dict[Key, list[GraphLines]] | None = None

    def add(self, record: Any) -> None:
        """Take a scheduler node as a row, a node of a graph, and text that may hold graphs."""
        if isinstance(record, KernelText):
            if record.clocked:  # graphs are told apart by it
                self._texts.append(record)
            return
        key = (*_writer(record), record.name)
        if isinstance(record, NodeOrigins):
            self.rows.append(record)
            self._nodes.setdefault(key, []).append(record)
        else:
            self._graph.setdefault(key, []).append(record)
            self._printed.add(_writer(record))

    def line_of(self, name: str, record: Record) -> Frame | None:
        """The line of a node that `record` names: that of the last operation it computes.

        Names begin anew with each graph: what was told last before the record is meant.
        """
        node = _before(self._nodes.get((*_writer(record), name), ()), record.seq)
        if node is None:
            return None
        if _writer(record) not in self._printed:
            return self._traced_line(node)
        found = [
            g for o in node.origins if (g := _before(self._graph.get((*_writer(record), o), ()), node.seq)) is not None
        ]
        return max(found, key=lambda g: g.order).frame if len(found) == len(node.origins) else None

    def _traced_line(self, node: NodeOrigins) -> Frame | None:
        """The same by the last graph before it, by the clock, in the structured log of its process."""
        graph = max(
            (g for g in self._traced_graphs(node) if _clock(g) <= _clock(node)),
            key=_clock,
            default=None,
        )
        places = {n.name: i for i, n in enumerate(graph.nodes)} if graph is not None else {}
        if graph is None or not node.origins or not all(o in places for o in node.origins):
            return None
        return graph.nodes[max(places[o] for o in node.origins)].frame

    def _traced_graphs(self, node: NodeOrigins) -> list[GraphLines]:
        if self._traced is None:
            self._traced = {}
            for record in (r for text in self._texts for r in text.read()):
                if isinstance(record, GraphLines) and record.stage == "after" and record.origin.time is not None:
                    self._traced.setdefault((record.origin.pid, record.origin.compile_id), []).append(record)
            self._texts.clear()
        return self._traced.get((node.origin.pid, node.origin.compile_id), []) if node.origin.time is not None else []


def _clock(record: Record) -> float:
    return record.origin.time.seconds if record.origin.time is not None else 0.0


def _writer(record: Record) -> Key:
    origin: Origin = record.origin
    return (record.anchor.input, origin.rank, origin.pid, origin.compile_id)


def _before(told: Any, seq: int) -> Any:
    """The last record before a place in the log."""
    return max((r for r in told if r.seq < seq), key=lambda r: r.seq, default=None)
