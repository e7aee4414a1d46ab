"""Kinds of events and the columns kept of each.

Every kind has `name` (index of the trace's names), `start` and `end` (ns), `process`
and `thread` (indexes of its `processes` and `threads`). Numbers are -1 where an event
has none; columns of type `text` are indexes of the trace's `texts`, raw JSON (0: none).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from necropsy_parsers.trace import event

NUMBER: Final = "i8"
TEXT: Final = "text"


# Fields that only stand beside "Collective name" (torch/csrc/distributed/c10d/ParamCommsUtils.hpp).
COLLECTIVE: Final = frozenset(
    {"collective", "nelems_in", "nelems_out", "group_size", "dtype", "group", "group_words", "group_ranks"}
)


class Kind(Struct, frozen=True):
    """A kind: its arguments, and column -> (type, fields of which the first present counts)."""

    name: str
    args: type[Struct]
    columns: dict[str, tuple[str, tuple[str, ...]]]


def _kind(name: str, args: type[Struct], numbers: str, texts: str = "") -> Kind:
    columns: dict[str, tuple[str, tuple[str, ...]]] = {c: (NUMBER, (c,)) for c in numbers.split()}
    columns |= {c: (TEXT, (c,)) for c in texts.split()}
    if "external" in columns:
        columns["external"] = (NUMBER, ("external", "external_old"))
    if "dims" in columns:
        columns["dims"] = (TEXT, ("dims", "dims_old"))
    return Kind(name, args, columns)


_GPU_NUMBERS: Final = (
    "external correlation device stream bytes registers shared occupancy graph_node nelems_in nelems_out group_size "
    "sequence"
)
KERNEL: Final = _kind(
    "kernel", event.GpuArgs, _GPU_NUMBERS, "grid block collective dtype group group_words group_ranks"
)
COPY: Final = _kind("copy", event.GpuArgs, "external correlation device stream bytes graph_node")
MEMSET: Final = _kind("memset", event.GpuArgs, "external correlation device stream bytes graph_node")
CALL: Final = _kind("call", event.CallArgs, "external correlation stream")
OP: Final = _kind(
    "op",
    event.OpArgs,
    "external sequence forward_thread nelems_in nelems_out group_size",
    "dims types strides values stack modules kernel_file collective dtype group",
)
ANNOTATION: Final = _kind("annotation", event.OpArgs, "external", "stack dims types")  # sizes: of gloo's collectives
GPU_ANNOTATION: Final = _kind("gpu_annotation", event.CallArgs, "external")
FRAME: Final = _kind("frame", event.FrameArgs, "number parent module")
MEMORY: Final = _kind("memory", event.MemoryArgs, "bytes address device_type device allocated reserved")
SYNC: Final = _kind("sync", event.SyncArgs, "correlation stream waits_for device", "what")
LABEL: Final = _kind("label", event.LabelArgs, "", "name labels")
FLOW_START: Final = _kind("flow_start", event.NoArgs, "")
FLOW_END: Final = _kind("flow_end", event.NoArgs, "")
OVERHEAD: Final = _kind("overhead", event.NoArgs, "")
SPAN: Final = _kind("span", event.NoArgs, "")
OTHER: Final = _kind("other", event.NoArgs, "")

KINDS: Final = {
    k.name: k
    for k in (
        KERNEL, COPY, MEMSET, CALL, OP, ANNOTATION, GPU_ANNOTATION, FRAME, MEMORY, SYNC, LABEL, FLOW_START, FLOW_END,
        OVERHEAD, SPAN, OTHER,
    )
}  # fmt: skip

# Categories of torch 1.8 (capitals) to 2.13; ROCm writes those of CUDA. libkineto/include/ActivityType.h.
_OF_CATEGORY: Final = {
    "kernel": KERNEL,
    "concurrent_kernel": KERNEL,
    "gpu_memcpy": COPY,
    "memcpy": COPY,
    "gpu_memset": MEMSET,
    "memset": MEMSET,
    "cuda_runtime": CALL,
    "cuda_driver": CALL,
    "hip_runtime": CALL,
    "hip_driver": CALL,
    "privateuse1_runtime": CALL,
    "privateuse1_driver": CALL,
    "xpu_runtime": CALL,
    "xpu_driver": CALL,
    "mtia_runtime": CALL,
    "mtia_ccp_events": KERNEL,
    "runtime": CALL,
    "cpu_op": OP,
    "operator": OP,
    "user_annotation": ANNOTATION,
    "gpu_user_annotation": GPU_ANNOTATION,
    "python_function": FRAME,
    "pythonfunction": FRAME,
    "cpu_instant_event": MEMORY,
    "cuda_sync": SYNC,
    "overhead": OVERHEAD,
    "trace": SPAN,
}

_FLOW_STARTS: Final = frozenset("st")


def kind_of(category: str, phase: str) -> Kind:
    """The kind of an event, by its category and its phase (Chrome's `ph`)."""
    if phase == "X":
        return _OF_CATEGORY.get(category.lower(), OTHER)
    if phase == "M":
        return LABEL
    if phase == "i" and category == "cpu_instant_event":
        return MEMORY
    if phase == "f":
        return FLOW_END
    return FLOW_START if phase in _FLOW_STARTS else OTHER
