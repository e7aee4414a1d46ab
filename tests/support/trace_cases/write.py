"""Finds the families' cases and writes them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

import tests.support.trace_cases as families
from tests.support.tracing import TraceBuilder

ROOT = Path(__file__).resolve().parents[3] / "fixtures" / "rules"


def all_cases() -> dict[str, Callable[[], TraceBuilder | dict[str, TraceBuilder]]]:
    """Case -> the function that makes its trace, or its traces by file name."""
    found: dict[str, Callable[[], TraceBuilder | dict[str, TraceBuilder]]] = {}
    for info in pkgutil.iter_modules(families.__path__, families.__name__ + "."):
        module = importlib.import_module(info.name)
        found.update(getattr(module, "CASES", {}))
    return found


def files_of(case: str, made: TraceBuilder | dict[str, TraceBuilder]) -> dict[Path, TraceBuilder]:
    """File -> trace of a case."""
    if isinstance(made, TraceBuilder):
        return {ROOT / case / "input.json": made}
    return {ROOT / case / name: trace for name, trace in made.items()}


def write_all() -> None:
    """Write every fixture."""
    for case, make in all_cases().items():
        for path, trace in files_of(case, make()).items():
            trace.write(path)
