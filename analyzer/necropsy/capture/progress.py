"""Short lines on the terminal while the job runs: what collectors do, printed only where the job has ended its line.

A bar of ours would fight with the job's own bars for the same lines of the screen.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from necropsy.capture.folder import processes

if TYPE_CHECKING:
    from rich.console import Console


class Progress:
    """`tick` looks for news; nothing is said where stderr is no terminal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: set[tuple[Any, ...]] = set()
        self._waiting: list[str] = []
        self._changed: dict[str, float] = {}
        self._console: Console | None = None
        self.on = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """One line, dim where colour is welcome."""
        if not self.on:
            return
        if self._console is None:
            from rich.console import Console

            self._console = Console(stderr=True, highlight=False)
        self._console.print(f"necropsy: {text}", style="dim", markup=False, soft_wrap=True)

    def tick(self, clean: bool) -> None:
        """Called twice a second; `clean`: a line may be printed."""
        if not self.on:
            return
        if self._news():
            self._waiting += self._new_lines()
        while clean and self._waiting:
            self.say(self._waiting.pop(0))

    def _news(self) -> bool:
        changed = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.startswith("process-"):
                        changed[entry.name] = entry.stat().st_mtime
        except OSError:
            return False
        new = changed != self._changed
        self._changed = changed
        return new

    def _new_lines(self) -> list[str]:
        lines = []
        for process in processes(self._folder):
            for note in process["notes"]:
                key = (process.get("pid"), note.get("time"), note.get("collector"), note.get("what"))
                if key not in self._seen:
                    self._seen.add(key)
                    line = told(process, note)
                    if line:
                        lines.append(line)
        return lines


def told(process: dict[str, Any], note: dict[str, Any]) -> str:
    """A note in words for the terminal, "" for what is not worth a line."""
    from necropsy.units import human_bytes

    who = f"rank {process['rank']}: " if process.get("rank") is not None else ""
    collector, what = note.get("collector"), note.get("what")
    if what == "failed":
        return f"{who}{collector} failed and goes without: {note.get('error', '')}"
    if collector != "profiler":
        return ""
    if what == "recording":
        return f"{who}recording from step {note.get('step', 0)}"
    if what == "recorded":
        steps = int(note.get("steps") or 0)
        trace = human_bytes(int(note.get("bytes") or 0))
        return f"{who}recorded {steps} step{'s' if steps != 1 else ''}: {trace} of trace"
    return f"{who}profiler: {note.get('why', what)}"
