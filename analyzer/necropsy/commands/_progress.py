"""A progress bar on standard error, for inputs that take long enough to wonder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LARGE: Final = 4_000_000  # bytes; smaller inputs are done before a bar can be read

Update = Callable[[int, int | None], None]


class Bar:
    """Shows bytes done of bytes in all, once either is large; imports rich only then."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def update(self, done: int, total: int | None) -> None:
        """`done` bytes of `total` (None: unknown) are read."""
        if max(done, total or 0) < LARGE:
            return
        if self._bar is None:
            self._bar = _new_bar()
            self._task = self._bar.add_task("Reading", total=total)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total)

    def close(self) -> None:
        """Remove the bar from the screen."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress_bar() -> Iterator[Update | None]:
    """Gives what to call with progress, or None where nobody watches standard error."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = Bar()
    try:
        yield bar.update
    finally:
        bar.close()


def _new_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
