"""Tensors that do not fit together: shape, dtype or device

What it means
    An operation got tensors whose sizes, dtypes or devices it cannot combine.

Why it happens
    A layer built for another width; a batch that was not padded; inputs left on the CPU
    or in float32 while the model is elsewhere or in half precision; a `view` of a tensor
    that is not contiguous.

How to confirm
    Print `.shape`, `.dtype` and `.device` of the operands right before the line.

How to fix
    Move or convert the input to what the weights are, build the layers with matching
    sizes, pad or drop ragged samples.

Limits
    The line is the call in your code; which of its operands is at fault, the message
    says only sometimes.

References
    - https://docs.pytorch.org/docs/stable/notes/broadcasting.html
    - https://docs.pytorch.org/docs/stable/tensor_attributes.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, match, said, saying
from necropsy.conditions import OUT_OF_RANGE
from necropsy.evidence.exceptions import Exceptions
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_TO: Final = "Move the input to the device of the weights before the call: x = x.to(next(model.parameters()).device)"
_DTYPE: Final = "Convert the input to the dtype of the weights, or run the call under torch.autocast"
_SIZE: Final = "Print the shapes before the line; make the layer's input size that of what arrives"
_IDS: Final = "Check the ids against the table's size (vocabulary, number of classes, maximum length) before the call"
_PAD: Final = "Pad or crop the samples to one size in the Dataset, or give the DataLoader a collate_fn"
SAYINGS: Final = (
    saying(
        (
            r"Expected all tensors to be on the same device, but "
            r"(?:got (?P<who>\w+) is on (?P<a>[\w:]+), different from other tensors on (?P<b>[\w:]+)"
            r"|found at least two devices, (?P<c>[\w:]+) and (?P<d>[\w:]+))"
        ),
        "Device mismatch: tensors are on {a}{c} and on {b}{d}, and the operation needs them on one device.",
        _TO,
    ),
    saying(
        r"Input type \((?P<a>[\w.]+)\) and (?P<who>weight|bias) type \((?P<b>[\w.]+)\) should be the same",
        "The input is a {a} but the {who} is a {b}: device or dtype mismatch.",
        _TO,
        _DTYPE,
    ),
    saying(
        (
            r"(?:Expected object of|expected) (?:scalar )?(?:device )?type (?P<a>\w+) "
            r"but (?:got|found) (?:scalar |device )?(?:type )?(?P<b>\w+)"
            r"|(?P<who>mat1 and mat2|m1 and m2|self and mat2|query, key, and value) "
            r"must have the same dtype, but got (?P<c>[\w: ]+? and \w+|[^\n]+)"
            r"|expected (?P<e>\w+ and \w+) to have the same dtype, but got: (?P<f>[^\n]+)"
        ),
        "dtype mismatch: the operation got {a}{c}{f} {b}where it needs one dtype.",
        _DTYPE,
    ),
    saying(
        r"(?P<a>[Bb]oth arguments|mat1 and mat2|Tensors) must (?:be|have) (?:the )?same (?P<what>dtype|device)[^\n]*",
        "{what} mismatch between the operands.",
        _DTYPE,
    ),
    saying(
        (
            r"(?P<who>mat1 and mat2|m1 and m2|mat1 dim 1 must match mat2 dim 0|a and b)"
            r"(?: shapes cannot be multiplied| must have same reduction dim, but got)?,? ?[:(]?"
            r"\s*\[?(?P<a>\d+(?:x|, )\d+)\]?,?\s*(?:and|x|X)\s*\[?(?P<b>\d+(?:x|, )\d+)\]?\)?"
        ),
        "Shape mismatch in a matrix product: [{a}] cannot be multiplied with [{b}].",
        _SIZE,
    ),
    saying(
        r"size mismatch, m1: \[(?P<a>[^\]]+)\], m2: \[(?P<b>[^\]]+)\]",
        "Shape mismatch in a matrix product: [{a}] cannot be multiplied with [{b}].",
        _SIZE,
    ),
    saying(
        (
            r"stack expects each tensor to be equal size, but got "
            r"(?P<a>\[[\d, ]*\]) at entry (?P<i>\d+) "
            r"and (?P<b>\[[\d, ]*\]) at entry (?P<j>\d+)"
        ),
        (
            "Samples of one batch differ in size: {a} at entry {i} and {b} at entry {j} "
            "cannot be stacked (shape mismatch)."
        ),
        _PAD,
    ),
    saying(
        (
            r"The size of tensor a \((?P<a>\d+)\) "
            r"must match the size of tensor b \((?P<b>\d+)\) "
            r"at non-singleton dimension (?P<dim>\d+)"
        ),
        "Shape mismatch: {a} against {b} in dimension {dim} does not broadcast.",
        _SIZE,
    ),
    saying(
        (
            r"The expanded size of the tensor \((?P<a>\d+)\) "
            r"must match the existing size \((?P<b>\d+)\) "
            r"at non-singleton dimension (?P<dim>\d+)"
        ),
        "Shape mismatch: a dimension of size {b} cannot be expanded to {a} (dimension {dim}).",
        _SIZE,
    ),
    saying(
        (
            r"Sizes of tensors must match except in dimension (?P<dim>\d+)\.? "
            r"(?:Expected size (?P<a>\d+) but got size (?P<b>\d+)"
            r"|Got (?P<c>\d+) and (?P<d>\d+))"
        ),
        "Shape mismatch in a concatenation: sizes {a}{c} and {b}{d} differ outside dimension {dim}.",
        _SIZE,
    ),
    saying(
        (
            r"Given groups=(?P<g>\d+), weight of size (?P<w>\[[^\]]+\]), "
            r"expected input(?P<x>\[[^\]]+\]) "
            r"to have (?P<a>\d+) channels, but got (?P<b>\d+) channels instead"
        ),
        "Shape mismatch in a convolution: the weight {w} wants {a} input channels, the input {x} has {b}.",
        _SIZE,
    ),
    saying(
        r"Expected input batch_size \((?P<a>\d+)\) to match target batch_size \((?P<b>\d+)\)",
        "Shape mismatch: the input has a batch of {a}, the target one of {b}.",
        "Print both shapes before the loss; a reshape or a skipped sample changed one of them",
    ),
    saying(
        r"Expected more than 1 value per channel when training, got input size (?P<a>[^\n]+)",
        (
            "Batch normalisation got a single value per channel (input shape mismatch: {a}): "
            "it cannot train on a batch of one."
        ),
        "Set drop_last=True in the DataLoader, or use another normalisation for batches of one",
    ),
    saying(
        (
            r"(?P<what>[Ee]xpected (?:\d-?D|input\w*|target|size|tensor|\d+D \(unbatched\)|stride)"
            r"[^\n]*?(?:but got|got|to have)[^\n]*)"
        ),
        "Shape mismatch: {what}.",
        _SIZE,
    ),
    saying(
        r"shape '(?P<a>\[[^\]]*\])' is invalid for input of size (?P<b>\d+)",
        "Shape mismatch: a tensor of {b} elements cannot take the shape {a}.",
        _SIZE,
    ),
    saying(
        r"view size is not compatible with input tensor's size and stride",
        "`view` was called on a tensor that is not contiguous in the dimensions it joins (memory layout mismatch).",
        "Use .reshape(...) here, or .contiguous() where the tensor was transposed",
    ),
    saying(
        r"[Ii]ndex (?P<i>-?\d+) is out of bounds for (?P<dim>(?:dimension|axis) \d+) with size (?P<size>\d+)",
        "An index lies outside the tensor it selects from: {i} in {dim}, which has size {size}.",
        _IDS,
    ),
    saying(
        r"Target (?P<t>-?\d+) (?:is out of bounds|out of range)",
        "An index lies outside the tensor it selects from: the label {t} is none of the classes that the scores have.",
        "Make the last layer as wide as there are classes, and check the labels: they count from 0",
    ),
    # Checks in code that Inductor generates for the CPU (torch/_inductor/codegen/cpp.py); on a GPU they are assertions.
    saying(
        r"kernel, \S+:\d+, index out of bounds: (?:-?\w+ <= )?\w+ < (?P<size>\w+?)L?$",
        "An index lies outside the tensor it selects from (size {size}), in a kernel of torch.compile.",
        _IDS,
    ),
    saying(
        r"index (?:out of range in self|is out of bounds)",
        "An index lies outside the table it selects from: an id, label or position is too large or negative.",
        _IDS,
    ),
    saying(
        (
            r"(?P<what>(?:The )?(?:shape|size|number of (?:dims|dimensions)|dimension)s? "
            r"(?:of|mismatch|must|do)"
            r"[^\n]*(?:must match|mismatch|not match|doesn't match|do not match|same)[^\n]*)"
        ),
        "Shape mismatch: {what}.",
        _SIZE,
        likely=True,
    ),
    saying(
        (
            r"(?P<what>"
            r"operands could not be broadcast together with shapes [^\n]*"
            r"|Trying to create tensor with negative dimension[^\n]*"
            r"|Calculated padded input size per channel[^\n]*"
            r"|batch1 must be [^\n]*"
            r"|running_mean should contain [^\n]*"
            r"|normalized_shape=[^\n]*"
            r"|output with shape [^\n]* doesn't match the broadcast shape[^\n]*"
            r"|embed_dim must be divisible [^\n]*"
            r"|The shape of the mask [^\n]*"
            r"|selected index k out of range"
            r"|Dimension out of range[^\n]*"
            r"|tensors used as indices must be [^\n]*"
            r"|einsum\(\): [^\n]*"
            r"|Kernel size can't be greater than actual input size)"
        ),
        "Shape mismatch: {what}.",
        _SIZE,
    ),
    saying(
        r'"?(?P<kernel>\w+)"? not implemented for \'(?P<dtype>\w+)\'',
        "The operation `{kernel}` does not exist for the dtype {dtype} on this device (dtype mismatch).",
        _DTYPE,
    ),
    saying(
        (
            r"Found dtype (?P<a>\w+) but expected (?P<b>\w+)"
            r"|Index put requires the source and destination dtypes match, "
            r"got (?P<c>\w+) for the destination and (?P<d>\w+)"
            r"|result type (?P<e>\w+) can't be cast to the desired output type (?P<f>\w+)"
        ),
        "dtype mismatch: {a}{c}{e} where {b}{d}{f} is needed.",
        _DTYPE,
    ),
    saying(
        r"No available kernel\. +Aborting execution",
        "None of the attention kernels that are allowed takes these tensors (dtype, head size, mask or device).",
        Fix("Read the warnings before it: they tell for each kernel why it was refused", "investigate"),
        "Cast query, key and value to bfloat16 or float16, or allow others, too: SDPBackend.EFFICIENT_ATTENTION, "
        "SDPBackend.MATH",
    ),
    saying(
        r"FlashAttention only support(?:s)? (?P<what>fp16 and bf16 data type[^\n]*)",
        "dtype mismatch: FlashAttention only supports {what}.",
        "Load the model in bfloat16 or float16, or run it under torch.autocast",
    ),
)


_OTHERS: Final = lazily(r"loading state_dict|sizes of the same param in process")  # told better by CRS009 and DST019


@rule("CRS010", "shape-mismatch", Severity.FATAL)
def check(exceptions: Exceptions) -> Iterator[Finding]:
    """Exceptions about sizes, dtypes and devices of tensors."""
    for row in exceptions:
        if row.name in ("OutOfMemoryError", "SafetensorError") or _OTHERS.search(row.text):
            continue
        if (found := match(SAYINGS, row)) is not None:
            message = " ".join(said(found).replace(" :", ":").replace(" .", ".").split())
            yield from_exception(
                row,
                message,
                fixes=found[0].fixes,
                confidence=found[0].confidence,
                shows=frozenset({OUT_OF_RANGE} if "index lies outside" in message else ()),
                facts={"error": row.main.message[:300]},
            )
