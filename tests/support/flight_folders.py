"""Dumps written into folders, and what a report blames: shared by the tests of the flight recorder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.flight import dump, entry, torch_pickle

from necropsy.report import Report


def write(folder: Path, dumps: dict[int, Any], name: str = "nccl_trace_rank_{}") -> str:
    """Dumps as files of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, value in dumps.items():
        (folder / name.format(rank)).write_bytes(value if isinstance(value, bytes) else torch_pickle(value))
    return str(folder)


def blamed(report: Report) -> list[int]:
    """The ranks that root findings of the dumps name."""
    return sorted({r for f in report.roots() if f.rule in ("DST009", "DST025") for r in f.ranks})


def hang(missing: Iterable[int] = (2,), done: int = 4, ranks: int = 4) -> dict[int, Any]:
    """Dumps of ranks that wait in an all_reduce which some did not enter."""
    waits = [entry(done, "all_reduce", done + 1, state="scheduled")]
    before = [entry(i, "all_reduce", i + 1) for i in range(done)]
    groups = {"0": ("default_pg", range(ranks))}
    return {r: dump(before + (waits if r not in set(missing) else []), groups) for r in range(ranks)}
