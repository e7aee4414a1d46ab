"""Products whose channels are no multiple of what Tensor Cores load at once."""

from __future__ import annotations

from necropsy_parsers.tensorrt.records import EngineLayer

from necropsy.evidence._trt_engines import EngineView
from necropsy.rules.tensorrt._claims import QUANTIZED
from necropsy.rules.tensorrt._products import channels, depthwise, is_product

MULTIPLE = {"int8": 16, "fp8": 16, "int4": 32, "fp4": 32, "fp16": 8, "bf16": 8}


def misaligned(view: EngineView, waste: float, *, quantized: bool) -> list[tuple[int, int, int]]:
    """(layer, odd size, multiple) of products in half or in quantized precision.

    Up to 4 input channels pass (images, for which there are kernels), and sizes of which padding is a small part.
    """
    found = []
    for index, timed in enumerate(view.layers):
        layer = timed.layer
        dtype = layer.inputs[0].dtype if layer.inputs else ""
        multiple = MULTIPLE.get(dtype, 0)
        if not multiple or (dtype in QUANTIZED) != quantized or not is_product(layer) or depthwise(layer):
            continue
        inward, outward = channels(layer)
        image = 0 < inward <= 4
        odd = [c for c in ((outward,) if image else (inward, outward)) if wasted(c, multiple) >= waste]
        if odd and not _scalar(layer, odd):
            found.append((index, max(odd, key=lambda c: wasted(c, multiple)), multiple))
    return found


def _scalar(layer: EngineLayer, odd: list[int]) -> bool:
    """A single value or pair (a score, a box's side): padding it saves nothing that counts."""
    return max(odd) <= 2 and layer.shape.weight_count < 1 << 16


def wasted(size: int, multiple: int) -> float:
    """Share of the padded size that is padding."""
    return 1 - size / padded(size, multiple) if size > 0 else 0.0


def padded(size: int, multiple: int) -> int:
    """The next multiple."""
    return -(-size // multiple) * multiple
