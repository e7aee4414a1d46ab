"""Report -> a roofline plot: a picture a GPU, below each other, in the format that the file's name asks for.

Colours are those of Okabe and Ito, which people with colour blindness tell apart; kinds of arithmetic also differ by
the shape of their marks and the dashes of their roofs, so that a print in grey tells them too. Dots are numbered, and
named beside the plot, since names of kernels are longer than what fits between dots.
"""

from __future__ import annotations

import math
import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from necropsy.render.parts.kernels import fitted
from necropsy.render.parts.rooflines import KINDS, MOST, Dot, Panel, Roof, alike, amount, panels, unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from necropsy.report import KernelSummary

WIDE, HIGH, DPI = 12.0, 6.4, 130  # inches of a panel, dots an inch
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKS: Final = ("o", "s", "^", "D", "v", "P")
_DASHES: Final[tuple[Any, ...]] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1)))
_AREA: Final = (50.0, 1100.0)  # of the smallest dot, and of all the time, in square points
_NAME: Final = 50  # letters of a kernel's name
_LINE: Final = 66  # letters of a line beside the plot
_RIGHT: Final = 0.66  # where that begins, of the whole width
_ASIDE: Final = 22.0  # points from a dot from which a line leads to its number
_LARGE: Final = 300.0  # area from which a dot has room for its number
_APART: Final = tuple(
    (x, y) for far in (1.0, 1.7, 2.5) for x, y in (
        (11 * far, 9 * far), (-11 * far, 9 * far), (11 * far, -10 * far), (-11 * far, -10 * far),
        (15 * far, 0.0), (-15 * far, 0.0), (0.0, 13 * far), (0.0, -14 * far),
    )
)  # fmt: skip


def draw(kernels: Sequence[KernelSummary], file: Path) -> None:
    """Write the plot. Raises ImportError without matplotlib, OSError or ValueError where it cannot be written so."""
    from matplotlib.figure import Figure

    shown = panels(kernels)
    figure = Figure(figsize=(WIDE, HIGH * len(shown)), dpi=DPI, layout=None)
    for number, panel in enumerate(shown):
        _draw(figure, panel, len(shown), number)
    figure.savefig(os.fspath(file), format=file.suffix.lower().removeprefix(".") or "png")


def _draw(figure: Figure, panel: Panel, count: int, number: int) -> None:
    bottom = 1 - (number + 1) / count
    axes = figure.add_axes((0.085, bottom + 0.11 / count, 0.555, 0.79 / count))
    looks = {kind: i % len(_COLOURS) for i, kind in enumerate((*KINDS, *_unknown(panel)))}
    x, y = _limits(panel)
    axes.set(xscale="log", yscale="log", xlim=x, ylim=y)
    axes.set_xlabel("Arithmetic intensity (operations a byte of device memory)")
    axes.set_ylabel("Operations a second")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: amount(value, ""))
    axes.set_title(f"Roofline of {panel.title}", loc="left", fontsize=11)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    _roofs(axes, panel, looks, x)
    for dot in reversed(panel.dots):
        axes.scatter(
            [dot.intensity], [dot.flops], s=_area(dot), marker=_MARKS[looks[dot.kind]],
            color=_COLOURS[looks[dot.kind]], alpha=0.75, edgecolors="black", linewidths=0.6, zorder=3,
        )  # fmt: skip
    for kind in dict.fromkeys(dot.kind for dot in panel.dots):
        look, word = looks[kind], KINDS.get(kind, kind)
        axes.scatter([], [], marker=_MARKS[look], color=_COLOURS[look], edgecolors="black", linewidths=0.6, label=word)
    axes.legend(loc="lower right", fontsize=8, title="Arithmetic", title_fontsize=8)
    _numbers(axes, panel.dots[:MOST])
    _key(figure, panel, looks, bottom, count)


def _unknown(panel: Panel) -> list[str]:
    return sorted({dot.kind for dot in panel.dots} - KINDS.keys())


def _limits(panel: Panel) -> tuple[tuple[float, float], tuple[float, float]]:
    """Room for the dots, and for the ridges that their roofs have."""
    at = [dot.intensity for dot in panel.dots]
    if panel.memory is not None:
        at += [roof.most / panel.memory.most for roof in panel.compute]
    heights = [dot.flops for dot in panel.dots] + [roof.most for roof in panel.compute]
    return (min(at) / 4, max(at) * 6), (min(heights) / 4, max(heights) * 3)


def _roofs(axes: Axes, panel: Panel, looks: dict[str, int], x: tuple[float, float]) -> None:
    most = max((roof.most for roof in panel.compute), default=None)
    if panel.memory is not None:
        end = min(x[1], most / panel.memory.most) if most else x[1]
        axes.plot((x[0], end), (x[0] * panel.memory.most, end * panel.memory.most), color="black", linewidth=1.6)
        _along(axes, panel.memory, (x[0], end))
    for roof in panel.compute:
        start = max(x[0], roof.most / panel.memory.most) if panel.memory is not None else x[0]
        look = looks[roof.kind]
        axes.plot((start, x[1]), (roof.most, roof.most), color=_COLOURS[look], linestyle=_DASHES[look], linewidth=1.8)
    for together in alike(panel.compute):
        axes.annotate(
            ", ".join(roof.label for roof in together),
            (x[1], together[0].most), xytext=(-4, 4), textcoords="offset points", ha="right", va="bottom", fontsize=8.5,
        )  # fmt: skip


def _along(axes: Axes, roof: Roof, x: tuple[float, float]) -> None:
    """The name of a slanting roof, above its lower part, where it lies within the picture."""
    low = max(x[0], axes.get_ylim()[0] / roof.most)
    at = low * (x[1] / low) ** 0.12 if x[1] > low else low
    (left, down), (right, up) = (axes.transData.transform((i, i * roof.most)) for i in (at, at * 10))
    axes.annotate(
        roof.label, (at, at * roof.most), xytext=(-3, 4), textcoords="offset points", ha="left", va="bottom",
        rotation=math.degrees(math.atan2(up - down, right - left)), rotation_mode="anchor", fontsize=8.5,
    )  # fmt: skip


def _area(dot: Dot) -> float:
    return _AREA[0] + (_AREA[1] - _AREA[0]) * (dot.share or 0.0)


def _numbers(axes: Axes, dots: Sequence[Dot]) -> None:
    """The number of each dot: on it if it is large, else beside it where nothing else stands."""
    scale = DPI / 72
    centres = [tuple(axes.transData.transform((dot.intensity, dot.flops))) for dot in dots]
    taken: list[tuple[float, float]] = []
    for number, (dot, here) in enumerate(zip(dots, centres, strict=True), 1):
        others = [c for c in centres if c != here] + taken
        apart = [(0.0, 0.0), *_APART] if _area(dot) >= _LARGE else [*_APART]
        spots = [(x, y) for x, y in apart if all(_clear((here[0] + x * scale, here[1] + y * scale), o) for o in others)]
        x, y = spots[0] if spots else apart[0]
        taken.append((here[0] + x * scale, here[1] + y * scale))
        axes.annotate(
            str(number), (dot.intensity, dot.flops), xytext=(x, y), textcoords="offset points", ha="center",
            va="center", fontsize=8, fontweight="bold", zorder=4,
            bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.7},
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": "#555555", "shrinkA": 0, "shrinkB": 0}
            if abs(x) + abs(y) > _ASIDE else None,
        )  # fmt: skip


def _clear(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return abs(a[0] - b[0]) > 13 * DPI / 72 or abs(a[1] - b[1]) > 11 * DPI / 72


def _key(figure: Figure, panel: Panel, looks: dict[str, int], bottom: float, count: int) -> None:
    """Names of the numbered dots with their time and what they reached; then what is not shown."""
    lines = [
        f"{number:>2}  {fitted(dot.name, _NAME, '…')}\n     {_share(dot)}{amount(dot.flops, unit(dot.kind))} "
        f"{KINDS.get(dot.kind, dot.kind)}{_reached(dot)}"
        for number, dot in enumerate(panel.dots[:MOST], 1)
    ]
    if len(panel.dots) > MOST:
        lines.append(f"     and {len(panel.dots) - MOST} more dots without a number")
    if panel.note:
        lines += ["", *textwrap.wrap(panel.note, _LINE)]
    figure.text(_RIGHT, bottom + 0.915 / count, "Area: part of the profiled time", fontsize=8, style="italic")
    figure.text(_RIGHT, bottom + 0.895 / count, "\n".join(lines), fontsize=8, va="top", linespacing=1.35)


def _share(dot: Dot) -> str:
    return f"{dot.share:.{1 if dot.share < 0.995 else 0}%} of the time, " if dot.share is not None else ""


def _reached(dot: Dot) -> str:
    if dot.reached is None:
        return ""
    return f", {dot.reached:.0%} of the roof" if dot.reached >= 0.005 else ", <1% of the roof"
