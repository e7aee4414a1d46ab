"""From a failed kernel to the call that launched it: asserted conditions, and operators by kernel name.

torch's kernels assert a handful of conditions; which operator they belong to is read off
torch's own sources (aten/src/ATen/native/cuda: Loss.cu, NLLLoss2d.cu, Indexing.cu,
IndexKernel.cu, IndexKernelUtils.cu, ScatterGatherKernel.cu, MultiLabelMarginCriterion.cu,
TensorCompare.cu, Distributions.cu, Embedding.cu; torch 1.8 to 2.13).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from necropsy_parsers.messages.device_assert import DeviceAssert
from necropsy_parsers.patterns import lazily

from necropsy.evidence.exceptions import ExceptionRow
from necropsy.finding import Fix, Place
from necropsy.provenance.calls import Call, calls_before, definitions, matching
from necropsy.provenance.files import SourceTree

# Errors after which the context is lost because a kernel failed. Not: memory, versions, missing devices.
FAULTS: Final = lazily(
    r"device-side assert|illegal memory access|illegal address|misaligned address|illegal instruction"
    r"|invalid (?:address space|program counter|pc)|global/shared address space"
    r"|unspecified launch failure|launch failure"
    r"|hardware stack error|the launch timed out|lane user stack overflow|Memory access fault"
)


class Kind(Struct, frozen=True):
    """What an asserted condition means: `condition` and `kernel` identify it, `calls` name the operator's spellings."""

    condition: re.Pattern[str]
    kernel: re.Pattern[str]
    meaning: str
    fix: str
    calls: re.Pattern[str]
    modules: frozenset[str]


def _kind(condition: str, kernel: str, meaning: str, fix: str, calls: str, modules: str = "") -> Kind:
    return Kind(lazily(condition), lazily(kernel, re.I), meaning, fix, lazily(calls), frozenset(modules.split()))


KINDS: Final = (
    _kind(
        r"t >= 0 && t < n_classes|cur_target >= 0 && cur_target < n_classes|target_?val\w* >= ",
        r"nll_loss|multi_?margin|SpatialClassNLL",
        "a class label (target) is outside the range of classes",
        (
            "Check the labels against the number of classes of the output: "
            "off by one, -1 as ignore value, a missing num_labels"
        ),
        r"cross_entropy|nll_loss|CrossEntropyLoss|NLLLoss|criterion|loss_fn|loss_func",
        "CrossEntropyLoss NLLLoss MultiMarginLoss",
    ),
    _kind(
        (
            r"srcIndex < srcSelectDimSize"
            r"|ind >= ?0 && ind < ind_dim_size"
            r"|dstIndex < dstAddDimSize"
            r"|idx < num_weights"
            r"|index >= 0 && index < num_embeddings"
        ),
        r"indexSelect|vectorized_gather|embedding|indexAdd|indexFunc",
        "an index (id) is outside the table it selects from",
        "Check the ids against the number of rows: vocabulary and num_embeddings, position ids and maximum length",
        r"(?:^|\.)embedding$|Embedding|index_select|index_add|take|emb\w*$",
        "Embedding EmbeddingBag",
    ),
    _kind(
        r"-?sizes\[i\] <= index|index >= -sizes\[i\]|idx_dim >= 0 && idx_dim < index_size|index out of bounds",
        r"index_elementwise|scatter_gather|index_put|gpu_index|_scatter|gather",
        "an index is outside the dimension it selects from",
        "Check the index tensor against the size of the dimension before the call",
        r"gather|scatter\w*|index_put_?|index_select|take_along_dim|one_hot|\[\]$",
    ),
    _kind(
        r"input_?val\w* >= (?:zero|0).*one|>= 0\. && .*<= 1|target_val >= zero",
        r"binary_cross_entropy|bce",
        "an input of binary cross entropy is outside [0, 1] (or NaN)",
        "Use binary_cross_entropy_with_logits, or pass the input through a sigmoid; check it for NaN",
        r"binary_cross_entropy$|BCELoss",
        "BCELoss",
    ),
    _kind(
        (
            r"0 <= p4? ?&& ?p|probability|cumdist\[size - 1\]|sum > 0"
            r"|THCNumerics<.*>::ge\(val, zero\)|val >= zero|isinf|isnan"
        ),
        r"multinomial|sampleMultinomial|bernoulli|distribution|renormRows",
        "probabilities are negative, NaN or infinite",
        "Check the logits for NaN or Inf before sampling; half precision overflows here",
        r"multinomial|bernoulli|sample|generate",
    ),
)


def kind_of(asserted: DeviceAssert) -> Kind | None:
    """The known condition, by its text, else by the kernel's name."""
    by_text = next((k for k in KINDS if k.condition.search(asserted.condition)), None)
    return by_text or next((k for k in KINDS if k.kernel.search(asserted.kernel)), None)


def explain_assert(asserted: DeviceAssert) -> tuple[str, Fix | None]:
    """(meaning, fix) of an assertion; the condition itself must do where it is not known."""
    kind = kind_of(asserted)
    if kind is None:
        return "a value is outside what the kernel accepts", None
    return kind.meaning, Fix(kind.fix, "code")


def of_index(asserted: DeviceAssert) -> bool:
    """Whether the assertion is about an id or index."""
    kind = kind_of(asserted)
    return kind is not None and "index" in kind.meaning


def launched_before(row: ExceptionRow, tree: SourceTree) -> list[Call]:
    """Calls that may have queued GPU work in the function where an error surfaced; empty without its source."""
    if not row.places or row.places[0].line is None:
        return []
    lines = tree.lines(row.places[0].file)
    calls = calls_before(lines, row.places[0].line) if lines else []
    unique: dict[int, Call] = {}
    for call in calls:
        unique.setdefault(call.line, call)
    return list(unique.values())


def narrowed(
    code: Sequence[Place], launched: Sequence[Call], asserted: DeviceAssert | None, tree: SourceTree
) -> Place | None:
    """The one statement that an asserting kernel can come from, if there is just one."""
    kind = kind_of(asserted) if asserted is not None else None
    first = code[0]
    if kind is None or first.line is None:
        return None
    lines = tree.lines(first.file)
    if not lines:
        return None
    modules = definitions(lines, kind.modules)
    calls = calls_before(lines, first.line)
    hits = matching(calls, kind.calls) + [c for c in calls if c.name in modules]
    at = sorted({c.line for c in hits})
    if len(at) != 1:
        return None
    call = next(c for c in hits if c.line == at[0])
    return Place(
        first.file, call.line, call.end_line, first.function, call.text, "statement", "operator matched in the source"
    )
