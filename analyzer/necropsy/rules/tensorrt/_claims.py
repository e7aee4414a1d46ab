"""Findings about engines, said the same way by all rules: cost from measured times, names with modules, lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from necropsy.evidence._trt_engines import EngineView
from necropsy.finding import Cost, Fact, Finding, Severity
from necropsy.provenance.engine_layers import LayerPlaces

LISTED: Final = 6
_TYPES: Final = {
    "fp32": "FP32",
    "fp16": "FP16",
    "bf16": "BF16",
    "int8": "INT8",
    "fp8": "FP8",
    "int4": "INT4",
    "fp4": "FP4",
}
FLOATS: Final = frozenset({"fp32", "fp16", "bf16"})
QUANTIZED: Final = frozenset({"int8", "fp8", "int4", "fp4"})


def about_layers(
    view: EngineView,
    places: LayerPlaces,
    indices: Sequence[int],
    message: str,
    severity: Severity,
    *,
    charged: Iterable[int] | None = None,
    facts: dict[str, Fact] | None = None,
    **changes: Any,
) -> Finding:
    """A finding about layers of one engine, most expensive first; `charged` are those whose time is its cost."""
    ordered = by_time(view, indices)
    first = view.layers[ordered[0]].layer
    base: dict[str, Any] = {
        "message": message,
        "anchor": first.anchor,
        "severity": severity,
        "code": places.all_of(view.layers[i].layer for i in ordered[:LISTED]),
        "facts": {
            **(facts or {}),
            "layers": listed(view, places, ordered),
            **({"engine": view.label} if view.label else {}),
        },
        "cost": cost(view, indices if charged is None else charged),
        "seq": first.seq,
        "subject": view.label + "".join(first.nodes[:1]),
    }
    return Finding(**{**base, **changes})


def by_time(view: EngineView, indices: Iterable[int]) -> list[int]:
    """Layers, the most expensive first; in their order where nothing was measured."""
    return sorted(set(indices), key=lambda i: (-(view.layers[i].ms or 0.0), i))


def cost(view: EngineView, indices: Iterable[int]) -> Cost:
    """Measured time of the layers, unknown where the engine was not profiled."""
    chosen = list(indices)
    spent = view.ms(chosen)
    if spent is None:
        return Cost()
    return Cost(round(spent * 1e6), view.share(chosen), "measured")


def listed(view: EngineView, places: LayerPlaces, indices: Sequence[int], limit: int = LISTED) -> list[str]:
    """Layers with their types and times, as a fact."""
    rows = [described(view, places, i) for i in indices[:limit]]
    return [*rows, f"and {len(indices) - limit} more"] if len(indices) > limit else rows


def described(view: EngineView, places: LayerPlaces, index: int) -> str:
    """`Conv_9 (conv1): int8 -> fp32, 0.073 ms`."""
    timed = view.layers[index]
    types = " -> ".join(t for t in (types_of(timed.layer.inputs), types_of(timed.layer.outputs)) if t)
    parts = [types] if types else []
    if timed.ms is not None:
        parts.append(milliseconds(timed.ms))
    return f"{places.shown(timed.layer)}: {', '.join(parts)}" if parts else places.shown(timed.layer)


def types_of(tensors: Iterable[Any]) -> str:
    """Types as people write them: `INT8+FP16`."""
    return "+".join(dict.fromkeys(type_name(t.dtype) for t in tensors if t.dtype))


def type_name(dtype: str) -> str:
    """`FP16` of fp16."""
    return _TYPES.get(dtype, dtype.upper())


def milliseconds(ms: float) -> str:
    """A time of a layer: `0.073 ms`, `1.2 ms`, `12 µs` below a hundredth."""
    if ms >= 100:
        return f"{ms:.0f} ms"
    if ms >= 1:
        return f"{ms:.2f} ms"
    return f"{ms:.3f} ms" if ms >= 0.0095 else f"{1_000 * ms:.1f} µs"


def percent(share: float) -> str:
    """A share: whole percent, one digit below ten."""
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{100 * share:.1f}%"


def time_of(view: EngineView, indices: Iterable[int]) -> str:
    """`0.081 ms a run, 8.0% of the layers' time`; "" where nothing was measured."""
    chosen = list(indices)
    spent, share = view.ms(chosen), view.share(chosen)
    if spent is None or share is None:
        return ""
    return f"{milliseconds(spent)} a run, {percent(share)} of all layers' time"


def of_engine(view: EngineView) -> str:
    """` of A100-fp16` where several engines are told apart, "" of the only one."""
    return f" of {view.label}" if view.label else ""


def counted(number: int, what: str, plural: str = "") -> str:
    """`1 layer`, `3 layers`."""
    return f"{number} {what if number == 1 else plural or what + 's'}"
