r"""A path from another machine to a local file: the longest common path suffix decides.

A report may name `/home/trainer/projects/vision/train.py` while the document is
`C:\src\vision\train.py`. Candidates are the document and what lies next to it: every
suffix of the reported path is looked up from each folder between the document and its
workspace folder. No folder is walked, so a large workspace costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os.path import abspath, expanduser, isfile
from pathlib import Path


def path_parts(path: str) -> tuple[str, ...]:
    """The parts of a POSIX or Windows path; empty for a path that climbs (`..`), which names no place."""
    parts = tuple(p for p in path.replace("\\", "/").split("/") if p not in ("", "."))
    return () if ".." in parts else parts


def common_suffix(first: str, second: str) -> int:
    """How many trailing path parts two paths share; 0 when even the file names differ."""
    count = 0
    for a, b in zip(reversed(path_parts(first)), reversed(path_parts(second)), strict=False):
        if a != b:
            break
        count += 1
    return count


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


def is_meant(reported: str, document: Path, bases: Iterable[Path]) -> bool:
    """Whether `reported` means `document`: same file name, and no file that shares a longer suffix."""
    shared = common_suffix(reported, str(document))
    if shared == 0:
        return False
    parts = path_parts(reported)
    longer = [parts[-length:] for length in range(len(parts), shared, -1)]
    # os.path.isfile, since Path.is_file raises for a name that no file can have.
    return not any(isfile(base.joinpath(*suffix)) for base in bases for suffix in longer)


def mapped(reported: str, mappings: Mapping[str, str], folders: Iterable[Path]) -> list[Path]:
    """Where the settings say that a reported path is; the longest start that fits counts, empty without one."""
    parts = path_parts(reported)
    fitting = [(path_parts(start), target) for start, target in mappings.items()]
    fitting = [(start, target) for start, target in fitting if start and parts[: len(start)] == start]
    if not fitting:
        return []
    start, target = max(fitting, key=lambda pair: len(pair[0]))
    rest = parts[len(start) :]
    return [Path(abspath(folder / expanduser(target))).joinpath(*rest) for folder in [*folders] or [Path()]]


def find_source(
    reported: str, mappings: Mapping[str, str], bases: Iterable[Path], folders: Iterable[Path]
) -> Path | None:
    """The local file that a reported path means, for a link: by the settings, as it is, or by its longest suffix."""
    for path in mapped(reported, mappings, folders):
        if isfile(path):
            return path
    parts = path_parts(reported)
    places = list(bases)
    for length in range(len(parts), 0, -1):
        for base in places:
            if isfile(path := base.joinpath(*parts[-length:])):
                return path
    return None
