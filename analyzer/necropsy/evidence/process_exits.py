"""Ends of processes, as shells, launchers and interpreters report them."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.process_exit import ProcessExit

from necropsy.evidence._records import COMMON, RecordTable


class ProcessExits(RecordTable[ProcessExit]):
    """One row a reported end."""

    name = "process_exits"
    row = ProcessExit
    accepts = (ProcessExit,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "signal": "SIGSEGV, ... or empty",
        "code": "exit code or None",
        "pid": "process id or None",
        "by": "shell, interpreter or launcher",
        "reason": "the reporter's words",
        "core": "a core was dumped",
    }
