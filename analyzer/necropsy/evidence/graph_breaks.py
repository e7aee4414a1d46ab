"""Graph breaks: where torch.compile had to stop a graph, and why.

A training job tells the same break at every recompilation on every rank. The first of alike ones are rows, the others
are counted, so that the table is bounded by distinct breaks.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Final

from msgspec.structs import replace

from necropsy_parsers.messages.graph_break import GraphBreak
from necropsy_parsers.records import Record

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON
from necropsy.provenance.breaks import Incident, Key, Tally, incidents, key_of

ALIKE_MAX: Final = 20  # rows kept of breaks of one kind at one line in one process
ROWS_MAX: Final = 20_000
NEAR: Final = 8  # lines between a headline and its reason, where lines of other processes stand between them
IDS_MAX: Final = 64  # compile ids remembered of one break


class GraphBreaks(Table[GraphBreak]):
    """One row a break; of many alike ones in one process the first twenty."""

    name = "graph_breaks"
    row = GraphBreak
    accepts = (GraphBreak,)
    formats = ("log", "elastic_error_file", "torch_trace")
    supply = "the log of a run with TORCH_LOGS=graph_breaks"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "form": "break, copy, notice, warning (text without a headline) or exception",
        "kind": "graph-break type; before torch 2.7 the reason's first line",
        "explanation": "torch's explanation",
        "hints": "torch's hints",
        "context": "torch's context for developers",
        "gb_id": 'id of the graph-break page, such as GB0170; "" if none was printed',
        "file": "file of the headline",
        "line": "line of the headline",
        "frames": "the user's stack, outermost first",
        "skips": 'frame, rest or "": what stays uncompiled for it',
        "skipped": "(function, file, line) of the frame that stays uncompiled, where told",
        "operator": "higher-order operator around it",
    }

    def __init__(self) -> None:
        super().__init__()
        self.tallies: dict[Key, Tally] = {}
        self._kept: dict[tuple[Key, int | None, str], int] = {}
        self._headline: GraphBreak | None = None  # without its reason: in text without heads each line stands alone

    def add(self, record: Record) -> None:
        """Count a break, and keep it if it is among the first of its like."""
        assert isinstance(record, GraphBreak)
        headline, self._headline = self._headline, None
        if headline is not None:
            if _goes_on(headline, record):
                record = replace(record, file=headline.file, line=headline.line, form="break")
            else:
                self._take(headline)
        if record.form == "break" and record.file and not record.kind:
            self._headline = record
        else:
            self._take(record)

    def finish(self) -> None:
        """Take the last headline."""
        if self._headline is not None:
            self._take(self._headline)
            self._headline = None

    def _take(self, record: GraphBreak) -> None:
        key = key_of(record)
        if key not in self.tallies and len(self.tallies) >= ROWS_MAX:
            return
        tally = self.tallies.setdefault(key, Tally())
        tally.count += 1
        if record.origin.rank is not None:
            tally.ranks.add(record.origin.rank)
        if record.compile_id and len(tally.compile_ids) < IDS_MAX:
            tally.compile_ids[record.compile_id] = None
        kept = (key, record.origin.rank, record.form)
        alike = self._kept[kept] = self._kept.get(kept, 0) + 1
        if alike <= ALIKE_MAX and len(self.rows) < ROWS_MAX:
            self.rows.append(record)

    @cached_property
    def incidents(self) -> list[Incident]:
        """The breaks by cause and line: what rules speak of."""
        return incidents(self.rows, self.tallies)


def _goes_on(headline: GraphBreak, record: GraphBreak) -> bool:
    """Whether a reason that has lost its headline belongs to the headline before it."""
    return (
        not record.file
        and bool(record.kind)
        and record.origin.rank == headline.origin.rank
        and headline.anchor.input == record.anchor.input
        and 0 < record.anchor.line - headline.anchor.line <= NEAR
    )
