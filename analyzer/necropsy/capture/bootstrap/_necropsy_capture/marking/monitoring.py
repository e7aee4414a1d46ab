"""Lines of the user's code through `sys.monitoring` (Python 3.12 and newer): other code is asked once and then free.

`PY_START` is asked of all code once; what is foreign answers DISABLE, what is the user's gets local events. Unwinding
and throwing have no local events before Python 3.15.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from types import CodeType
from typing import Any

from _necropsy_capture.marking.names import Project
from _necropsy_capture.marking.stacks import MOST, Enter, Stacks

NAME = "necropsy"
TOOLS = (4, 3)  # 0, 1, 2 and 5 are kept for debuggers, coverage, profilers and optimizers


class Monitoring:
    """Marks through a tool of the interpreter's; `start` says why not, or nothing."""

    def __init__(self, project: Project, enter: Enter) -> None:
        self.stacks = Stacks(project, enter, self._forget)
        self.trouble = ""
        self._tool = -1

    def start(self) -> str:
        """Mark lines from now on, those included that run now."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        free = [tool for tool in TOOLS if monitoring.get_tool(tool) is None]
        if not free:
            return "other tools use sys.monitoring"
        self._tool = free[0]
        monitoring.use_tool_id(self._tool, NAME)
        e = monitoring.events
        self._events = monitoring
        self._local = e.LINE | e.PY_START | e.PY_RESUME | e.PY_RETURN | e.PY_YIELD
        heard = {
            e.LINE: self._line, e.PY_START: self._begun, e.PY_RESUME: self._begun, e.PY_THROW: self._thrown,
            e.PY_RETURN: self._left, e.PY_YIELD: self._left, e.PY_UNWIND: self._left,
        }  # fmt: skip
        own = threading.get_ident()
        for thread, frame in sys._current_frames().items():
            for f in self.stacks.adopt(thread, frame, thread == own):
                monitoring.set_local_events(self._tool, f.f_code, self._local)
        for event, function in heard.items():
            monitoring.register_callback(self._tool, event, function)
        monitoring.set_events(self._tool, e.PY_START | e.PY_RESUME | e.PY_THROW | e.PY_UNWIND)
        return ""

    def stop(self, close: bool = True) -> None:
        """Mark no more; open ranges end, if asked."""
        if self._tool < 0:
            return
        monitoring, tool, self._tool = self._events, self._tool, -1
        monitoring.set_events(tool, 0)
        for code in self.stacks.codes():
            monitoring.set_local_events(tool, code, 0)
        e = monitoring.events
        for event in (e.LINE, e.PY_START, e.PY_RESUME, e.PY_THROW, e.PY_RETURN, e.PY_YIELD, e.PY_UNWIND):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        if close:
            self.stacks.close()

    # Callbacks: an exception in one would be the user's, so that the first ends the marks. Ctrl-C goes through.

    def _begun(self, code: CodeType, offset: int) -> Any:
        try:
            if not self.stacks.user(code):
                return self._events.DISABLE
            self._events.set_local_events(self._tool, code, self._local)
            self.stacks.entered(code)
        except Exception as error:
            self._failed(error)
        return None

    def _thrown(self, code: CodeType, offset: int, exception: BaseException) -> None:
        try:
            if self.stacks.user(code):
                self.stacks.entered(code)
        except Exception as error:
            self._failed(error)

    def _line(self, code: CodeType, number: int) -> None:
        try:
            self.stacks.line(code, number)
            if self.stacks.opened > MOST:
                self._failed(RuntimeError(f"more than {MOST} lines in one recording"))
        except Exception as error:
            self._failed(error)

    def _left(self, code: CodeType, offset: int, value: object) -> None:
        try:
            self.stacks.left(code)
        except Exception as error:
            self._failed(error)

    def _forget(self, code: CodeType) -> None:
        self._events.set_local_events(self._tool, code, 0)

    def _failed(self, error: Exception) -> None:
        self.trouble = self.trouble or f"{type(error).__name__}: {error}"
        with suppress(Exception):
            self.stop()
