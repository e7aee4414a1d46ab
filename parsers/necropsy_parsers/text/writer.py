"""What one writer of a log has open: a traceback, a message, an entry of torch's log, a run of plain lines."""

from __future__ import annotations

from necropsy_parsers.messages import Message
from necropsy_parsers.records import Anchor, Origin
from necropsy_parsers.text.entry import Entry
from necropsy_parsers.text.plain import TextRun
from necropsy_parsers.text.prefix import Peeled
from necropsy_parsers.text.traceback import TracebackReader


class Writer:
    """What one writer has open; `number` counts writers in the order in which they first spoke."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.trace = TracebackReader()
        self.trace_head: tuple[Anchor, Origin, int] | None = None
        self.trace_end = 0
        self.trace_lines = 0
        self.trace_kind = "plain"
        self.trace_attempt = 0
        self.all_headed = False  # every line of the open traceback bears a head of its own
        self.block_headed = False
        self.lead = ""
        self.block: Message | None = None
        self.block_end = 0
        self.entry: Entry | None = None
        self.run: TextRun | None = None

    @property
    def open(self) -> bool:
        """Whether a traceback or a message of it may go on."""
        return self.trace.open or self.block is not None or self.entry is not None


def kind_of(begun: str, peeled: Peeled, lead: str) -> str:
    """The kind of a traceback, by how it began and what stood before it."""
    if begun != "header":
        return "headless" if begun == "frame" else "bare"
    if lead.startswith("Exception in thread"):
        return "thread"
    if lead.startswith("Exception ignored"):
        return "ignored"
    return "logged" if peeled.headed and peeled.origin.level not in (None, "E") else "plain"
