"""An engine tells the names of its layers only

What it means
    The engine was built without detailed profiling verbosity: its JSON lists names, but no types,
    formats or kernels. Checks of precision, alignment, reformats and Tensor Cores were not
    possible.

Why it happens
    `kLAYER_NAMES_ONLY` is the default of the builder, and what Torch-TensorRT uses without
    `debug`.

How to confirm
    Entries of `Layers` are texts, not objects.

How to fix
    Build again with `trtexec --profilingVerbosity=detailed`,
    `config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED`, or in Torch-TensorRT inside
    `torch_tensorrt.logging.debug()`, and export the layers of that engine.

Limits
    A note: nothing is wrong with the engine.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/advanced.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Cost, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._claims import of_engine


@rule("TRT037", "layer-names-only", Severity.NOTE)
def check(trt_layers: TrtLayers) -> Iterator[Finding]:
    """One note an engine without types; none where only a profile is there."""
    for view in trt_layers.engines:
        if view.typed or view.engine is None:
            continue
        first = view.layers[0].layer
        yield Finding(
            message=f"Only names of the {len(view.layers)} layers{of_engine(view)} are told: precision, formats and "
            f"kernels could not be checked.",
            anchor=first.anchor,
            severity=Severity.NOTE,
            cost=Cost(),
            fixes=(
                Fix(
                    "Build with detailed profiling verbosity and export the layers again",
                    "flag",
                    command="trtexec --profilingVerbosity=detailed --exportLayerInfo=layers.json",
                ),
            ),
            seq=first.seq,
            event=f"layers@{view.key}",
            subject=view.label,
        )
