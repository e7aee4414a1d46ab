"""Necropsy: says what happened to a GPU run, on which line of the user's Python.

`analyze(paths)` gives a `Report`; `load(paths)` gives the evidence tables behind it.
Both are imported on first use, so that `import necropsy` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from necropsy.api import analyze, load
    from necropsy.finding import Finding, Severity
    from necropsy.report import Report

__all__ = ["Finding", "Report", "Severity", "__version__", "analyze", "load"]

_HOMES = {
    "analyze": "necropsy.api",
    "load": "necropsy.api",
    "Finding": "necropsy.finding",
    "Severity": "necropsy.finding",
    "Report": "necropsy.report",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'necropsy' has no attribute {name!r}")
