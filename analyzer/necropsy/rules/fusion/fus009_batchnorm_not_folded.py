"""BatchNorm was not folded into the convolution before it

What it means
    For inference a BatchNorm is a multiplication and a sum by channel, which fold into the weights
    of the convolution before it. Here it is a node in training mode, or a layer of its own.

Why it happens
    The model was exported in training mode (`model.train()`, `training=TrainingMode.TRAINING`):
    then each batch is normalized by its own statistics, which is wrong for inference, and TensorRT
    does not take it. As a layer of its own it stands where something is between it and
    the convolution, or where it comes first.

How to confirm
    In the ONNX model `training_mode=1` at BatchNormalization nodes; in the engine a layer of
    type Scale named after the node.

How to fix
    Call `model.eval()` before the export and leave `training=` at its default, with constant
    folding. For a layer that is left, put BatchNorm directly behind the convolution, or fold it
    with `torch.nn.utils.fusion.fuse_conv_bn_eval`.

Limits
    BatchNormalization nodes in inference mode are folded by TensorRT itself and are no finding.
    `FoldBatchNorms` and `kTrainingModeAttr`, which articles quote, exist in no release.

References
    - https://docs.pytorch.org/docs/stable/onnx.html
    - https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from necropsy.evidence.onnx_nodes import OnnxNodeRow, OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import MAX_PLACES, Finding, Fix, Severity
from necropsy.provenance.engine_layers import LayerPlaces
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import about_layers, of_engine, time_of
from necropsy.rules.tensorrt._products import is_product

_EVAL: Final = Fix("Call `model.eval()` before the export, and leave `training=` at its default", "code")
_FOLD: Final = Fix("Put BatchNorm directly behind the convolution, or fold it with `fuse_conv_bn_eval`", "code")


@rule("FUS009", "batchnorm-not-folded", Severity.ERROR, aliases=("FoldBatchNorms", "kTrainingModeAttr"))
def check(trt_layers: TrtLayers | None, onnx_nodes: OnnxNodes | None, sources: Sources) -> Iterator[Finding]:
    """One finding a model in training mode; one an engine with BatchNorm layers."""
    places = (trt_layers or TrtLayers()).places(onnx_nodes, sources)
    training: dict[str, list[OnnxNodeRow]] = defaultdict(list)
    for row in onnx_nodes or ():
        if row.op == "BatchNormalization" and row.attributes.get("training_mode") == 1:
            training[row.model].append(row)
    for rows in training.values():
        yield _trained(rows, places)
    yield from _layers(trt_layers, places)


def _trained(rows: list[OnnxNodeRow], places: LayerPlaces) -> Finding:
    first = rows[0]
    code = tuple(dict.fromkeys(p for r in rows for p in places.of_node(r.name)))[:MAX_PLACES]
    shown = first.module or first.name
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return Finding(
        message=f"The model was exported in training mode: BatchNorm {shown}{more} normalizes each batch by its own "
        f"statistics, so that nothing is folded and results depend on the batch.",
        anchor=first.anchor,
        severity=Severity.ERROR,
        code=code,
        facts={
            "nodes": [f"{r.name}{f' ({r.module})' if r.module else ''}" for r in rows[:8]],
            "in training mode": len(rows),
        },
        fixes=(_EVAL,),
        seq=first.index,
        event=f"training-export@{first.model}",
    )


def _layers(trt_layers: TrtLayers | None, places: LayerPlaces) -> Iterator[Finding]:
    for view in trt_layers.engines if trt_layers is not None else ():
        found = []
        for i, timed in enumerate(view.layers):
            named = any("batchnorm" in n.lower().replace("_", "") for n in timed.layer.nodes)
            alone = timed.layer.type == "Scale" or timed.layer.shape.kind == "Scale"
            if named and alone and any(is_product(view.layers[w].layer) for w in view.writers[i]):
                found.append(i)
        if not found:
            continue
        spent = time_of(view, found)
        first = places.shown(view.layers[found[0]].layer)
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield about_layers(
            view,
            places,
            found,
            f"BatchNorm {first}{more}{of_engine(view)} {'are layers' if more else 'is a layer'} of "
            f"{'their' if more else 'its'} own behind the convolution, another pass over its output"
            f"{': ' + spent if spent else ''}.",
            Severity.WARNING,
            fixes=(_FOLD,),
        )
