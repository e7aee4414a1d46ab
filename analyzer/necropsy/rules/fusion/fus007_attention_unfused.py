"""Attention was not fused into one kernel

What it means
    In the engine the softmax of an attention and the two products around it run as separate
    layers. The matrix of scores, which grows with the square of the sequence length, travels
    through memory between them.

Why it happens
    The engine runs in FP32 (fused kernels are for FP16, BF16 and FP8), the pattern was exported
    in a form that is not recognized (extra casts, masks built in the graph, a transpose in
    between), or the head size has no fused kernel.

How to confirm
    A fused attention is one layer, `_gemm_mha_v2..` or `fmha` in its name or kernel. Here
    softmax has a layer of its own between two products.

How to fix
    Build in FP16 or BF16, export `torch.nn.functional.scaled_dot_product_attention` with a
    recent opset, and keep casts and mask arithmetic out of the attention.

Limits
    A note if nothing was measured. Softmax over classes at the end of a network is no
    attention: a product must take what it writes.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy.evidence._trt_engines import EngineView
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import MAX_PLACES, Finding, Fix, Place, Severity
from necropsy.provenance.engine_layers import LayerPlaces
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import about_layers, of_engine, time_of, type_name
from necropsy.rules.tensorrt._products import is_product

_SOFTMAX: Final = re.compile(r"softmax", re.I)
_FUSED: Final = re.compile(r"mha|fmha|attention", re.I)


class Thresholds(Struct, frozen=True):
    """`share` of all layers' time that these layers take, for a warning."""

    share: float = 0.1


@rule("FUS007", "attention-unfused", Severity.WARNING, settings=Thresholds)
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources, t: Thresholds) -> Iterator[Finding]:
    """One finding an engine."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
        blocks = [b for i in range(len(view.layers)) if (b := _block(view, i))]
        if not blocks:
            continue
        found = sorted({i for b in blocks for i in b})
        spent, share = time_of(view, found), view.share(found)
        first = blocks[0][1]
        types = {x.dtype for x in view.layers[blocks[0][0]].layer.inputs if x.dtype}
        full = types == {"fp32"}
        many = f"{len(blocks)} attentions" if len(blocks) > 1 else "An attention"
        run = f"{many}{of_engine(view)} run{'s' if len(blocks) == 1 else ''}"
        yield about_layers(
            view,
            places,
            [first, *(i for i in found if i != first)] if share is None else found,
            f"{run} as separate products and softmax{' in ' + type_name('fp32') if full else ''} "
            f"({_softmax(view, first, places)}{' first' if len(blocks) > 1 else ''}), so that the scores "
            f"travel through memory{': ' + spent if spent else ''}.",
            Severity.WARNING if share is not None and share >= t.share else Severity.NOTE,
            code=_places(view, [b[1] for b in blocks], places),
            fixes=(
                *(
                    (Fix("Build in FP16 or BF16: fused attention kernels do not exist in FP32", "config"),)
                    if full
                    else ()
                ),
                Fix("Export `scaled_dot_product_attention` with a recent opset, without casts in between", "code"),
            ),
        )


def _places(view: EngineView, softmaxes: list[int], places: LayerPlaces) -> tuple[Place, ...]:
    """Where the softmaxes stand, each line once."""
    names = [n for i in softmaxes for n in view.layers[i].layer.nodes if _SOFTMAX.search(n)]
    return tuple(dict.fromkeys(p for n in names for p in places.of_node(n)))[:MAX_PLACES]


def _softmax(view: EngineView, index: int, places: LayerPlaces) -> str:
    """The softmax by its node's name, where the layer holds others besides."""
    layer = view.layers[index].layer
    return next((n for n in layer.nodes if _SOFTMAX.search(n)), "") or places.shown(layer)


def _block(view: EngineView, index: int) -> list[int]:
    """Product, softmax and product around a softmax layer that holds no product itself; [] elsewhere."""
    layer = view.layers[index].layer
    named = any(_SOFTMAX.search(n) for n in layer.nodes) or _SOFTMAX.search(layer.type)
    if not named or is_product(layer) or _FUSED.search(f"{layer.name} {layer.tactic}") or layer.moves:
        return []
    before = [w for w in _through(view, index, view.writers) if is_product(view.layers[w].layer)]
    after = [r for r in _through(view, index, view.readers) if is_product(view.layers[r].layer)]
    return [before[0], index, after[0]] if before and after else []


def _through(view: EngineView, index: int, edges: list[list[int]]) -> list[int]:
    """Neighbours of a layer, past layers that only move, pad or copy."""
    found, queue, seen = [], list(edges[index]), {index}
    while queue and len(seen) < 64:
        at = queue.pop(0)
        if at in seen:
            continue
        seen.add(at)
        found.append(at)
        layer = view.layers[at].layer
        if layer.moves or re.match(r"__myl_(?:Move|Resh|Tran|Repl|Conc|Cast|Slic)+_", layer.name):
            queue += edges[at]
    return found
