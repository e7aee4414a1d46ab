"""Paths of modules to lines of the model's source.

The model's class is the one that holds all outermost attributes of the paths; from it, attributes lead to classes and
containers. A module's line is where its owner calls it; an operation's is where its owner's `forward` does it. One such
place is the line, several are listed, none leaves the module's path. A step that leads into a library's class ends at
the user's own call of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from necropsy.finding import MAX_PLACES, Place
from necropsy.provenance.files import SourceTree
from necropsy.provenance.module_classes import APPENDED, Held, ModuleClass, classes_of, items
from necropsy.provenance.module_paths import TRACED, ModulePath, without_call
from necropsy.provenance.module_sites import Site, module_sites, operation_sites

HOW: Final = "module path"
CHOICE: Final = "module path: one of these"
MAX_FILES: Final = 2_000
MENTIONED: Final = 0.6  # share of the outermost attributes that the model's file names; bases may stand in others
MAX_SOUGHT: Final = 100  # names that a file is searched for; logs of many engines have thousands
MAX_WORDS: Final = 12  # of one attribute's name, where a path joins attributes
MAX_CHECKED: Final = 2_000  # paths that a class must explain to be the model
# ONNX operation -> constructors that make it; a class that has another one of these there is another model's.
_MADE_BY: Final[dict[str, str]] = {
    "Conv": "Conv1d Conv2d Conv3d",
    "ConvTranspose": "ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "Gemm": "Linear",
    "MatMul": "Linear Bilinear MultiheadAttention LSTM",
    "BatchNormalization": "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm",
    "Relu": "ReLU ReLU6",
    "Softmax": "Softmax MultiheadAttention",
    "MaxPool": "MaxPool1d MaxPool2d MaxPool3d AdaptiveMaxPool2d",
    "aten.convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "aten.addmm": "Linear Bilinear MultiheadAttention LSTM",
    "aten.linear": "Linear Bilinear MultiheadAttention LSTM",
    "aten.relu": "ReLU ReLU6",
    "aten._softmax": "Softmax MultiheadAttention",
    "aten._native_batch_norm_legit_no_training": "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm",
}
_LEAVES: Final = frozenset(" ".join(_MADE_BY.values()).split()) | frozenset(
    "LayerNorm GroupNorm InstanceNorm2d Dropout Embedding GELU SiLU Sigmoid Tanh Identity Flatten AvgPool2d Upsample "
    "AdaptiveAvgPool2d Hardswish LeakyReLU".split()
)


class Step(Struct, frozen=True):
    """Where a walk along a path ended: the class that owns the last call, its attribute, and how many parts were used.

    `leaf` is the constructor's name of what the path ends at ("" of a class of the user), `inner` that class. `closed`:
    it is a container whose items are all told.
    """

    owner: ModuleClass
    attribute: str
    used: int
    leaf: str
    inner: ModuleClass | None
    call: int = 0
    item: str = ""
    closed: bool = False


class ModelSource:
    """The sources around the inputs, as classes; `paths` are all that are known of the model, which tell its class."""

    def __init__(self, tree: SourceTree, paths: Iterable[ModulePath]) -> None:
        self._texts: dict[str, str] = {}
        self._parsed: dict[str, list[ModuleClass]] = {}
        self._by_name: dict[str, list[ModuleClass]] = {}
        read: set[str] = set()  # copies of a file: the one that lies nearest counts
        for path in tree.python_files(MAX_FILES):
            text = tree.text(path)
            if "self." in text and "forward" in text and text not in read:
                read.add(text)
                self._texts[str(path)] = text
        known = list(paths)
        self._known = known[:MAX_CHECKED]
        self._first = Counter(p.parts[0] for p in known if p.parts)
        self._numbers: dict[tuple[tuple[str, ...], str], set[int]] = {}
        for p in known:
            self._numbers.setdefault((p.parts, p.operation), set()).add(p.number)
        self._roots = self._find_roots()

    def places(self, path: ModulePath) -> tuple[Place, ...]:
        """The lines of a path's call or operation: one, several that it may be, or none."""
        found = [p for root in self._roots if (p := self._in_root(root, path))]
        different = list(dict.fromkeys(found))
        return different[0] if len(different) == 1 else ()

    def _find_roots(self) -> list[ModuleClass]:
        """Classes that hold every outermost attribute, and nothing that contradicts a path; none if none does."""
        if not self._first:
            return []
        names = [(without_call(part) or (part, 0))[0] for part in self._first]
        joined = any(p.operation.startswith(TRACED) for p in self._known)  # see `_spread`
        sought = [name.partition("_")[0] if joined else name for name in names[:MAX_SOUGHT]]
        every = [
            c
            for file, text in self._texts.items()
            if sum(name in text for name in sought) >= MENTIONED * len(sought)
            for c in self._classes(file)
            if self._forward(c) is not None
        ]
        holding = [
            c for c in every if all(self._owned(c, part) or (joined and self._spread(c, part)) for part in self._first)
        ]
        return [c for c in holding if all(self._fits(c, p) for p in self._known if p.parts)]

    def _fits(self, root: ModuleClass, path: ModulePath) -> bool:
        """Whether the path leads through the class: to its end, or to where a library's code begins."""
        path = self._along(root, path)
        step = self._walk(root, path)
        if step is None or _contradicts(step, path):
            return False
        if step.used == len(path.parts):
            return True
        return step.inner is None and not step.closed and step.leaf not in _LEAVES

    def _classes(self, file: str) -> list[ModuleClass]:
        if file not in self._parsed:
            self._parsed[file] = classes_of(file, self._texts[file])
        return self._parsed[file]

    def _named(self, name: str) -> list[ModuleClass]:
        """Classes of that name, in whatever file."""
        if name not in self._by_name:
            files = [f for f, text in self._texts.items() if name and re.search(rf"\bclass {re.escape(name)}\b", text)]
            self._by_name[name] = [c for f in files for c in self._classes(f) if c.name == name]
        return self._by_name[name]

    def _forward(self, c: ModuleClass) -> ModuleClass | None:
        return next((k for k in self._line_of(c) if "forward" in k.methods), None)

    def _line_of(self, c: ModuleClass) -> list[ModuleClass]:
        """The class and its bases, as far as their names are unique."""
        line: list[ModuleClass] = []
        queue = [c]
        while queue and len(line) < 16:
            one = queue.pop(0)
            if one in line:
                continue
            line.append(one)
            queue += [same[0] for b in one.bases if len(same := self._named(b)) == 1]
        return line

    def _held(self, c: ModuleClass, name: str) -> tuple[ModuleClass, list[Held]]:
        for k in self._line_of(c):
            if name in k.held:
                return k, k.held[name]
        return c, []

    def _owned(self, c: ModuleClass, part: str) -> tuple[str, int] | None:
        """The attribute that a part names, and which call of it: `qkv_1` is the second of `qkv`."""
        if self._held(c, part)[1]:
            return part, 0
        shorter = without_call(part)
        return shorter if shorter is not None and self._held(c, shorter[0])[1] else None

    def _in_root(self, root: ModuleClass, path: ModulePath) -> tuple[Place, ...]:
        if not path.parts:
            return self._operation(root, path)
        path = self._along(root, path)
        step = self._walk(root, path)
        if step is None or _contradicts(step, path):
            return ()
        if path.operation and step.used == len(path.parts) and step.inner is not None:
            return self._operation(step.inner, path)
        return self._call(step)

    def _along(self, root: ModuleClass, path: ModulePath) -> ModulePath:
        """A path whose attributes were joined by `_` (see `_spread`) as attributes of the class."""
        if not path.operation.startswith(TRACED) or self._owned(root, path.parts[0]) is not None:
            return path
        parts = self._spread(root, path.parts[0])
        return replace(path, parts=(*parts, *path.parts[1:]), flat=path.parts) if parts else path

    def _spread(self, c: ModuleClass, name: str) -> tuple[str, ...]:
        """`layer1_0_conv1`, as Torch-TensorRT 2.4 writes it, as `layer1`, `0`, `conv1`; () where it fits not once.

        Attributes hold such signs, too: the classes tell which there are.
        """
        words, found = name.split("_"), []
        for count in range(1, min(len(words), MAX_WORDS) + 1):
            attribute, rest = "_".join(words[:count]), words[count:]
            if not self._held(c, attribute)[1]:
                continue
            parts = [attribute]
            while rest and rest[0].isdigit():
                parts.append(rest.pop(0))
            if not rest:
                found.append(tuple(parts))
                continue
            step = self._walk(c, ModulePath(tuple(parts)))
            if step is not None and step.inner is not None and step.used == len(parts):
                inner = self._spread(step.inner, "_".join(rest))
                found += [(*parts, *inner)] if inner else []
        return found[0] if len(found) == 1 else ()

    def _walk(self, root: ModuleClass, path: ModulePath) -> Step | None:
        """Along the attributes, as far as the source tells."""
        owner, at = root, 0
        best: Step | None = None
        while at < len(path.parts):
            owned = self._owned(owner, path.parts[at])
            if owned is None:
                return best
            attribute, call = owned
            where, held = self._held(owner, attribute)
            at += 1
            item = path.parts[at] if at < len(path.parts) else ""
            added = self._held(owner, attribute + APPENDED)[1]
            while at < len(path.parts) and (inner := self._item(held, where, path.parts[at], added)):
                held, at, added = inner, at + 1, []
            step = replace(self._step(owner, attribute, at, held, call), item=item)
            best = step
            if step.inner is None:
                return step
            owner = step.inner
        return best

    def _item(self, held: Sequence[Held], owner: ModuleClass, part: str, added: Sequence[Held]) -> list[Held]:
        """What an item of a container may be; `added` is what was appended to it."""
        found = list(added) if part.isdigit() else []
        for one in held:
            known = items(one, owner)
            found += known.get(part, known.get("*", []) if part.isdigit() else [])
        return found

    def _step(self, owner: ModuleClass, attribute: str, used: int, held: Sequence[Held], call: int) -> Step:
        """What the attribute (or the item of it) is: a class of the user if all that it may be is that one."""
        names = {h.constructor for h in held}
        inner = None
        if len(names) == 1 and len(same := self._named(next(iter(names)))) == 1:
            inner = same[0]
        elif len(names) > 1:  # a helper that makes blocks and what stands between them: the one that has a `forward`
            own = [c for n in names for c in self._named(n)]
            inner = own[0] if len(own) == 1 else None
        leaf = next(iter(names)) if len(names) == 1 and inner is None else ""
        closed = bool(held) and all((known := items(h, owner)) and "*" not in known for h in held)
        return Step(owner, attribute, used, leaf, inner, call, closed=closed)

    def _call(self, step: Step) -> tuple[Place, ...]:
        for k in self._line_of(step.owner):
            if sites := module_sites(k, step.attribute):
                if any(s.item == step.item for s in sites if s.item):
                    sites = [s for s in sites if s.item in ("", step.item)]
                straight = not any(s.loops for s in sites)
                chosen = [sites[step.call]] if straight and 0 < step.call < len(sites) else sites
                if straight and step.call == 0 and len(sites) > 1 and self._calls(step) == len(sites):
                    chosen = sites[:1]
                return _places(k, chosen)
        return ()

    def _calls(self, step: Step) -> int:
        """How often the paths show the attribute called: `qkv`, `qkv_1`."""
        return sum(
            1
            for part in self._first
            if part == step.attribute or ((s := without_call(part)) is not None and s[0] == step.attribute)
        )

    def _operation(self, c: ModuleClass, path: ModulePath) -> tuple[Place, ...]:
        owner = self._forward(c)
        if owner is None:
            return ()
        sites = operation_sites(owner, path.operation)
        straight = not any(s.loops for s in sites)
        every = self._numbers.get((path.flat or path.parts, path.operation), set())
        if path.operation.startswith(TRACED) and straight:
            # They are numbered in the whole graph, and one call may become several of another operation's.
            return _places(owner, [sites[sorted(every).index(path.number)]]) if len(every) == len(sites) else ()
        if len(sites) > 1 and straight and every == set(range(len(sites))) and path.number in every:
            sites = [sites[path.number]]  # as many in the graph as in the source, so that their order tells
        return _places(owner, sites)


def _contradicts(step: Step, path: ModulePath) -> bool:
    """Whether what the path ends at cannot do the operation: the class is another model's."""
    makers = _MADE_BY.get(path.operation, "").split()
    return bool(makers) and step.used == len(path.parts) and step.leaf in _LEAVES and step.leaf not in makers


def _places(owner: ModuleClass, sites: Sequence[Site]) -> tuple[Place, ...]:
    lines = list(dict.fromkeys(sites))
    if len({s.line for s in lines}) == 1:
        site = lines[0]
        return (_place(owner, site, site.line, "line", HOW),)
    if not lines or len(lines) >= MAX_PLACES:
        return ()
    method = owner.methods[lines[0].function]
    whole = Place(owner.file, method.lineno, None, f"{owner.name}.{method.name}", "", "function", HOW)
    return (whole, *(_place(owner, s, s.line, "function", CHOICE) for s in lines))


def _place(owner: ModuleClass, site: Site, line: int, exactness: str, how: str) -> Place:
    text = owner.lines[line - 1].strip() if 0 < line <= len(owner.lines) else ""
    end = site.end_line if site.end_line != line else None
    return Place(owner.file, line, end, f"{owner.name}.{site.function}", text, exactness, how)
