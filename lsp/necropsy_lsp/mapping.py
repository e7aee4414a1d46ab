"""Where the editor looks for the files that a report names; which of them is meant says `necropsy.provenance.paths`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def bases_of(document: Path, folders: Iterable[Path]) -> list[Path]:
    """Where to look for reported files: the workspace folders, and those between one and the document."""
    bases: dict[Path, None] = {}
    for folder in folders:
        bases[folder] = None
        if document.is_relative_to(folder):
            for parent in document.parents:
                bases[parent] = None
                if parent == folder:
                    break
    return list(bases)
