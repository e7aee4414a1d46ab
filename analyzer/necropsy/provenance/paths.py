r"""A path from another machine to local files: settings, else the longest common path suffix, confirmed by a quote.

A report may name `/home/trainer/projects/vision/train.py` while the file is `C:\src\vision\train.py`. Here files are
only looked up below folders that are given: none is walked, so that a large project costs nothing (`files` walks). Of
several files that fit, the one is meant that holds the quoted line; where none or several do, nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os.path import abspath, expanduser, isfile
from pathlib import Path
from typing import Final

MAX_SOURCE: Final = 4 * 2**20  # bytes; a larger "source" is generated


def path_parts(path: str) -> tuple[str, ...]:
    """The parts of a POSIX or Windows path; empty for a path that climbs (`..`), which names no place."""
    parts = tuple(p for p in path.replace("\\", "/").split("/") if p not in ("", "."))
    return () if ".." in parts else parts


def shared(first: Sequence[str], second: Sequence[str]) -> int:
    """How many trailing names two paths' parts share."""
    count = 0
    for a, b in zip(reversed(first), reversed(second), strict=False):
        if a != b:
            break
        count += 1
    return count


def common_suffix(first: str, second: str) -> int:
    """How many trailing path parts two paths share; 0 when even the file names differ."""
    return shared(path_parts(first), path_parts(second))


def is_meant(reported: str, path: Path, bases: Iterable[Path]) -> bool:
    """Whether `reported` may mean `path`: same file name, and no file below `bases` that shares a longer suffix."""
    common = common_suffix(reported, str(path))
    if common == 0:
        return False
    parts = path_parts(reported)
    longer = [parts[-length:] for length in range(len(parts), common, -1)]
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


def candidates(
    reported: str, mappings: Mapping[str, str], bases: Iterable[Path], folders: Iterable[Path]
) -> list[Path]:
    """The local files that a reported path may mean: by the settings one, else all with its longest suffix.

    They stand in the order of `bases`.
    """
    for path in mapped(reported, mappings, folders):
        if isfile(path):
            return [path]
    parts = path_parts(reported)
    places = list(bases)
    for length in range(len(parts), 0, -1):
        found = [p for base in places if isfile(p := base.joinpath(*parts[-length:]))]
        if found:
            return list({abspath(p): p for p in found}.values())
    return []


def the_one(paths: Sequence[Path], line: int | None, text: str) -> Path | None:
    """Of the files that a path may mean the one that is meant: the only one, or the only one that holds the quote."""
    if len(paths) < 2:
        return paths[0] if paths else None
    held = [p for p in paths if text.strip() and line and holds(p, line, text)]
    return held[0] if len(held) == 1 else None


def holds(path: Path, line: int, text: str) -> bool:
    """Whether a local file's `line` (1-based) is what was quoted of it."""
    lines = lines_of(path)
    return 1 <= line <= len(lines) and quotes(lines[line - 1], text)


def lines_of(path: Path) -> list[str]:
    """The lines of a local source; none of what cannot be read."""
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_SOURCE else b""
    except (OSError, ValueError):
        data = b""
    return data.decode("utf-8", "replace").splitlines()


def quotes(line: str, quoted: str) -> bool:
    """Whether a line is what was quoted as its text: of a statement over several lines, or of a long one, a part."""
    line, text = " ".join(line.split()), " ".join(quoted.split())
    return line == text or (bool(line) and (line in text or text in line or text.startswith(line[:60])))
