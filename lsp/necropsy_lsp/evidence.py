"""A line of an input to the file that holds it, if there is one on this machine."""

from __future__ import annotations

import os.path
from pathlib import Path

from pygls.uris import from_fs_path

from necropsy_lsp.stored import Anchor


def input_uri(project: Path, name: str) -> str | None:
    """URI of the input called `name`, relative to the project; None unless it is a file here."""
    if name.startswith(("//", "\\\\")) or "\0" in name:  # never let a report make Windows log in to a share
        return None
    path = os.path.abspath(project / name)
    return from_fs_path(path) if os.path.isfile(path) else None


def line_uri(project: Path, anchor: Anchor) -> str | None:
    """The same with the line as a fragment, which editors follow."""
    uri = input_uri(project, anchor.input)
    return f"{uri}#L{max(anchor.line, 1)}" if uri is not None else None
