"""Torch's own provenance, as JSON: the stacks of each kernel's nodes, or the nodes themselves.

    {"triton_poi_fused_relu_0:1": ["  File \\"/home/trainer/net.py\\", line 41, in forward\\n    y = F.relu(x)\\n"]}

`inductor_provenance_tracking_kernel_stack_traces` (torch/_inductor/debug.py, since 2.9, the number of the call
behind the name; level 1 of `torch._inductor.config.trace.provenance_tracking_level`). A stack of several frames tells
the way to a line; its innermost frame is the line. Nothing is told of a graph that came from a cache.
`inductor_provenance_tracking_node_mappings` (since 2.7, in folders of TORCH_COMPILE_DEBUG, too) lists nodes under
`cppCodeToPost`, of backward graphs in few cases only.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, field

from necropsy_parsers.records import Frame

_FRAME: Final = re.compile(
    r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>[^\n]+))?\n(?P<text>[^\n]*)'
)

T = TypeVar("T")
Stacked = tuple[tuple[str, tuple[T, ...]], ...]


def read_stacks(text: str) -> Stacked[Frame] | None:
    """Kernels and the innermost frames of their stacks; None where the text is something else."""
    try:
        told = msgspec.json.decode(text, type=dict[str, list[str]])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return tuple(
        (name, tuple(dict.fromkeys(f for s in stacks if (f := _innermost(s))))) for name, stacks in told.items()
    )


class _Mappings(Struct):
    cppCodeToPost: dict[str, list[str]] = field(default_factory=dict)


def read_mappings(text: str) -> Stacked[str] | None:
    """Kernels and the nodes that they compute; None where the text is something else."""
    try:
        told = msgspec.json.decode(text, type=_Mappings)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return tuple((name, tuple(nodes)) for name, nodes in told.cppCodeToPost.items())


def _innermost(stack: str) -> Frame | None:
    frames = list(_FRAME.finditer(stack))
    if not frames:
        return None
    m = frames[-1]
    return Frame(m["file"], int(m["line"][:9]), (m["function"] or "").strip(), m["text"].strip())
