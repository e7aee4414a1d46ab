"""A `Report` as text: one renderer per file of this folder, found by walking it.

A renderer is a module with `NAME` (what `--format` calls it) and `render`. It is pure:
report and view in, text out. Renderers import their libraries inside `render`, so that
asking for one never pays for another.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Final, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from necropsy.finding import Place
from necropsy.report import Excerpt, Report

CONTEXT: Final = (2, 1)  # source lines shown before and after a place


def no_excerpt(_: Place, before: int, after: int) -> list[tuple[int, str]]:
    """The excerpt of a place whose source is not at hand: nothing."""
    return []


def _silent(place: Place) -> str:
    return ""


class View(Struct, frozen=True):
    """For whom a report is rendered.

    `width` is in terminal cells. `ascii` restricts the output to ASCII. `base` is the
    folder to which paths are shown relative ("" = none). `excerpt` gives numbered source
    lines around a place, or nothing where the source is not at hand; `locate` gives the
    local file that stands for a file of the log, or that file itself; `standing` says in
    words where the local source has changed since the run, or is one of several that fit.
    """

    width: int = 80
    colour: bool = False
    ascii: bool = False
    base: str = ""
    excerpt: Excerpt = no_excerpt
    locate: Callable[[str], str] = str
    standing: Callable[[Place], str] = _silent

    def local(self, place: Place) -> Place:
        """The place on this machine, so that it can be clicked on."""
        return replace(place, file=self.locate(place.file))


class Renderer(Protocol):
    """What a renderer module offers."""

    NAME: str

    def render(self, report: Report, view: View) -> str:
        """The report as text, ending in a newline."""
        ...


@cache
def renderers() -> dict[str, Renderer]:
    """Format name -> renderer, sorted by name."""
    found: dict[str, Renderer] = {}
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        if not info.ispkg:
            module = cast(Renderer, importlib.import_module(info.name))
            found[module.NAME] = module
    return dict(sorted(found.items()))
