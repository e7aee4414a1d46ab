"""Files of TORCH_COMPILE_DEBUG folders: a compiled graph before and after Inductor, as text.

    torch_compile_debug/run_2026_03_11_09_41_08_614837-pid_512/torchinductor/model__0_inference_0.0/
    ir_post_fusion.txt    op0_op1: FusedSchedulerNode(SchedulerNode,SchedulerNode)
    fx_graph_readable.py          # File: /home/trainer/projects/vit/model.py:41 in forward, code: h = self.fc(x)
    output_code.py        triton_poi_fused_relu_0 = async_compile.triton('triton_poi_fused_relu_0', '''

Written by torch/_inductor/debug.py, one folder a graph (2.1 to 2.13): fx_graph_runnable.py, fx_graph_readable.py,
fx_graph_transformed.py, ir_pre_fusion.txt, ir_post_fusion.txt, output_code.py, and since 2.7 node mappings as JSON.
They are counted, never run. Code and graphs are read for the lines of kernels (`necropsy_parsers.inductor`). The
debug.log files beside them are logs and read as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from necropsy_parsers.inductor.code import read_code
from necropsy_parsers.inductor.graph import read_graph
from necropsy_parsers.inductor.records import GeneratedCode, GraphLines, KernelNodes
from necropsy_parsers.inductor.stacks import read_mappings
from necropsy_parsers.issues import Issues
from necropsy_parsers.numbers import natural
from necropsy_parsers.records import Anchor, Frame, Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "inductor_debug"
TITLE: Final = "Files of TORCH_COMPILE_DEBUG folders"
PRIORITY: Final = 400
SAMPLES: Final = (
    "op0: SchedulerNode(ComputedBuffer)\nop0.writes = [MemoryDep('buf0', c0, {c0: 32})]\n",
    "class GraphModule(torch.nn.Module):\n    def forward(self, arg0_1):\n"
    "        # File: /home/trainer/projects/vit/model.py:41 in forward, code: h = self.fc(x)\n",
)
MAX_BYTES: Final = 64 << 20
MAX_NAMES: Final = 5_000  # kernels and lines kept of one file

_NODE: Final = re.compile(r"^(?P<name>\w+): (?P<kind>\w*(?:SchedulerNode|FusedNode))\(", re.MULTILINE)
_MEMBER: Final = re.compile(r"^\w+\.snodes\[\d+\] =\s*$", re.MULTILINE)
_SEVERAL: Final = re.compile(r"Fused|Foreach|Grouped|Combo|Mix")
_DEVICE: Final = re.compile(r"^\w+\.group\.device = (?P<device>[\w:]+)", re.MULTILINE)
_MODULE: Final = re.compile(r"\s*class [\w<>.]+\((?:torch\.nn\.)?Module\):\s+(?:\w+ *: [^\n]+\n\s*)*def forward\(self")
_LINE: Final = re.compile(
    r"# File: (?P<file>[^\n]+?):(?P<line>\d+)(?: in (?P<function>[^\n,]+))?, code: (?P<code>[^\n]*)"
)
_CALL: Final = re.compile(r"^\s+\w+[^\n=]*= torch\.ops\.\w+\.\w+", re.MULTILINE)
# Lines at the left margin, and what the file begins with: logs hold such code, too, indented or behind heads.
_CODE: Final = re.compile(
    r"(?:# AOT ID|from ctypes import|import |#include).*^async_compile = AsyncCompile\(\)$", re.M | re.S
)
_SCRIPT: Final = re.compile(r"(?:import |from ).*^from torch\._dynamo\.testing import rand_strided$", re.M | re.S)
_KERNEL: Final = re.compile(r"^(?P<name>\w+) = async_compile\.(?P<kind>\w+)\(", re.MULTILINE)
_EXTERN: Final = re.compile(r"\b(?:extern_kernels\.(?P<kernel>\w+)|torch\.ops\.(?P<op>\w+\.\w+\.\w+))\(")
_TORCH: Final = re.compile(r"^# torch version: (?P<version>\S+)", re.MULTILINE)
_GRAPH: Final = re.compile(r"(?P<graph>[^/\\!]+)[/\\][^/\\!]+$")
_WAY: Final = re.compile(r"_(?P<way>forward|backward|inference)_[\d.]+$")
_MAPPINGS: Final = (b'"preToPost"', b'"postToPre"', b'"cppCodeToPost"', b'"postToCppCode"')
_KINDS: Final = {
    "ir_pre_fusion": "IR before fusion",
    "ir_post_fusion": "IR after fusion",
    "fx_graph_readable": "FX graph",
    "fx_graph_transformed": "FX graph, transformed",
    "fx_graph_runnable": "reproduction script",
    "output_code": "generated code",
    "node_mappings": "node mappings",
}


class CompiledGraphFile(Record, frozen=True):
    """One file about one graph.

    `kind` is a key of the file's name (`ir_post_fusion`, `output_code`), `graph` the name of its folder. `nodes` counts
    scheduler nodes (IR) or operator calls (graphs); `units` what is left of them after fusion, `fused` how many of
    those hold several; `kernels` are the generated ones, `extern` the library calls by name; `lines` the user's
    lines that the graph names; `torch` the release, `device` the devices of the nodes ("" where untold).
    """

    kind: str
    graph: str
    nodes: int
    units: int
    fused: int
    kernels: tuple[str, ...]
    extern: tuple[str, ...]
    lines: tuple[Frame, ...]
    torch: str
    device: tuple[str, ...]


def sniff(head: bytes, name: str) -> str | None:
    """Claims what Inductor writes; the file's name only tells two alike kinds apart."""
    kind = _kind(head, name)
    return f"{_KINDS[kind]} of TORCH_COMPILE_DEBUG" if kind else None


def _kind(head: bytes, name: str) -> str:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"{" and any(key in text[:200] for key in _MAPPINGS):
        return "node_mappings"
    shown = text.decode("utf-8", "replace").replace("\r\n", "\n")
    if (m := _NODE.match(shown)) is not None and f"\n{m['name']}." in shown:
        return "ir_pre_fusion" if "pre_fusion" in name else "ir_post_fusion"
    if _CODE.match(shown) is not None:
        return "output_code"
    if _SCRIPT.match(shown) is not None:
        return "fx_graph_runnable"
    if _MODULE.match(shown) and ("# File: " in shown or "torch.ops." in shown):
        return "fx_graph_transformed" if "transformed" in name else "fx_graph_readable"
    return ""


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """What the file counts, and what it tells of kernels and nodes."""
    data = b""
    for chunk in source.chunks():
        data += chunk
        if len(data) > MAX_BYTES:
            issues.add("source/limit", source.name)
            break
    kind = _kind(data[: 64 * 1024], source.name)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    folder = _GRAPH.search(source.name)
    anchor = Anchor(source.name, 0, len(data), 1, text.split("\n", 1)[0][:200])
    nodes, units, fused = _nodes(text) if kind.startswith("ir_") else (_calls(kind, text), 0, 0)
    release = _TORCH.search(text)
    yield CompiledGraphFile(
        anchor,
        kind,
        folder["graph"] if folder else "",
        nodes,
        units,
        fused,
        _kept(m["name"] for m in _KERNEL.finditer(text)) if kind == "output_code" else (),
        _kept(m["kernel"] or m["op"] for m in _EXTERN.finditer(text)) if kind == "output_code" else (),
        _lines(text) if kind.startswith("fx_") else (),
        release["version"] if release else "",
        tuple(sorted({m["device"] for m in _DEVICE.finditer(text)})) if kind.startswith("ir_") else (),
        seq=seq,
    )
    yield from _kernels(kind, text, anchor, seq)


def _kernels(kind: str, text: str, anchor: Anchor, seq: int) -> Iterator[Record]:
    """What the file says of its graph's kernels and of the lines of nodes. The folder says what the graph computes."""
    folder = anchor.input.replace("\\", "/").rpartition("/")[0]
    if kind == "output_code":
        code = read_code(text.encode())
        if code.calls:
            yield GeneratedCode(anchor, folder, code.graph, code.direction, tuple(code.calls), seq=seq)
    elif kind == "node_mappings":
        if mapped := read_mappings(text):
            yield KernelNodes(anchor, folder, mapped, seq=seq)
    elif kind in ("fx_graph_readable", "fx_graph_transformed"):
        way = _WAY.search(folder)
        stage = "after" if kind == "fx_graph_transformed" else way["way"] if way else "inference"
        if nodes := read_graph(text.encode()).nodes:
            yield GraphLines(anchor, folder, stage, tuple(nodes), seq=seq)


def _nodes(text: str) -> tuple[int, int, int]:
    """Scheduler nodes, units that are launched, and how many of those hold several nodes."""
    kinds = [m["kind"] for m in _NODE.finditer(text)]
    several = sum(1 for k in kinds if _SEVERAL.search(k))
    members = sum(1 for _ in _MEMBER.finditer(text))
    return len(kinds) - several, len(kinds) - members, several


def _calls(kind: str, text: str) -> int:
    return sum(1 for _ in _CALL.finditer(text)) if kind.startswith("fx_") else 0


def _lines(text: str) -> tuple[Frame, ...]:
    found: dict[tuple[str, int | None], Frame] = {}
    for m in _LINE.finditer(text):
        if len(found) < MAX_NAMES:
            frame = Frame(m["file"], natural(m["line"]), (m["function"] or "").strip(), m["code"].strip())
            found.setdefault((frame.file, frame.line), frame)
    return tuple(found.values())


def _kept(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _ in zip(names, range(MAX_NAMES), strict=False)))
