"""Base of editor features: one feature is one file in `features/`, found by walking it.

The protocol allows one handler per notification, so `server` receives the document
events and hands them to each feature's hooks. Requests that only one feature answers
are registered by that feature itself, with `server.feature(...)` in `__init__`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from pygls.workspace import TextDocument

import necropsy_lsp.features

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer


class Feature:
    """Hooks that do nothing; documents are those the client has open."""

    def __init__(self, server: NecropsyServer) -> None:
        self.server = server

    def initialized(self) -> None:
        """The client said what it can do: the last moment to register requests."""

    def started(self) -> None:
        """The client is ready for requests."""

    def configured(self) -> None:
        """Settings or workspace folders changed."""

    def files_changed(self, paths: Collection[Path]) -> None:
        """Files that `watch` looks after were written, made or removed: reports, inputs, `pyproject.toml`."""

    def stopping(self) -> None:
        """The client is about to leave."""

    def opened(self, document: TextDocument) -> None:
        """The client opened a document."""

    def changed(self, document: TextDocument) -> None:
        """The client edited a document."""

    def saved(self, document: TextDocument) -> None:
        """The client saved a document."""

    def closed(self, document: TextDocument) -> None:
        """The client closed a document."""


def all_features() -> list[type[Feature]]:
    """Every feature class in `necropsy_lsp.features`, in the order of the module names."""
    found: list[type[Feature]] = []
    for info in pkgutil.iter_modules(necropsy_lsp.features.__path__, "necropsy_lsp.features."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, type) and issubclass(value, Feature) and value.__module__ == info.name:
                found.append(value)
    return found
