"""Lines of the user's code through `sys.settrace` (before Python 3.12), of this thread and of those begun later."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

from _necropsy_capture.marking.names import Project
from _necropsy_capture.marking.stacks import MOST, Enter, Stacks


class Tracing:
    """Marks through a trace function; `start` says why not, or nothing."""

    def __init__(self, project: Project, enter: Enter) -> None:
        self.stacks = Stacks(project, enter, lambda code: None)
        self.trouble = ""
        self._on = False
        self._adopted: list[FrameType] = []
        self._before: Any = None

    def start(self) -> str:
        """Mark lines from now on, those included that run now."""
        if sys.gettrace() is not None:
            return "a debugger or a coverage tool uses sys.settrace"
        self._on = True
        self._adopted = self.stacks.adopt(threading.get_ident(), sys._getframe(1), True)
        for frame in self._adopted:
            frame.f_trace = self._local
        self._before = getattr(threading, "_trace_hook", None)
        if self._before is None:
            threading.settrace(self._called)
        sys.settrace(self._called)
        return ""

    def stop(self, close: bool = True) -> None:
        """Mark no more; open ranges end, if asked. Threads that trace still find it off at their next event."""
        if not self._on:
            return
        self._on = False
        if sys.gettrace() == self._called:
            sys.settrace(None)
        if self._before is None:
            threading.settrace(None)
        for frame in self._adopted:
            if frame.f_trace == self._local:
                frame.f_trace = None
        self._adopted = []
        if close:
            self.stacks.close()

    # An exception in a trace function would be the user's, so that the first ends the marks. Ctrl-C goes through.

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not self._on:
            sys.settrace(None)
            return None
        try:
            if self.stacks.user(frame.f_code):
                self.stacks.entered(frame.f_code)
                return self._local
        except Exception as error:
            self._failed(error)
        return None

    def _local(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not self._on:
            return None
        try:
            if event == "line":
                self.stacks.line(frame.f_code, frame.f_lineno)
                if self.stacks.opened > MOST:
                    self._failed(RuntimeError(f"more than {MOST} lines in one recording"))
            elif event == "return":
                self.stacks.left(frame.f_code)
        except Exception as error:
            self._failed(error)
        return self._local

    def _failed(self, error: Exception) -> None:
        self.trouble = self.trouble or f"{type(error).__name__}: {error}"
        with suppress(Exception):
            self.stop()
