"""Report -> `.necropsy/<inputs>-<hash>.json` of the project, where editors look for it.

The name depends on the inputs alone: analyzing the same inputs again replaces the
report, so that stale findings do not stay on screen. Nothing there belongs into
version control; the folder ignores itself.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from necropsy.render.json import dumps
from necropsy.report import Report

FOLDER: Final = ".necropsy"
_MARKS: Final = ("pyproject.toml", ".git", "setup.py")
_STEM: Final = 40  # characters of the inputs' name


def project_folder(start: Path | None = None) -> Path:
    """The nearest folder upwards that looks like a project, else the start itself."""
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if any((folder / mark).exists() for mark in _MARKS):
            return folder
    return here


def report_name(inputs: Sequence[str]) -> str:
    """The file name for these inputs, whatever their order: `run.log-3f2a9c1b.json`."""
    places = sorted(i if i == "-" or "://" in i else os.path.abspath(i) for i in inputs)
    digest = hashlib.sha256("\0".join(places).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    last = os.path.basename(places[0].rstrip("/\\")) if places and places[0] != "-" else "stdin"
    stem = re.sub(r"[^\w.-]", "_", last, flags=re.ASCII).strip(".")[:_STEM] or "report"
    return f"{stem}-{digest}.json"


def save(report: Report, inputs: Sequence[str], project: Path) -> Path:
    """Store a report and return its path. Raises `OSError` where that is not possible.

    Inputs are named from the project on, wherever the command was started. The file
    appears whole or not at all, since an editor may be watching the folder.
    """
    folder = project / FOLDER
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    path = folder / report_name(inputs)
    temporary = folder / f"{path.name}.{os.getpid()}.tmp"
    try:
        temporary.write_text(dumps(_rebased(report.to_json(), str(project))), encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return path


def _rebased(value: Any, project: str) -> Any:
    """JSON data with the inputs' names relative to `project`, or absolute outside of it."""
    if isinstance(value, list):
        return [_rebased(item, project) for item in value]
    if not isinstance(value, dict):
        return value
    rebased = {
        key: _input(item, project) if key in ("input", "path") and isinstance(item, str) else _rebased(item, project)
        for key, item in value.items()
    }
    return rebased | {key: value[key] for key in ("facts",) if key in value}  # a fact may bear any name


def _input(name: str, project: str) -> str:
    if name == "-" or "://" in name:
        return name
    outer, mark, member = name.partition("!")  # `run.tar!rank0.log`
    whole = os.path.abspath(outer)
    inside = (
        os.path.relpath(whole, project) if os.path.splitdrive(whole)[0] == os.path.splitdrive(project)[0] else whole
    )
    return (whole if inside.split(os.sep)[0] == os.pardir else inside.replace(os.sep, "/")) + mark + member
