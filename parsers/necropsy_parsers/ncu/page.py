"""Text pages of ncu (`--page details` and `raw`, and what it prints where no file was asked for) to launches.

    [4411] python3.12@127.0.0.1
      add_kernel(float *, int) (64, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
        Section: GPU Speed Of Light Throughput
        ----------------------- ----------- ------------
        Metric Name             Metric Unit Metric Value
        ----------------------- ----------- ------------
        Duration                         us        12.48
        ----------------------- ----------- ------------

        OPT   Est. Speedup: 17%
              Words of a rule, wrapped at column 120 under a hanging indentation

Before 2022 the head had a date and no grid (`add_kernel(float *, int), 2020-May-05 12:00:00, Context 1, Stream 7`), and
tables no line of titles. Columns are cut where the dashes are, so that blanks in labels and numbers do no harm. Pages
whose indentation was lost, as happens to what is pasted, are read too.

Summaries (`--print-summary per-kernel`, `per-gpu`) have a head before each section, titles above the dashes, and means:

  add_kernel(float *, int), Block Size 128, Grid Size 64, Device 0, 12 invocations           of 2022
  add_kernel(float *, int) (64, 1, 1)x(128, 1, 1), Device 0, CC 9.0, Invocations 12          since 2023

Those of `per-nvtx` tell a launch once for each domain, and are not read: their heads are not indented.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.ncu.build import Draft, dims
from necropsy_parsers.ncu.records import FAIL, INFORM, OPTIMIZE, WARN, Launch, NvtxRange, RuleResult
from necropsy_parsers.ncu.units import Numbers
from necropsy_parsers.numbers import whole
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Anchor, Frame

PROCESS: Final = lazily(r"\s*\[(?P<pid>\d+)\] (?P<program>\S.*?)@(?P<host>[\w.:-]+)\s*$")
HEAD: Final = lazily(
    r"\s*(?P<kernel>\S.*?)(?: (?P<grid>\(\d+, ?\d+, ?\d+\))x(?P<block>\(\d+, ?\d+, ?\d+\)))?"
    r"(?:, (?P<when>\d{4}-\w{3}-\d+ \d\d:\d\d:\d\d))?, Context (?P<context>\d+), Stream (?P<stream>\d+)"
    r"(?:, Device (?P<device>\d+))?(?:, CC (?P<cc>\d+[.,]\d+))?(?:, Invocations (?P<runs>\d+))?\s*$"
)
SUMMARY: Final = lazily(
    r"\s+(?P<kernel>\S.*?)(?: (?P<grid>\(\d+, ?\d+, ?\d+\))x(?P<block>\(\d+, ?\d+, ?\d+\))"
    r"|, Block Size (?P<threads>\d+), Grid Size (?P<blocks>\d+))(?:, Device (?P<device>\d+))?"
    r"(?:, CC (?P<cc>\d+[.,]\d+))?, (?:Invocations (?P<runs>\d+)|(?P<old_runs>\d+) invocations)\s*$"
)
MAX_LAUNCHES: Final = 20_000
_SECTION: Final = lazily(r"\s*Section: (?P<name>\S.*?)\s*$")
_DASHES: Final = re.compile(r"\s*-{3,}(?: +-{2,})*\s*$")
_RUN: Final = re.compile(r"-+")
_RULE: Final = re.compile(r"\s*(?P<kind>OPT|INF|WRN|SOL|ERR|OK)\s{2,}(?P<text>\S.*)$")
_GAIN: Final = lazily(r"Est(?:\.|imated) (?:(?P<scope>Local|Global) )?Speedup: (?P<gain>[\d.,]+) ?%\s*")
_FRAME: Final = re.compile(r'\s*#\d+ File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.*?))?\s*$')
_NVTX: Final = re.compile(r"\s*<\d+,(?P<name>.*)>\s*$")
_NESTED: Final = 4  # cells by which a range is indented below the title of its stack; its domain by one or two
_KINDS: Final = {"OPT": OPTIMIZE, "INF": INFORM, "WRN": WARN, "ERR": FAIL, "SOL": OPTIMIZE, "OK": INFORM}


class Page:
    """Takes the lines of an input; what is no line of a page is passed over."""

    def __init__(self, name: str, seq: int) -> None:
        self._name = name
        self._seq = seq
        self._process: tuple[int | None, str, str] = (None, "", "")
        self._drafts: list[Draft] = []
        self._now: Draft | None = None
        self._section = ""
        self._spans: list[tuple[int, int]] = []
        self._value = 2
        self._titles = ""
        self._summaries: dict[tuple[str | None, ...], Draft] = {}
        self._rule: list[str] = []
        self._kind = ""
        self._part = ""
        self._domain = ""
        self._hang = 0

    def line(self, text: str, start: int, end: int, number: int) -> bool:
        """Take a line; whether it is one of a page."""
        if (m := PROCESS.match(text)) is not None:
            self._end_rule()
            self._process, self._now = (whole(m["pid"]), m["program"], m["host"]), None
            return True
        if ", Context " in text and (m := HEAD.match(text)) is not None:
            self._end_rule()
            self._begin(m, Anchor(self._name, start, end, number, text.strip()[:400]))
            return True
        if "nvocations" in text and (m := SUMMARY.match(text)) is not None:
            self._end_rule()
            self._summarize(m, Anchor(self._name, start, end, number, text.strip()[:400]))
            return True
        return self._now is not None and self._inside(self._now, text)

    def launches(self) -> Iterator[Launch]:
        """All launches, in the order of the text."""
        self._end_rule()
        numbers = Numbers.of(v for d in self._drafts for _, _, v in d.values[:400])
        for draft in self._drafts:
            yield draft.launch(numbers, self._seq + draft.anchor.start)

    def _begin(self, m: re.Match[str], anchor: Anchor) -> None:
        draft = Draft(len(self._drafts), m["kernel"].strip(), anchor, "text")
        draft.process, draft.program, draft.host = self._process
        draft.context, draft.stream = whole(m["context"]), whole(m["stream"])
        draft.device = whole(m["device"] or "")
        draft.capability = (m["cc"] or "").replace(",", ".")
        draft.grid, draft.block = dims(m["grid"] or ""), dims(m["block"] or "")
        draft.runs = whole(m["runs"] or "") or 1
        self._keep(draft)

    def _keep(self, draft: Draft) -> None:
        if len(self._drafts) < MAX_LAUNCHES:
            self._drafts.append(draft)
        self._goes_on(draft)

    def _goes_on(self, draft: Draft) -> None:
        self._now, self._section, self._spans, self._part, self._titles = draft, "", [], "", ""

    def _summarize(self, m: re.Match[str], anchor: Anchor) -> None:
        """A head of a summary: of its kernel, grid and device there is one before each section."""
        key = (*(str(part) for part in self._process), m["kernel"], m["grid"], m["block"], m["threads"], m["blocks"],
               m["device"])  # fmt: skip
        if (draft := self._summaries.get(key)) is not None:
            self._goes_on(draft)
            return
        draft = self._summaries[key] = Draft(len(self._drafts), m["kernel"].strip(), anchor, "text")
        draft.process, draft.program, draft.host = self._process
        draft.device, draft.runs = whole(m["device"] or ""), whole(m["runs"] or m["old_runs"]) or 1
        draft.capability = (m["cc"] or "").replace(",", ".")
        draft.grid, draft.block = dims(m["grid"] or ""), dims(m["block"] or "")
        for label, size in (("Grid Size", m["blocks"]), ("Block Size", m["threads"])):
            if size:
                draft.metric(label, "", size)
        self._keep(draft)

    def _inside(self, draft: Draft, text: str) -> bool:
        if self._rule and self._goes_on_with(text):
            self._rule.append(text.strip())
            return True
        self._end_rule()
        if not text.strip():
            return True
        if (m := _SECTION.match(text)) is not None:
            self._section, self._spans, self._part = draft.in_section(m["name"]), [], "section"
        elif _DASHES.match(text):
            self._dashes(text)
        elif not self._spans and text.lstrip().startswith("Metric Name "):
            self._titles = text
        elif (m := _RULE.match(text)) is not None:
            self._kind, self._rule, self._spans = m["kind"], [m["text"].strip()], []
            self._hang = _indent(text) + 3 if _indent(text) else -1  # six in every release seen
        elif text.lstrip().startswith("NVTX "):
            self._part, self._domain = "start" if "Start/" in text else "push", ""
            self._hang = _indent(text)
        elif self._part in ("push", "start") and (_indent(text) > self._hang or _NVTX.match(text)):
            self._range(draft, text)
        elif "CPU Call Stack" in text:
            self._part = "python" if "Python" in text else "native"
        elif self._part == "python" and (m := _FRAME.match(text)) is not None:
            draft.stack.append(Frame(m["file"], whole(m["line"]) or 0, m["function"] or ""))
        elif text.lstrip().startswith("Warning: "):
            draft.notices.append(text.strip())
        elif self._part not in ("python", "native"):  # frames run over several lines; a section follows
            row = len(self._spans) >= 3 and self._row(draft, text)
            return row or text[:1] in " \t"  # values of instances run over several lines
        return True

    def _goes_on_with(self, text: str) -> bool:
        """Whether it is the next line of a rule's words: deeper than its head, or any where indentation was lost."""
        if not text.strip() or _indent(text) <= self._hang:
            return False
        return self._hang >= 0 or not any(p.match(text) for p in (_DASHES, _SECTION, _RULE))

    def _range(self, draft: Draft, text: str) -> None:
        """A domain, a range of it, or (deeper) payload, colour and message of that range, which repeats its name."""
        deep = _indent(text) - self._hang
        if (m := _NVTX.match(text)) is not None and deep in (_NESTED, 0):  # 0 where indentation was lost
            draft.ranges.append(NvtxRange(self._domain, m["name"], self._part))
        elif deep < _NESTED:
            self._domain = "" if text.strip() == "<default domain>" else text.strip()

    def _dashes(self, text: str) -> None:
        """Where the columns of a table are; its titles stand between two of such lines, or above the first."""
        self._value = self._value if self._spans else 2
        self._spans = [r.span() for r in _RUN.finditer(text)]
        if self._titles:
            self._value, self._titles = _valued(self._cells(self._titles)), ""

    def _cells(self, text: str) -> list[str]:
        return [*(text[a:b].strip() for a, b in self._spans[:-1]), text[self._spans[-1][0] :].strip()]

    def _row(self, draft: Draft, text: str) -> bool:
        """A row of a table, cut where its dashes are."""
        cells = self._cells(text)
        if cells[0] == "Metric Name":
            self._value = _valued(cells)
            return True
        if len(cells) <= self._value or not cells[0]:
            return False
        name, unit, value = cells[0], cells[1], cells[self._value]
        draft.metric(name, unit, value)
        return True

    def _end_rule(self) -> None:
        if not self._rule or self._now is None:
            self._rule = []
            return
        message, gain, scope = " ".join(self._rule), None, ""
        if (m := _GAIN.match(message)) is not None:
            gain = Numbers().read(m["gain"].replace(",", "."))
            scope, message = (m["scope"] or "global").lower(), message[m.end() :]
        result = RuleResult("", self._section, _KINDS[self._kind], "", message, gain, scope)
        self._now.rules.append(result)
        self._rule = []


def _valued(titles: list[str]) -> int:
    return next((i for i, title in enumerate(titles) if title in ("Metric Value", "Average")), 2)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
