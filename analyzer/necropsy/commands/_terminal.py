"""What the terminal can show, and writing to it without ever failing loudly."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Final, TextIO

from necropsy.render.parts.printable import printable

WIDEST: Final = 120  # longer lines are hard to read
UNKNOWN_WIDTH: Final = 100


def width() -> int:
    """Cells in a line: `COLUMNS`, else the terminal's width, within reason."""
    return max(40, min(shutil.get_terminal_size((UNKNOWN_WIDTH, 24)).columns, WIDEST))


def colour(stream: TextIO) -> bool:
    """Whether colour is welcome: on a terminal, unless `NO_COLOR` says no or `FORCE_COLOR` yes."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def ascii_only(stream: TextIO) -> bool:
    """Whether the stream's encoding lacks the few signs that reports are drawn with."""
    try:
        "│…".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def emit(text: str) -> None:
    """Write to standard output; a reader that has gone away (`| head`) is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered would raise again when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """One line on standard error."""
    print(f"necropsy: {printable(text)}", file=sys.stderr)
