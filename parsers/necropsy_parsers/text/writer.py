"""What one writer of a log has open: a traceback, a message, an entry of torch's log, a run of plain lines."""

from __future__ import annotations

import re
from typing import Final

from necropsy_parsers.messages import Message, MessageFormat
from necropsy_parsers.records import Anchor, Origin
from necropsy_parsers.text.entry import Entry, of_compiler
from necropsy_parsers.text.plain import TextRun
from necropsy_parsers.text.prefix import Peeled
from necropsy_parsers.text.traceback import TracebackReader

MAX_BLOCK: Final = 60  # lines of one message that is no traceback
# Messages that go on in indented lines: warnings quote source, faulthandler and anomaly mode quote stacks.
_HAS_MORE: Final = re.compile(
    r"Warning: |most recent call first|what\(\)|terminate called|xception|rror|\[PG |NCCL"
    r"|ing cudagraph|cudagraph partition|^AUTOTUNE |implicit fallback for:"
)


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
        self.block_kinds: list[MessageFormat] | None = None  # of the message that is open, if it is one line
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


def belongs(block: Message, text: str) -> bool:
    """Whether a line without a head goes on with the message above it."""
    if block.text.count("\n") >= MAX_BLOCK:
        return False
    if text[:1] in (" ", "\t") and text.strip():
        return _HAS_MORE.search(block.text) is not None
    # Messages of C++ origin go on without prefix and indentation (`ncclRemoteError: ...`).
    if block.text.endswith("\nLast error:"):
        return bool(text.strip())
    if text.startswith("#"):
        return "Stack trace of the failed collective" in block.text
    if text.startswith(("strides: ", "dtypes: ")):
        return block.text.startswith("AUTOTUNE ")
    return text.startswith(("frame #", "ncc", "Last error:", "Exception raised from"))


def same_head(writer: Writer, peeled: Peeled) -> bool:
    """Whether a line may go on with a traceback whose lines bear heads: those of the compiler are all the same."""
    head = writer.trace_head
    return head is None or not of_compiler(peeled.origin) or peeled.origin.place == head[1].place
