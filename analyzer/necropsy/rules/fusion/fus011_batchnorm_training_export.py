"""An ONNX model was exported with BatchNorm in training mode

What it means
    For inference a BatchNorm is a multiplication and a sum by channel, which fold into the weights
    of the convolution before it. Here it normalizes each batch by the batch's own statistics:
    nothing is folded, results depend on what else is in the batch, and TensorRT refuses it.

Why it happens
    The model was exported in training mode: `model.train()`, or
    `training=TrainingMode.TRAINING` in `torch.onnx.export`, often together with
    `do_constant_folding=False`.

How to confirm
    `training_mode=1` at BatchNormalization nodes; they have three outputs.

How to fix
    Call `model.eval()` before the export, and leave `training=` and constant folding at their
    defaults.

Limits
    BatchNormalization nodes in inference mode are folded by TensorRT itself and are no finding.

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

_EVAL: Final = Fix("Call `model.eval()` before the export, and leave `training=` at its default", "code")


@rule("FUS011", "batchnorm-training-export", Severity.ERROR)
def check(onnx_nodes: OnnxNodes, sources: Sources) -> Iterator[Finding]:
    """One finding a model in training mode."""
    places = TrtLayers().places(onnx_nodes, sources)
    training: dict[str, list[OnnxNodeRow]] = defaultdict(list)
    for row in onnx_nodes:
        if row.op == "BatchNormalization" and row.attributes.get("training_mode") == 1:
            training[row.model].append(row)
    for rows in training.values():
        yield _trained(rows, places)


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
