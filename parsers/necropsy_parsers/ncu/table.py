"""CSV of ncu to launches: `--page raw --csv` (a row a launch) and `--page details --csv` (a row a metric or message).

    "ID","Process ID","Process Name","Host Name","Kernel Name",...,"gpu__time_duration.sum",...
    "","","","","",...,"us",...                                                     the row of units
    "0","1131","python3.12","127.0.0.1","void add_kernel<float>(float *)",...,"12.48",...

Columns come and go with releases and options (kernel time before 2021, device and capability since 2022, NVTX ranges
with `--nvtx`, minimum and maximum of summary pages): they are found by name. The separator is a comma; files that a
spreadsheet saved again have semicolons or tabs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.ncu.build import Draft, dims
from necropsy_parsers.ncu.metrics import section
from necropsy_parsers.ncu.records import FAIL, INFORM, OPTIMIZE, WARN, Launch, NvtxRange, RuleResult
from necropsy_parsers.ncu.units import Numbers
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Anchor

HEADER: Final = lazily(r'\ufeff?\s*"?ID"?(?P<sep>[,;\t])"?Process ID"?(?P=sep).*(?P=sep)"?Kernel Name"?')
MAX_LAUNCHES: Final = 20_000
MAX_PARTS: Final = 1_000  # lines that one record of CSV may run over
_RANGE: Final = lazily(r'"(?P<domain>[^":]*):(?P<name>(?:[^"]|"")*?)(?::[^":]*){6}"')
_KINDS: Final = {"OPT": OPTIMIZE, "INF": INFORM, "WRN": WARN, "ERR": FAIL, "SOL": OPTIMIZE, "OK": INFORM}


class Table:
    """Takes the lines of one CSV; `header` is the first of them."""

    def __init__(self, header: str, name: str, seq: int) -> None:
        m = HEADER.match(header)
        self._sep = m["sep"] if m else ","
        self._columns = self._split(header.lstrip("\ufeff"))
        self._at = {c: i for i, c in enumerate(self._columns)}
        self._long = "Metric Name" in self._at
        self._units: Sequence[str] = ()
        self._name = name
        self._seq = seq
        self._drafts: dict[tuple[str, str, str], Draft] = {}
        self._open = ""
        self._parts = 0
        self.damaged = 0

    def line(self, text: str, start: int, end: int, number: int) -> bool:
        """Take a line; False if it does not belong to the CSV."""
        text = self._open + text if self._open else text
        if text.count('"') % 2 and self._parts < MAX_PARTS:
            self._open, self._parts = text + "\n", self._parts + 1
            return True
        self._open, self._parts = "", 0
        if not text.strip():
            return True
        cells = self._split(text)
        if self._long and len(self._at) > len(cells) > self._at["Metric Name"]:
            cells += [""] * (len(self._columns) - len(cells))  # rows of metrics end before the columns of rules
        if len(cells) != len(self._columns):
            cut = text.lstrip()[:1] == '"' and len(cells) > 1
            self.damaged += cut
            return cut
        if not self._long and not self._units and not cells[0].strip():
            self._units = cells
            return True
        self._row(cells, Anchor(self._name, start, end, number, text[:200]))
        return True

    def launches(self) -> Iterator[Launch]:
        """All launches, in order of their numbers."""
        numbers = Numbers.of(v for d in self._drafts.values() for _, _, v in d.values[:400])
        if self._open:
            self.damaged += 1
        for draft in self._drafts.values():
            yield draft.launch(numbers, self._seq + draft.anchor.start)

    def _split(self, text: str) -> list[str]:
        try:
            return next(csv.reader([text], delimiter=self._sep), [])
        except csv.Error:
            return []

    def _cell(self, cells: Sequence[str], column: str) -> str:
        at = self._at.get(column)
        return cells[at].strip() if at is not None else ""

    def _row(self, cells: Sequence[str], anchor: Anchor) -> None:
        kernel = self._cell(cells, "Kernel Name")
        number = self._cell(cells, "ID")
        key = (self._cell(cells, "Process ID"), number, kernel if not number else "")
        draft = self._drafts.get(key)
        if draft is None:
            if len(self._drafts) >= MAX_LAUNCHES:
                self.damaged += 1
                return
            draft = self._drafts[key] = self._draft(cells, kernel, number, anchor)
        if self._long:
            self._metric(draft, cells)
        else:
            for at, name in enumerate(self._columns):
                if "__" in name or name.startswith("memory_"):
                    draft.raw(name, self._units[at] if self._units else "", cells[at])

    def _draft(self, cells: Sequence[str], kernel: str, number: str, anchor: Anchor) -> Draft:
        read = "details csv" if self._long else "raw csv"
        draft = Draft(_whole(number, len(self._drafts)), kernel, anchor, read)
        draft.process = _integer(self._cell(cells, "Process ID"))
        draft.program = self._cell(cells, "Process Name")
        draft.host = self._cell(cells, "Host Name")
        draft.context = _integer(self._cell(cells, "Context"))
        draft.stream = _integer(self._cell(cells, "Stream"))
        draft.device = _integer(self._cell(cells, "Device"))
        draft.capability = self._cell(cells, "CC").replace(",", ".")
        draft.grid = dims(self._cell(cells, "Grid Size"))
        draft.block = dims(self._cell(cells, "Block Size"))
        draft.runs = _integer(self._cell(cells, "Invocations")) or 1
        for column in self._columns:
            if "Push/Pop_Range" in column or "Start/Stop_Range" in column:
                draft.ranges += _ranges(self._cell(cells, column), "push" if "Push" in column else "start")
        return draft

    def _metric(self, draft: Draft, cells: Sequence[str]) -> None:
        place = self._cell(cells, "Section Name")
        if place:
            draft.in_section(place)
        if name := self._cell(cells, "Metric Name"):
            value = self._cell(cells, "Metric Value") or self._cell(cells, "Average")
            draft.metric(name, self._cell(cells, "Metric Unit"), value)
        message = self._cell(cells, "Rule Description")
        if message:
            gain = Numbers().read(self._cell(cells, "Estimated Speedup").rstrip("%").replace(",", "."))
            scope = self._cell(cells, "Estimated Speedup Type").lower()
            kind = _KINDS.get(self._cell(cells, "Rule Type").upper(), INFORM)
            rule = self._cell(cells, "Rule Name")
            draft.rules.append(
                RuleResult(rule, section(place), kind, "", message, gain, scope if gain is not None else "")
            )


def _ranges(text: str, kind: str) -> Iterator[NvtxRange]:
    """`1131  "<default domain>:train.py:41:none:none:none:none:none:none"`: domain, name, and six of its attributes."""
    for m in _RANGE.finditer(text):
        domain = m["domain"]
        yield NvtxRange("" if domain == "<default domain>" else domain, m["name"].replace('""', '"'), kind)


def _integer(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _whole(text: str, otherwise: int) -> int:
    return int(text) if text.isdecimal() else otherwise
