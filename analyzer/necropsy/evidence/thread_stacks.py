"""Python stacks printed by faulthandler."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.thread_stack import ThreadStack

from necropsy.evidence._records import COMMON, RecordTable


class ThreadStacks(RecordTable[ThreadStack]):
    """One row a thread, outermost call first."""

    name = "thread_stacks"
    row = ThreadStack
    accepts = (ThreadStack,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "current": "the thread that crashed",
        "frames": "its frames",
    }
