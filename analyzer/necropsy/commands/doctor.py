"""`necropsy doctor`: whether a capture will work here, and what to do where it will not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from necropsy.commands._terminal import emit, width


def command(
    python: Annotated[
        str | None,
        typer.Option("--python", metavar="FILE", help="The job's interpreter; default: python on the path."),
    ] = None,
) -> int:
    """Look at the job's Python, torch, GPU, profilers and disk, and say how to mend what is missing.

    Exit status: 0 when a capture will work, 1 when something that it needs is missing.
    """
    import textwrap

    from necropsy.capture.checks import BAD, checks
    from necropsy.render.parts.printable import printable

    rows = checks(python, Path.cwd())
    cells = max(len(row.name) for row in rows) + 2
    for row in rows:
        first = f"{row.state:<9}{row.name:<{cells}}"
        room = max(30, width() - len(first))
        lines = textwrap.wrap(printable(row.found), room) or [""]
        lines += [f"-> {line}" if n == 0 else f"   {line}" for n, line in enumerate(textwrap.wrap(row.fix, room - 3))]
        emit(first + ("\n" + " " * len(first)).join(lines) + "\n")
    return int(any(row.state == BAD for row in rows))
