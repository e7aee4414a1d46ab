"""Each thread's running functions of the user's, innermost last, and the open range of each.

A function has one range open at most: that of the line it is at. A call opens those of the callee inside it, so that
the innermost range around an operator is the innermost line of the user's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from _necropsy_capture.marking.names import Lines, Project

MOST_OF_CODE = (
    50_000  # lines marked of one function in a recording; a loop over elements in Python says no more after that
)
MOST = 400_000  # of all functions together: some 60 MB of trace

Enter = Callable[[str], Callable[..., Any]]  # opens a range of that name; what it gives closes it


class Known:
    """A code object of the user's."""

    __slots__ = ("code", "left", "lines")

    def __init__(self, code: CodeType, lines: Lines) -> None:
        self.code = code
        self.lines = lines
        self.left = MOST_OF_CODE


class Running:
    """A call that is running: which code (by id), and what closes its open range."""

    __slots__ = ("close", "key")

    def __init__(self, key: int) -> None:
        self.key = key
        self.close: Callable[..., Any] | None = None


class _Mine(threading.local):
    stack: list[Running]


class Stacks:
    """`forget` is called with a code object that used up its lines."""

    def __init__(self, project: Project, enter: Enter, forget: Callable[[CodeType], None]) -> None:
        self._project = project
        self._enter = enter
        self._forget = forget
        self._known: dict[int, Any] = {}  # id of code -> Known; None for what is not marked
        self._kept: list[CodeType] = []  # so that an id stays its own
        self._mine = _Mine()
        self._all: list[list[Running]] = []
        self._waiting: dict[int, list[Running]] = {}
        self.opened = 0
        self.dropped: set[str] = set()

    # -- code -----------------------------------------------------------------

    def user(self, code: CodeType) -> bool:
        """Whether lines of this code are to be marked; what is asked once is remembered, since hashing code is slow."""
        known = self._known.get(id(code), self)
        if known is not self:
            return known is not None
        lines = self._project.lines(code)
        self._known[id(code)] = None if lines is None else Known(code, lines)
        self._kept.append(code)
        return lines is not None

    def codes(self) -> list[CodeType]:
        """All code that is being marked."""
        return [k.code for k in self._known.values() if k is not None]

    # -- events ---------------------------------------------------------------

    def entered(self, code: CodeType) -> None:
        """A call of the user's code begins or goes on."""
        self._stack().append(Running(id(code)))

    def line(self, code: CodeType, number: int) -> None:
        """A line is about to run."""
        key = id(code)
        known = self._known.get(key)
        if known is None:
            return
        stack = self._stack()
        top = stack[-1] if stack and stack[-1].key == key else self._found(stack, key)
        if top.close is not None:
            top.close(None, None, None)
            top.close = None
        known.left -= 1
        if known.left <= 0:
            self._drop(key, known)
            return
        self.opened += 1
        top.close = self._enter(known.lines[number])

    def left(self, code: CodeType) -> None:
        """A call returns, yields, or is unwound by an exception."""
        key = id(code)
        stack = self._stack()
        if not stack or stack[-1].key != key:
            if not any(r.key == key for r in stack):
                return
            self._found(stack, key)
        top = stack.pop()
        if top.close is not None:
            top.close(None, None, None)
            top.close = None

    # -- beginning and end ----------------------------------------------------

    def adopt(self, thread: int, frame: FrameType | None, lines: bool) -> list[FrameType]:
        """Take over a thread's running calls; open the ranges of their lines, if it is the present thread."""
        frames: list[FrameType] = []
        while frame is not None:
            if self.user(frame.f_code):
                frames.append(frame)
            frame = frame.f_back
        frames.reverse()
        stack = [Running(id(f.f_code)) for f in frames]
        self._all.append(stack)
        if lines:
            self._mine.stack = stack
            for running, f in zip(stack, frames, strict=True):
                known = self._known[running.key]
                if known is not None and f.f_lineno is not None:
                    running.close = self._enter(known.lines[f.f_lineno])
        else:
            self._waiting[thread] = stack
        return frames

    def close(self) -> None:
        """Close whatever is open, innermost first."""
        for stack in self._all:
            while stack:
                running = stack.pop()
                if running.close is not None:
                    running.close(None, None, None)

    # -- helpers --------------------------------------------------------------

    def _stack(self) -> list[Running]:
        try:
            return self._mine.stack
        except AttributeError:
            stack = self._waiting.pop(threading.get_ident(), None)
            if stack is None:
                stack = []
                self._all.append(stack)
            self._mine.stack = stack
            return stack

    def _found(self, stack: list[Running], key: int) -> Running:
        """The innermost call of a code; calls above it have ended unseen. A new one, if it runs unknown."""
        for depth in range(len(stack) - 1, -1, -1):
            if stack[depth].key == key:
                while len(stack) > depth + 1:
                    over = stack.pop()
                    if over.close is not None:
                        over.close(None, None, None)
                return stack[depth]
        made = Running(key)
        stack.append(made)
        return made

    def _drop(self, key: int, known: Known) -> None:
        self._known[key] = None
        self.dropped.add(known.code.co_name)
        self._forget(known.code)
