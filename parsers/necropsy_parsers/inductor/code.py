"""Lines of generated code to the kernels that it calls, and the nodes that each computes.

    # Topologically Sorted Source Nodes: [x, layer_norm], Original ATen: [aten.add, aten.native_layer_norm]
    # Source node to ATen node mapping:
    #   layer_norm => add_1, mul, rsqrt, sub, var_mean
    # Graph fragment:
    #   %add : Tensor "f32[4, 512]"[num_users=3] = call_function[target=torch.ops.aten.add.Tensor](args = ...)
    triton_per_fused_add_native_layer_norm_1 = async_compile.triton('triton_per_fused_add_native_layer_norm_1', '''
        # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.addmm]
        extern_kernels.addmm(primals_3, buf1, reinterpret_tensor(primals_2, (64, 64), (1, 64), 0), out=buf2)

Comments are made by `get_kernel_metadata` (torch/_inductor/utils.py): the mapping stands under `Source Nodes` without
a title up to 2.4, and names are sorted; title, fragment and the graph's order came with 2.5; `Unsorted` tells of nodes
of several graphs. `AOT ID` came with 2.4. A kernel is defined where it is first called, so that its nodes are those of
that call. C++ kernels bear no comments in any release. A name in the list may be empty: a node that a pass of Inductor
made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.inductor.records import KernelCall

MAX_CALLS: Final = 5_000  # kept of one graph
MAX_NODES: Final = 2_000  # kept of one comment
# What may follow the head of a line in a log, or the margin; bytes, so that tallies can search whole chunks.
LINE: Final = (
    rb"(?:[ \t]*+(?:(?:\#|//) (?:"
    rb"[ ]*+%(?P<node>\w++) : (?P<kind>[^\n]{0,2000})"
    rb"|[ ]*+(?P<source>\w++) => (?P<mapped>[\w, ]++)"
    rb"|(?P<sort>Topologically Sorted |Unsorted )?Source Nodes: \[(?P<sources>[^\]\n]*+)\]"
    rb"(?:, Original ATen: \[(?P<aten>[^\]\n]*+)\])?"
    rb"|\[Provenance debug handles\] [\w.:]*:(?P<handle>\d++)"
    rb"|AOT ID: \['(?P<graph>[^'\]]*+)'\])"
    rb"|(?:(?P<name>\w++) = )?(?:(?P<call>(?:extern_kernels|torch\.ops|aten)\.[\w.]++)\((?P<given>[^\n]*+)"
    rb"|(?P<compiled>async_compile)\.\w++\((?:\[(?P<types>[^\]\n]*+)\])?)"
    rb"|(?P<run>(?:triton|cpp|pallas|cutedsl)_\w++|\w++(?=\.run\())(?:\.run)?\((?P<passed>[^\n]*+)"
    rb"|(?P<args>\w[\w, ]*+)(?<=[ ])= args\b)"
    rb"|(?P<begin>Output code:))"
)
MAX_ARGS: Final = 2_000  # characters of a call's arguments
_INPUT: Final = re.compile(r"\b(?!buf\d)[a-z]\w*\b")
_LINES: Final = re.compile(rb"^" + LINE, re.MULTILINE)
# Calls of operators that are no kernels of the program.
_NO_KERNEL: Final = re.compile(
    r"torch\.ops\.(?:inductor\._(?:alloc|reinterpret)|inductor\.accumulate|higher_order|_c10d|profiler)"
    r"|(?:triton|cpp)_(?:helpers|heuristics|meta)"
)


class _Comment(Struct):
    sources: dict[str, None] = field(default_factory=dict)
    aten: dict[str, None] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)
    mapping: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ordered: bool = True
    handle: str = ""


class CodeReader:
    """Takes the lines of one graph's code; `calls` are its kernels so far."""

    def __init__(self) -> None:
        self.graph = ""
        self.calls: list[KernelCall] = []
        self._direction = ""
        self._comment = _Comment()
        self._defined: dict[str, _Comment] = {}
        self._types: dict[str, list[str]] = {}

    @property
    def direction(self) -> str:
        """forward, backward or inference."""
        end = self.graph.rpartition("_")[2]
        return end if end in ("forward", "backward", "inference") else self._direction

    def take(self, m: re.Match[bytes]) -> None:
        """One match of `LINE`."""
        if m["node"] is not None:
            self._node(m["node"], m["kind"])
            return
        part = {k: v.decode("utf-8", "replace") for k, v in m.groupdict().items() if v is not None}
        if "graph" in part:
            self.graph = part["graph"]
        elif "args" in part:
            self._direction = self._direction or _direction(part["args"])
        elif "compiled" in part:
            self._defined[part.get("name", "")] = self._comment
            self._types[part.get("name", "")] = part.get("types", "").split(", ")
            self._comment = _Comment()
        elif "call" in part:
            self._call(part["call"], part["given"])
        elif "run" in part:
            self._call(part["run"], part["passed"])
        else:
            self._note(part)

    def _note(self, part: dict[str, str]) -> None:
        """A line of a comment; those of several nodes may stand one after the other (foreach kernels)."""
        c = self._comment
        if "sources" in part:
            c.sources |= dict.fromkeys(_names(part["sources"]))
            c.aten |= dict.fromkeys(_names(part.get("aten", "")))
            c.ordered = c.ordered and part.get("sort", "").startswith("Topo")
        elif "handle" in part:
            c.handle = part["handle"]
        elif "source" in part and len(c.mapping) < MAX_NODES:
            c.mapping[part["source"]] = _names(part["mapped"])

    def _node(self, name: bytes, kind: bytes) -> None:
        """A line of a fragment: an operation; what it reads stands there, too, as placeholders (since 2.9)."""
        if b" = call_function[" in kind and len(self._comment.nodes) < MAX_NODES:
            self._comment.nodes[name.decode()] = None

    def _call(self, name: str, given: str) -> None:
        if _NO_KERNEL.match(name) or len(self.calls) >= MAX_CALLS:
            return
        own, first = self._comment, self._defined.get(name)
        extern = "." in name
        if not extern and first is None and not own.sources:
            return  # some function of the module, not a kernel
        if first is not None:
            self._defined[name] = _Comment()  # a later call with other nodes shares the code, not the comment
        told = first or _Comment()
        nodes = tuple(told.nodes) or tuple(dict.fromkeys(n for ns in told.mapping.values() for n in ns))
        self.calls.append(
            KernelCall(
                name,
                extern,
                tuple(own.sources or told.sources),
                tuple(own.aten or told.aten),
                nodes,
                tuple(told.mapping.items()),
                own.ordered if own.sources else told.ordered,
                own.handle,
                tuple(dict.fromkeys(_INPUT.findall(given[:MAX_ARGS]))) if extern else (),
                () if extern else _written(self._types.get(name, ()), given),
            )
        )
        self._comment = _Comment()


def read_code(text: bytes) -> CodeReader:
    """A whole file of generated code."""
    reader = CodeReader()
    for m in _LINES.finditer(text):
        reader.take(m)
    return reader


def _written(types: Sequence[str], given: str) -> tuple[str, ...]:
    """The arguments that a C++ kernel writes: pointers to what is not constant (`cpp_pybinding`, since 2.2)."""
    names = given.partition(")")[0].split(", ")
    if len(names) != len(types):
        return ()
    return tuple(n for t, n in zip(types, names, strict=True) if t.endswith("*'") and not t.startswith("'const "))


def _names(text: str) -> tuple[str, ...]:
    return tuple(n for part in text.split(",")[:MAX_NODES] if (n := part.strip()))


def _direction(args: str) -> str:
    """Before `AOT ID` was printed the names of a graph's inputs tell what it computes."""
    if "tangents_" in args:
        return "backward"
    return "forward" if "primals_" in args else "inference"
