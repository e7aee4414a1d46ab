"""Calls collectors when a module they wait for has been imported, without importing it for them.

A finder stands first on `sys.meta_path`, lets the others find the module and wraps its loader for the one call of
`exec_module`; spec and module keep their own loader afterwards.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from _necropsy_capture.process import Process


class _Loader(importlib.abc.Loader):
    """The module's own loader, with a word before and after."""

    def __init__(self, own: Any, finder: _Finder, name: str) -> None:
        self._own = own
        self._finder = finder
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._own.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._own
        module.__loader__ = self._own
        self._finder.tell(self._name, "before")
        self._own.exec_module(module)
        self._finder.tell(self._name, "start")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing by itself."""

    def __init__(self, process: Process, waiting: dict[str, list[str]]) -> None:
        self._process = process
        self._waiting = waiting
        self._searching: set[str] = set()

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname not in self._waiting or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching.discard(fullname)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self, fullname)
        return spec

    def tell(self, module: str, moment: str) -> None:
        """Call `before` or `start` of the collectors that wait for a module; `start` is told once."""
        names = self._waiting.get(module, []) if moment == "before" else self._waiting.pop(module, [])
        for name in names:
            with self._process.guard(name):
                collector = importlib.import_module(f"_necropsy_capture.collectors.{name}")
                function = getattr(collector, moment, None)
                if function is not None:
                    function(self._process)
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)
        if moment == "start":
            self._process.save()


def watch(process: Process, waiting: dict[str, list[str]]) -> None:
    """Wait for modules: name -> collectors to start once it is there."""
    if waiting:
        sys.meta_path.insert(0, _Finder(process, waiting))
