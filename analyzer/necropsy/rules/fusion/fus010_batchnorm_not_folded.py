"""BatchNorm was not folded into the convolution before it

What it means
    For inference a BatchNorm is a multiplication and a sum by channel, which fold into the weights
    of the convolution before it. In this engine it is a layer of its own: another pass over the
    convolution's output.

Why it happens
    Something stands between the two (a reshape, a Q/DQ pair, a second reader of the convolution's
    output), or the weights are computed in the graph, so that there is nothing to fold into.

How to confirm
    In the engine's JSON a layer of type Scale named after the BatchNormalization node.

How to fix
    Put BatchNorm directly behind the convolution, or fold it before the export with
    `torch.nn.utils.fusion.fuse_conv_bn_eval`.

Limits
    Costs need a profile. `FoldBatchNorms` and `kTrainingModeAttr`, which articles quote, exist in no
    release; an export in training mode is told by FUS011.

References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_conv_bn_eval.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import about_layers, of_engine, time_of
from necropsy.rules.tensorrt._products import is_product


@rule("FUS010", "batchnorm-not-folded", Severity.WARNING, aliases=("FoldBatchNorms", "kTrainingModeAttr"))
def check(trt_layers: TrtLayers, onnx_nodes: OnnxNodes | None, sources: Sources) -> Iterator[Finding]:
    """One finding an engine with BatchNorm layers."""
    places = trt_layers.places(onnx_nodes, sources)
    for view in trt_layers.engines:
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
            fixes=(Fix("Put BatchNorm directly behind the convolution, or fold it with `fuse_conv_bn_eval`", "code"),),
        )
