"""What Inductor says about CUDA graphs: skipped, split, recorded anew, and outputs overwritten.

    skipping cudagraphs due to skipping cudagraphs due to cpu device (primals_88). Found from :
       File "/home/trainer/projects/vq/codebook.py", line 493, in sample
        tau = torch.as_tensor(temp, device=log_alpha.device)
    skipping cudagraphs due to ['mutated inputs', 'incompatible ops']
    cudagraph partition due to cpu ops. Found from :
    Created 3 graph partitions: 2 cudagraphable, 1 non-cudagraphable
        op7: reason=DeviceCopy ops, ir=DeviceCopy, fx=prims.device_put.default(arg0_1, device(type='cuda', index=0))
    RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run. ...

Templates: torch/_inductor/{compile_fx,cudagraph_utils,cudagraph_trees,output_code,lowering,scheduler,utils}.py and
torch/_dynamo/backends/cudagraphs.py. Torch 2.1 and 2.2 give the reason only; since 2.3 the frames of the user's code
follow, and the prefix is doubled where a formatted reason is formatted again. Torch 2.9 splits a graph instead of
skipping it. From 2.3 to 2.10 the artifact is `perf_hints`, since 2.11 `cudagraphs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "cudagraph"
TITLE: Final = "CUDA graphs skipped, split, recorded anew, and outputs overwritten"
TRIGGERS: Final = (
    b"skipping cudagraph",
    b"disabling cudagraphs",
    b"cudagraph partition ",
    b" graph partitions: ",
    b", ir=",
    b"distinct sizes. Please",
    b"Unable to hit fast path of CUDAGraphs",
    b"Re-recording function=",
    b"tensor output of CUDAGraphs",
)
READS: Final = (
    Reads("perf_hints", "2.1", "why CUDA graphs are skipped, with the user's line since 2.3", until="2.10"),
    Reads("cudagraphs", "2.11", "the same; partitions, re-recordings"),
    Reads("", "2.1", "pending backwards, overwritten outputs (exception), distinct sizes"),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "skipping cudagraphs due to skipping cudagraphs due to cpu device (arg3_1)": {
        "kind": "cpu", "reason": "cpu device (arg3_1)", "name": "arg3_1",
    },
    "skipping cudagraphs due to mutated inputs (2 instances)": {"kind": "mutation", "count": 2},
    "Created 3 graph partitions: 2 cudagraphable, 1 non-cudagraphable": {"captured": 2, "left_out": 1},
    "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size. Recording too many "
    "CUDAGraphs may lead to extra overhead. We have observed 51 distinct sizes. Please consider the following options "
    "for better performance: a) padding inputs to a few fixed number of shapes": {"kind": "sizes", "count": 51},
    "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run. Stack "
    "trace: [Could not find stack trace]. To prevent overwriting, clone the tensor outside of torch.compile() or call "
    "torch.compiler.cudagraph_mark_step_begin() before each model invocation.": {"frames": (), "gradient": False},
}  # fmt: skip

_SKIP: Final = lazily(
    r"(?:(?:skipping|disabling) cudagraphs?(?: for backward)? (?:due to |for (?=unknown)))+(?P<reason>[^\n]*)"
)
_PART: Final = lazily(r"cudagraph partition due to (?P<reason>[^\n]*)")
_NODE: Final = lazily(r"^ *(?P<node>\w+): reason=(?P<reason>[^\n]+?), ir=\w+(?:, fx=(?P<op>[\w.:]+))?", re.M)
_COUNTS: Final = lazily(
    r"Created (?P<all>\d+) graph partitions: (?P<captured>\d+) cudagraphable, (?P<left>\d+) non-cudagraphable"
    r"|cudagraph partition into (?P<old>\d+) partitions"
)
_SIZES: Final = lazily(r"We have observed (?P<count>\d+) distinct sizes")
_PENDING: Final = lazily(
    r"Unable to hit fast path of CUDAGraphs because (?:of )?(?:pending|outputs from a previous step)"
)
_AGAIN: Final = lazily(r"Re-recording function=\S+?,(?: mode=\w+,)? reason=(?P<reason>[^\n]*)")
_OVERWRITTEN: Final = lazily(
    r"accessing (?P<grad>gradient )?tensor output of CUDAGraphs that has been overwritten\s+by a subsequent run"
    r"(?:\. Stack trace: (?P<stack>.*?))?(?=\. (?:To prevent overwriting|This can happen with)|\Z)",
    re.DOTALL,
)
_FRAME: Final = lazily(
    r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>[^\n]*))?'
    r'(?:\n(?!\s*File ")(?P<text>[ \t]+[^\n]*))?'
)
_INPUT: Final = lazily(r"input name: (?P<name>\w+)\. data pointer changed")
_NAMED: Final = lazily(r"^cpu device \((?P<cpu>\w+)\)|incompatible op (?P<op>[\w.:]+)|^(?P<devices>multiple device.*)")
_INSTANCES: Final = lazily(r"\((\d+) instances?\)")
_KINDS: Final = (
    ("rerecord", "exceeding max re-recording limit"),
    ("cpu", "cpu device"),
    ("mutation", "mutat"),
    ("devices", "multiple device"),
    ("dynamic", "symbolic shapes"),
    ("branch", "control flow operator"),
    ("overlap", "complex memory overlap"),
    ("overlap", "complex input striding"),
    ("op", "incompatible op"),
    ("op", "boolean indexing"),
    ("op", "sparsity not handled"),
    ("inputs", "non-Tensor inputs"),
    ("allocator", "caching allocator"),
    ("wrapper", "cpp-wrapper"),
    ("chosen", "override_cudagraphs"),
    ("chosen", "bisector"),
)


class CudagraphSkip(Record, frozen=True):
    """One graph, or with `partial` one node of a graph, that is left out of CUDA graphs.

    `kind`: cpu, mutation, devices, dynamic, branch, overlap, op, inputs, rerecord, allocator, wrapper, chosen, node
    or other; `reason` as printed without prefixes; `name` is the node, operator or devices that it names; `count` the
    number of instances it gives (1 where it gives none); `frames` the stack, innermost last.
    """

    kind: str
    reason: str
    name: str
    count: int
    frames: tuple[Frame, ...]
    partial: bool = False


class CudagraphPartition(Record, frozen=True):
    """Into how many pieces a graph was split: those in CUDA graphs and those outside (None where untold)."""

    pieces: int
    captured: int | None
    left_out: int | None


class CudagraphNotice(Record, frozen=True):
    """CUDA graphs that are used, but not as meant. `kind`: sizes, pending or rerecord.

    `count` is the number of distinct sizes; `text` the reason; `name` the input whose address changed.
    """

    kind: str
    count: int
    text: str
    name: str
    frames: tuple[Frame, ...]


class CudagraphOverwrite(Record, frozen=True):
    """An output of a CUDA graph read after a later run had overwritten it; `frames` made it in the compiled code.

    `gradient`: the message itself says that it is a gradient (torch 2.13).
    """

    frames: tuple[Frame, ...]
    gradient: bool


def read(message: Message) -> Iterator[Record]:
    """What `message` says about CUDA graphs."""
    text = message.text
    if "overwritten" in text:
        for m in _OVERWRITTEN.finditer(text):
            frames = tuple(_frames(m["stack"] or ""))
            yield CudagraphOverwrite(message.anchor, frames, m["grad"] is not None, **message.common)
    yield from _skips(message)
    for m in _COUNTS.finditer(text):
        pieces = int(m["all"] or m["old"])
        captured = int(m["captured"]) if m["captured"] else None
        left = int(m["left"]) if m["left"] else None
        yield CudagraphPartition(message.anchor, pieces, captured, left, **message.common)
    yield from _notices(message)


def _skips(message: Message) -> Iterator[CudagraphSkip]:
    text = message.text
    found = sorted([*_SKIP.finditer(text), *_PART.finditer(text)], key=lambda m: m.start())
    ends = [*(m.start() for m in found[1:]), len(text)]
    for m, end in zip(found, ends, strict=False):
        reason, _, rest = m[0][m.start("reason") - m.start() :].partition(" Found from")
        reason = reason.strip().rstrip(".").strip()
        stack = rest + text[m.end() : end]
        named, number = _NAMED.search(reason), _INSTANCES.search(reason)
        kind = next((k for k, words in _KINDS if words in reason), "other")
        name = next((g for g in named.groups() if g), "") if named else ""
        if kind == "rerecord" and (changed := _INPUT.search(stack)):
            name = changed["name"]
        partial = m.re is _PART
        yield CudagraphSkip(
            message.anchor,
            "node" if partial and kind == "other" else kind,
            reason,
            name,
            int(number[1]) if number else 1,
            tuple(_frames(stack)),
            partial,
            **message.common,
        )
    nodes = list(_NODE.finditer(text))
    ends = [*(m.start() for m in nodes[1:]), len(text)]
    for m, end in zip(nodes, ends, strict=False):
        frames = tuple(_frames(text[m.end() : end]))
        yield CudagraphSkip(
            message.anchor, "node", m["reason"], m["op"] or m["node"], 1, frames, True, **message.common
        )


def _notices(message: Message) -> Iterator[CudagraphNotice]:
    text = message.text
    for m in _SIZES.finditer(text):
        yield CudagraphNotice(message.anchor, "sizes", int(m["count"]), m[0], "", (), **message.common)
    if (pending := _PENDING.search(text)) is not None:
        yield CudagraphNotice(message.anchor, "pending", 1, pending[0], "", (), **message.common)
    for m in _AGAIN.finditer(text):
        rest = text[m.end() :]
        name = _INPUT.search(rest)
        yield CudagraphNotice(
            message.anchor,
            "rerecord",
            1,
            m["reason"].strip().rstrip("."),
            name["name"] if name else "",
            tuple(_frames(rest)),
            **message.common,
        )


def _frames(text: str) -> Iterator[Frame]:
    for m in _FRAME.finditer(text):
        yield Frame(m["file"], int(m["line"]), (m["function"] or "").strip(), (m["text"] or "").strip())
