"""CSV of ncu to launches: `--page raw --csv` (a row a launch) and `--page details --csv` (a row a metric or message).

    "ID","Process ID","Process Name","Host Name","Kernel Name",...,"gpu__time_duration.sum",...
    "","","","","",...,"us",...                                                     the row of units
    "0","1131","python3.12","127.0.0.1","void add_kernel<float>(float *)",...,"12.48",...

Columns come and go with releases and options (kernel time before 2021, device and capability since 2022, NVTX ranges
with `--nvtx`, minimum and maximum of summary pages): they are found by name. The separator is a comma; files that a
spreadsheet saved again have semicolons or tabs. Quotes within the name of an NVTX range are not doubled by ncu (seen in
2022.3): such rows are cut at `","`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Final

from necropsy_parsers.ncu.build import Draft, dims
from necropsy_parsers.ncu.metrics import section
from necropsy_parsers.ncu.records import FAIL, INFORM, OPTIMIZE, WARN, Launch, NvtxRange, RuleResult
from necropsy_parsers.ncu.units import Numbers
from necropsy_parsers.numbers import whole
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Anchor

# Summaries (`--print-summary per-kernel`, `per-gpu`) have no ID, and means instead of values.
HEADER: Final = lazily(
    r'\ufeff?\s*(?P<id>"?ID"?[,;\t])?"?Process ID"?(?P<sep>[,;\t])'
    r'(?(id)|(?=.*[,;\t]"?Invocations\b)(?=.*[,;\t]"?Metric Name\b))(?:.*(?P=sep))?"?Kernel Name"?'
)
MAX_LAUNCHES: Final = 20_000
MAX_PARTS: Final = 1_000  # lines that one record of CSV may run over
MAX_RANGES: Final = 50  # of a launch, each of at most so many letters
MAX_RANGE: Final = 2_000
# Behind the name, which may hold colons itself: types and values of payload, colour and message.
_ATTRIBUTES: Final = lazily(
    r":(?:none|Int|Uint|Int32|Uint32|Int64|Uint64|Float|Double|Json):[^:]*:(?:none|A?RGB):\w*"
    r":(?:none|ASCII|UNICODE|Unicode|REGISTERED):"
)
_KINDS: Final = {"OPT": OPTIMIZE, "INF": INFORM, "WRN": WARN, "ERR": FAIL, "SOL": OPTIMIZE, "OK": INFORM}


class Table:
    """Takes the lines of one CSV; `header` is the first of them."""

    def __init__(self, header: str, name: str, seq: int) -> None:
        m = HEADER.match(header)
        self._sep = m["sep"] if m else ","
        self._columns = self._split(header.lstrip("\ufeff"))
        self._at = {c: i for i, c in enumerate(self._columns)}
        self._long = "Metric Name" in self._at
        self._ranges = [c for c in self._columns if "Push/Pop_Range" in c or "Start/Stop_Range" in c]
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
        cells = self._cells(text)
        if cells is None and text.count('"') % 2 and self._parts < MAX_PARTS:
            self._open, self._parts = text + "\n", self._parts + 1
            return True
        self._open, self._parts = "", 0
        if not text.strip():
            return True
        if cells is None:
            cells = self._split(text)
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

    def _cells(self, text: str) -> list[str] | None:
        """The cells of a row, or None where they are not as many as there are columns."""
        if self._ranges and text[:1] == '"':  # csv takes quotes off that ncu did not double
            plain = text.rstrip(f"{self._sep} ").removeprefix('"').removesuffix('"')
            cut = self._filled([c.replace('""', '"') for c in plain.split(f'"{self._sep}"')])
            if len(cut) == len(self._columns):
                return cut
        whole = self._filled(self._split(text)) if text.count('"') % 2 == 0 else []
        return whole if whole and len(whole) == len(self._columns) else None

    def _filled(self, cells: list[str]) -> list[str]:
        """Rows of metrics end before the columns of rules."""
        if self._long and len(self._at) > len(cells) > self._at["Metric Name"]:
            return cells + [""] * (len(self._columns) - len(cells))
        return cells

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
        shape = " ".join(self._cell(cells, c) for c in ("Grid Size", "Block Size", "Device", "Device Id"))
        key = (self._cell(cells, "Process ID"), number, f"{kernel} {shape}" if not number else "")
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
        told = whole(number)
        draft = Draft(len(self._drafts) if told is None else told, kernel, anchor, read)
        draft.process = whole(self._cell(cells, "Process ID"))
        draft.program = self._cell(cells, "Process Name")
        draft.host = self._cell(cells, "Host Name")
        draft.context = whole(self._cell(cells, "Context"))
        draft.stream = whole(self._cell(cells, "Stream"))
        draft.device = whole(self._cell(cells, "Device") or self._cell(cells, "Device Id"))
        draft.capability = self._cell(cells, "CC").replace(",", ".")
        draft.grid = dims(self._cell(cells, "Grid Size"))
        draft.block = dims(self._cell(cells, "Block Size"))
        for column in ("Grid Size", "Block Size"):
            if (size := self._cell(cells, column)).isdecimal():  # summaries before 2023 print no axes
                draft.metric(column, "", size)
        draft.runs = whole(self._cell(cells, "Invocations")) or 1
        for column in self._ranges:
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
    """Ranges of a cell: domain, name, and six of its attributes.

    Behind the thread `4411  "<default domain>:train.py:41:none:none:none:none:none:none"`; ranges that were started
    instead of pushed have an ID before the domain, and no thread.
    """
    whole = text[text.find('"') + 1 : text.rfind('"')]
    for part in whole.split('"  "')[:MAX_RANGES]:
        if (m := _ATTRIBUTES.search(part, 0, MAX_RANGE)) is None:
            continue
        head = part[: m.start()]
        if kind == "start":
            head = head.partition(":")[2]
        domain, _, name = head.partition(":")
        yield NvtxRange("" if domain == "<default domain>" else domain, name.replace('""', '"'), kind)
