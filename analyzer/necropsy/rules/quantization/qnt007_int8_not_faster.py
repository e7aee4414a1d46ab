"""INT8 is hardly faster than FP16

What it means
    Two engines of one network were timed, one quantized and one in half precision. The
    quantized one is not faster, or by much less than it should be: convolutions in INT8 have
    twice the rate of FP16 and half the traffic.

Why it happens
    Time went into converting between the types, into layers that stayed in floating point, into
    channels that do not fit INT8 kernels, or the network is too small: launches, not
    arithmetic, take the time.

How to confirm
    The layers that convert or stayed in floating point, with their times, are in the facts.

How to fix
    Close the gaps (QNT001, QNT002), pad channels (QNT003), quantize the products that were left
    out. Where launches dominate, raise the batch or use a CUDA graph first.

Limits
    Needs both engines with times. Engines are taken for one network if their convolutions and
    products have the same sizes. The bound of 1.1 is for no gain at all; an article's figure for
    static INT8 on Conv-BN-ReLU is 1.39 (2568 against 1842 images a second).

References
    - https://github.com/NVIDIA/TensorRT/issues/993
    - https://github.com/NVIDIA/TensorRT/issues/2158
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence._trt_engines import EngineView
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Cost, Fact, Finding, Fix, Severity
from necropsy.provenance.engine_layers import LayerPlaces
from necropsy.rule import rule
from necropsy.rules.quantization._gaps import conversions, gaps
from necropsy.rules.tensorrt._claims import FLOATS, about_layers, by_time, described, milliseconds, percent
from necropsy.rules.tensorrt._pairs import quantized, same_work
from necropsy.rules.tensorrt._products import is_product


class Thresholds(Struct, frozen=True):
    """`gain`: how many times faster INT8 is at least, else a warning; `expected`: below it a note."""

    gain: float = 1.1
    expected: float = 1.3


@rule("QNT007", "int8-not-faster", Severity.WARNING, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One finding a quantized engine and its half-precision twin."""
    places = trt_layers.places(onnx_nodes, sources)
    timed = [v for v in trt_layers.engines if v.total_ms and v.typed]
    low, half = [v for v in timed if quantized(v)], [v for v in timed if not quantized(v)]
    for view in low:
        twin = next((h for h in half if same_work(view, h)), None)
        if twin is None:
            continue
        own, other = _time(view, twin)
        if other < t.expected * own:
            yield _finding(view, twin, own, other, places, t)


def _time(view: EngineView, twin: EngineView) -> tuple[float, float]:
    """Times of a run, from both summaries if both have one, else sums of layers."""
    if view.compute_ms and twin.compute_ms:
        return view.compute_ms, twin.compute_ms
    return view.total_ms or 0.0, twin.total_ms or 0.0


def _finding(
    view: EngineView, twin: EngineView, own: float, other: float, places: LayerPlaces, t: Thresholds
) -> Finding:
    converts = sorted({*conversions(view), *(i for g in gaps(view) for i in g.converts)})
    floats = [
        i
        for i, x in enumerate(view.layers)
        if is_product(x.layer) and x.layer.inputs and x.layer.inputs[0].dtype in FLOATS
    ]
    reasons = []
    if share := view.share(converts):
        reasons.append(f"converting between types takes {percent(share)} of its layers' time")
    if share := view.share(floats):
        many = f"{len(floats)} product{'s' if len(floats) > 1 else ''}"
        reasons.append(f"{many} in floating point take{'s' if len(floats) == 1 else ''} {percent(share)}")
    gain = other / own
    how = f"{gain:.2f} times as fast as" if gain >= 1 else f"{1 / gain:.2f} times slower than"
    facts: dict[str, Fact] = {
        "quantized": f"{view.label}: {milliseconds(own)}",
        "half precision": f"{twin.label}: {milliseconds(other)}",
        "converting": [described(view, places, i) for i in by_time(view, converts)[:4]],
        "in floating point": [described(view, places, i) for i in by_time(view, floats)[:4]],
    }
    return about_layers(
        view,
        places,
        [*converts, *floats] or [by_time(view, range(len(view.layers)))[0]],
        f"{view.label} is quantized and only {how} {twin.label} ({milliseconds(own)} against {milliseconds(other)} a "
        f"run){': ' + ' and '.join(reasons) if reasons else '; no layer tells why'}.",
        Severity.WARNING if gain < t.gain else Severity.NOTE,
        facts={k: v for k, v in facts.items() if v},
        cost=Cost(),  # its parts are costs of QNT001 and QNT002
        fixes=(
            Fix("Close the gaps in quantization first (QNT001, QNT002), then pad channels (QNT003)", "code"),
            Fix("If launches dominate, raise the batch size or use a CUDA graph before quantizing", "config"),
        ),
    )
