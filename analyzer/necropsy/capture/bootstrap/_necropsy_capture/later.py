"""Calls a function in the main thread, from another one: between two bytecodes, as signal handlers are called."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


def in_main_thread(function: Callable[[], None]) -> None:
    """Have it called soon; what it raises is lost."""

    def call(_: Any) -> int:
        with suppress(Exception):
            function()
        return 0

    made = _CALL(call)
    _kept.append(made)
    ctypes.pythonapi.Py_AddPendingCall(made, None)


def after(seconds: float, function: Callable[[], None]) -> threading.Timer:
    """Have it called in the main thread after a time; the timer may be cancelled."""
    timer = threading.Timer(seconds, in_main_thread, args=(function,))
    timer.daemon = True
    timer.name = "necropsy-timer"
    timer.start()
    return timer


class Watch:
    """Has a function called in the main thread, once, when `due` (asked in another thread) says so."""

    def __init__(self, seconds: float, due: Callable[[], bool], function: Callable[[], None]) -> None:
        self._over = threading.Event()
        self._work = seconds, due, function
        threading.Thread(target=self._wait, name="necropsy-watch", daemon=True).start()

    def cancel(self) -> None:
        """Ask no more."""
        self._over.set()

    def _wait(self) -> None:
        seconds, due, function = self._work
        while not self._over.wait(seconds):
            if due():
                in_main_thread(function)
                return


_kept: list[Any] = []  # callbacks must outlive their call
