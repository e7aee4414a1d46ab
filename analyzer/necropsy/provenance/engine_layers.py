"""Layers of engines to the user's code: by the ONNX nodes in them to modules, and to lines of `forward`.

In this order: the stack that a dynamo export kept in the node's metadata; the place in a node of TorchScript, unless it
is in a library; else the module's path, from the node's name
or from a weight beside it, resolved in the model's source. A layer of several nodes is where its product or convolution
is; without one, where all its nodes are. A reformat is of the layer that it serves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from necropsy_parsers.grammars import layer_name
from necropsy_parsers.tensorrt.records import EngineLayer

from necropsy.finding import MAX_PLACES, Place
from necropsy.provenance.files import SourceTree
from necropsy.provenance.frames import is_library
from necropsy.provenance.module_paths import TRACED, ModulePath, common, module_path, script_node
from necropsy.provenance.modules import ModelSource

if TYPE_CHECKING:
    from necropsy.evidence.onnx_nodes import OnnxNodeRow

HOW: Final = "stack in the ONNX node's metadata"
SCRIPTED: Final = "place in the TorchScript node's text"
MANY: Final = 24  # nodes of a region above this are no one's line
_PRODUCT: Final = re.compile(
    r"(?:^|[/_.\]])(?:(?:de)?conv(?:olution|transpose)?(?:[1-3]d)?|gemm|mat_?mul|linear|fullyconnected|fc|einsum|b?mm)(?:_?\d+)*$",
    re.I,
)
_OPERATIONS: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum", "LSTM", "GRU"}) | {
    f"{TRACED}{name}" for name in ("convolution", "addmm", "mm", "bmm", "baddbmm", "matmul", "linear")
}
_QDQ: Final = re.compile(r"(?:de)?quantize(?:linear)?", re.I)


class LayerPlaces:
    """Resolves layers of all engines of an analysis; reads the sources once, when the first layer asks."""

    def __init__(self, layers: Iterable[EngineLayer], nodes: Mapping[str, OnnxNodeRow], tree: SourceTree) -> None:
        self._layers = list(layers)
        self._nodes = nodes
        self._tree = tree
        self._source: ModelSource | None = None

    def of(self, layer: EngineLayer) -> tuple[Place, ...]:
        """Places of a layer: its one line, or several that it may be; () where only the module is known, or nothing."""
        main = self._main(layer)
        if main and (places := self.of_node(main)):
            return places
        nodes = [n for n in layer.nodes if not _QDQ.search(n)]
        if not nodes or len(nodes) > MANY or layer_name.parse(layer.name).region:
            return ()
        found = [p for n in nodes if (p := self.of_node(n))]
        certain = list(dict.fromkeys(p[0] for p in found if p[0].exactness == "line"))
        if len({(p.file, p.line) for p in certain}) == 1 and len(certain) == len({p[0] for p in found}):
            return (certain[0],)
        return found[0] if len(found) == 1 else ()

    def all_of(self, layers: Iterable[EngineLayer]) -> tuple[Place, ...]:
        """Places of several layers, each once, at most as many as a finding may name."""
        places: dict[tuple[str, int | None], Place] = {}
        for layer in layers:
            for place in self.of(layer):
                places.setdefault((place.file, place.line), place)
        return tuple(places.values())[:MAX_PLACES]

    def module(self, layer: EngineLayer) -> str:
        """Path of the module around a layer's main node, as Python writes it; "" where nothing tells."""
        main = self._main(layer)
        if main:
            row = self._nodes.get(main)
            if row is not None and row.module:
                return row.module
            if (path := self._path(main)) is not None and path.shown:
                return path.shown
        paths = [p for n in layer.nodes if (p := module_path(n)) is not None]
        own = [p for p in paths if not p.operation] or paths
        return ModulePath(common(own)).shown if own else ""

    def shown(self, layer: EngineLayer) -> str:
        """The layer in a sentence: its main node, and its module where the node's name does not tell it."""
        name = layer_name.parse(layer.name)
        what = (
            self._main(layer) or next((n for n in layer.nodes if not _QDQ.search(n)), "") or next(iter(layer.nodes), "")
        )
        if name.kind == "reformat":
            return f"the reformat for {name.side} {name.index} of {_plain(what or name.target)}"
        if name.region and len(layer.nodes) > 1:
            return f"the region {_plain(layer.nodes[0])}…{_plain(layer.nodes[-1])}"
        module = self.module(layer)
        if (script := script_node(what)) is not None:
            return f"{module} ({script.operation})" if module else script.operation
        path = module_path(what)
        if module and path is not None and path.operation.startswith(TRACED):
            return f"{module} ({_short(what.rpartition('/')[2])})"
        plain = _short(what or layer.name)
        return f"{plain} ({module})" if module and not what.startswith("/") else plain

    def _main(self, layer: EngineLayer) -> str:
        """The node that the layer is about: its product or convolution, if it has one such."""
        products = [n for n in layer.nodes if self._is_product(n)]
        if products:
            return products[0]
        return layer.nodes[0] if len(layer.nodes) == 1 else ""

    def _is_product(self, node: str) -> bool:
        row = self._nodes.get(node)
        if row is not None:
            return row.op in _OPERATIONS
        script = script_node(node)
        if script is not None:
            return f"{TRACED}{script.operation}" in _OPERATIONS
        path = module_path(node)
        if path is not None:
            return path.operation in _OPERATIONS
        return _PRODUCT.search(node) is not None and not _QDQ.search(node)

    def _path(self, node: str) -> ModulePath | None:
        """The module path of a node: its own, else of the weight that stands before it in a layer (`Conv_22`)."""
        path = module_path(node)
        if path is not None:
            return path
        for layer in self._by_node().get(node, ()):
            at = layer.nodes.index(node)
            weights = [p for n in layer.nodes[:at] if (p := module_path(n)) is not None and not p.operation]
            if weights:
                return weights[-1]
        return None

    def _by_node(self) -> dict[str, list[EngineLayer]]:
        if not hasattr(self, "_index"):
            self._index: dict[str, list[EngineLayer]] = {}
            for layer in self._layers:
                for node in layer.nodes:
                    self._index.setdefault(node, []).append(layer)
        return self._index

    def of_node(self, node: str) -> tuple[Place, ...]:
        """Places of a network node."""
        row = self._nodes.get(node)
        if row is not None and row.file:
            return (Place(row.file, row.line, None, row.function, row.text, "line", HOW),)
        script = script_node(node)
        if script is not None and script.line is not None and not is_library(script.file):
            return (Place(script.file, script.line, None, "", "", "line", SCRIPTED),)
        path = self._path(node)
        return self._model().places(path) if path is not None else ()

    def _model(self) -> ModelSource:
        if self._source is None:
            names = {n for layer in self._layers for n in layer.nodes} | set(self._nodes)
            self._source = ModelSource(self._tree, [p for n in sorted(names) if (p := module_path(n)) is not None])
        return self._source


def _plain(node: str) -> str:
    """A node in a sentence; one of TorchScript, a long line, by its module and operation."""
    script = script_node(node)
    if script is None:
        return _short(node)
    shown = script.path.shown if script.path is not None else ""
    return f"{shown} ({script.operation})" if shown else script.operation


def _short(name: str, limit: int = 60) -> str:
    """A name for a sentence: its end, which tells most, where it is long."""
    return name if len(name) <= limit else "…" + name[-limit + 1 :]
