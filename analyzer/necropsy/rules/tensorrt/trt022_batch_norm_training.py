"""BatchNorm was exported in training mode: not folded, and refused

What it means
    A BatchNormalization node has `training_mode = 1`: it would compute the statistics of each batch
    instead of using the running ones. TensorRT refuses it, and nothing could fold it into the
    convolution before it.

Why it happens
    The model was exported while `model.training` was true (no `model.eval()`, or a `train()` in
    `forward` or in the exporter's wrapper), with `training=TrainingMode.TRAINING`, or with
    `do_constant_folding=False`. In evaluation mode torch's exporter folds a BatchNorm into the convolution before it.

How to confirm
    The dump of the node shows `training_mode` 1 and three outputs (the running statistics). With
    the model at hand, `model.training` is true where it is exported.

How to fix
    Call `model.eval()` before the export and leave `training` at its default; for models whose
    parts switch themselves to training, override `train()` there.

Limits
    Reads what the parser says. That a BatchNorm in evaluation mode stays a layer of its own (its
    input is no convolution, or the convolution's output is used twice) is not this.

References
    - https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
    - https://docs.pytorch.org/docs/stable/onnx.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.tensorrt_log.records import TrtMessage

from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import failure, of_build, places_of, short

_EVAL: Final = Fix(
    "Export the model in evaluation mode", "code", command="model.eval(); torch.onnx.export(model, args, 'model.onnx')"
)
_DEFAULT: Final = Fix("Leave `training=` and `do_constant_folding=` of torch.onnx.export at their defaults", "code")


def is_training(row: TrtMessage) -> bool:
    """Whether a message of the parser is about BatchNorm (or Dropout) in training mode."""
    said = f"{row.words.get('assertion', '')} {row.text[:400]}"
    node = row.node
    if node is not None and node.attributes.get("training_mode") == "1":
        return True
    return "training_mode" in said or "isTraining" in said


@rule("TRT022", "batch-norm-training", Severity.FATAL)
def check(
    messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions, nodes: OnnxNodes | None, sources: Sources
) -> Iterator[Finding]:
    """One finding a build."""
    told: set[tuple[str, int]] = set()
    for row in messages.of("node-failed", "node-error"):
        where = (row.anchor.input, row.build)
        if where in told or not is_training(row):
            continue
        told.add(where)
        node = row.node
        op = (node.op if node is not None else row.words.get("op", "")) or "BatchNormalization"
        name = (node.name or node.output) if node is not None else row.words.get("name", "")
        facts: dict[str, Fact] = {"operator": op, "node": name, "attribute": "training_mode = 1"}
        folded = ", so that it is not folded into the convolution before it" if op.startswith("Batch") else ""
        label = "BatchNorm" if op.startswith("Batch") else op
        yield failure(
            row,
            f"{label} {short(name)} was exported in training mode (training_mode = 1){folded}, and "
            f"{of_build(builds.of(row))} refuses the model.".replace("  ", " "),
            builds,
            exceptions,
            code=places_of([name], row, nodes, sources),
            facts={k: v for k, v in facts.items() if v},
            fixes=(_EVAL, _DEFAULT),
            subject=name,
        )
