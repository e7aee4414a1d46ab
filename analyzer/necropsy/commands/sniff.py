"""`necropsy sniff FILE...`: what a file is taken for, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from necropsy.commands._terminal import complain, emit


def command(
    files: Annotated[list[str], typer.Argument(metavar="FILE", hidden=True)],
) -> int:
    """Print the format each file is read as, and the reason.

    FILE is a file, an archive or a folder; - reads standard input.
    """
    from necropsy import api
    from necropsy.render.parts.printable import printable

    status = 0
    for file in files:
        try:
            rows = api.sniff(file)
        except OSError as error:
            complain(f"cannot read {file}: {error.strerror}.")
            status = 2
            continue
        for row in rows:
            emit(
                printable(f"{row.path}: {row.format or 'unknown'}" + (f" ({row.reason})" if row.reason else "")) + "\n"
            )
        if not rows:
            complain(f"{file}: nothing to read there.")
            status = 2
    return status
