"""Plots that commands write: what can go wrong with them is one line."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from necropsy.commands._terminal import complain

if TYPE_CHECKING:
    from necropsy.report import Report


def draw_roofline(report: Report, file: Path) -> bool:
    """Write the roofline plot of a report; False, and a line on stderr, where that fails."""
    from necropsy.render.parts.rooflines import missing, panels

    if not panels(report.kernels):
        complain(missing(report.kernels))
        return False
    if find_spec("matplotlib") is None:
        complain("--roofline needs matplotlib: pip install 'necropsy[plot]'.")
        return False
    from necropsy.render.plots.roofline import draw

    try:
        draw(report.kernels, file)
    except OSError as error:
        complain(f"cannot write {file}: {error.strerror or error}.")
    except ValueError as error:  # of a format that matplotlib does not know
        complain(f"cannot write {file}: {error}.")
    else:
        print(f"Roofline plot written to {file}", file=sys.stderr)
        return True
    return False
