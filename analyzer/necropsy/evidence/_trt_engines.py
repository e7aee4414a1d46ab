"""Layers, engines and times of TensorRT from several inputs to engines, each told once.

A build's log and the JSON of its engine tell the same layers; a profile tells times of layers by name. They belong
together if they name the same layers, first of all if they lie in one folder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from necropsy_parsers.grammars.tensor_format import TensorFormat
from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt.measured import EngineProfile, EngineSummary
from necropsy_parsers.tensorrt.records import Engine, EngineLayer, EngineTensor, nodes_of

ALIKE: Final = 0.8  # share of a profile's layers that an engine must have to be the one that was timed
_DETAIL: Final = {"full": 2, "line": 1, "names": 0}


class TimedLayer(Struct, frozen=True):
    """A layer with its time a run in milliseconds, None where nothing was measured."""

    layer: EngineLayer
    ms: float | None = None


class EngineView(Struct):
    """One engine: its layers in order, what is told of it, and what of its runs.

    `label` names it in messages. `readers` and `writers` are, by layer, the indices of the layers that take what it
    writes, and that write what it takes. `noted` is for what several rules compute of it.
    """

    key: str
    layers: list[TimedLayer]
    engine: Engine | None = None
    profile: EngineProfile | None = None
    summaries: list[EngineSummary] = field(default_factory=list)
    label: str = ""
    readers: list[list[int]] = field(default_factory=list)
    writers: list[list[int]] = field(default_factory=list)
    summed: tuple[float | None] | None = None
    border: frozenset[str] | None = None
    noted: dict[str, Any] = field(default_factory=dict)

    @property
    def detailed(self) -> bool:
        """Whether types, formats and tactics are told."""
        return any(t.layer.detail == "full" for t in self.layers)

    @property
    def typed(self) -> bool:
        """Whether at least types of tensors are told."""
        return any(t.layer.outputs for t in self.layers)

    @property
    def total_ms(self) -> float | None:
        """Sum of the layers' times, None where they were not measured."""
        return self._total()[0]

    def _total(self) -> tuple[float | None]:
        """The sum, computed once: rules ask for shares of single layers."""
        if self.summed is None:
            told = [t.ms for t in self.layers if t.ms is not None]
            self.summed = (sum(told) if told else None,)
        return self.summed

    def ms(self, indices: Iterable[int]) -> float | None:
        """Time of these layers together, None where nothing was measured."""
        if self.total_ms is None:
            return None
        return sum(self.layers[i].ms or 0.0 for i in set(indices))

    def share(self, indices: Iterable[int]) -> float | None:
        """Their share of all layers' time."""
        spent, total = self.ms(indices), self.total_ms
        return spent / total if spent is not None and total else None

    @property
    def network_tensors(self) -> frozenset[str]:
        """Names of the network's inputs and outputs: as told, else what no layer writes, or no layer reads."""
        if self.border is None:
            self.border = self._border()
        return self.border

    def _border(self) -> frozenset[str]:
        if self.engine is not None and self.engine.bindings:
            return frozenset(self.engine.bindings)
        read = {t.name for x in self.layers for t in x.layer.inputs}
        written = {t.name for x in self.layers for t in x.layer.outputs}
        return frozenset(read ^ written)

    @property
    def compute_ms(self) -> float | None:
        """Mean time of an undisturbed run on the GPU, from trtexec's summary."""
        for summary in self.summaries:
            times = summary.times.get("GPU Compute Time") or summary.times.get("Latency")
            if times and len(times) >= 3:
                return times[2]  # min, max, mean, median, percentiles
        return None


def engines(
    layers: Sequence[EngineLayer],
    told: Sequence[Engine],
    profiles: Sequence[EngineProfile],
    summaries: Sequence[EngineSummary],
) -> list[EngineView]:
    """One view an engine, in the order in which they were read."""
    grouped: dict[str, list[EngineLayer]] = defaultdict(list)
    for layer in layers:
        grouped[layer.engine].append(layer)
    views = [EngineView(key, [TimedLayer(x) for x in group]) for key, group in grouped.items()]
    records = {e.engine: e for e in told}
    for view in views:
        view.engine = records.get(view.key)
    views = _once(views)
    _timed(views, profiles)
    beside: dict[str, list[EngineSummary]] = defaultdict(list)
    for summary in summaries:
        beside[_folder(summary.anchor.input)].append(summary)
    for view in views:
        view.summaries = list(summaries) if len(views) == 1 else list(beside[_folder(view.key)])
        view.writers, view.readers = _edges([t.layer for t in view.layers])
    for view, label in zip(views, _labels([v.key for v in views]), strict=True):
        view.label = label
    return views


def _once(views: list[EngineView]) -> list[EngineView]:
    """Without engines that another input tells better: a log's lines beside the JSON of the same build."""
    kept: list[EngineView] = []
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)  # places in `kept` by the names of all layers
    for view in views:
        same = alike[tuple(t.layer.name for t in view.layers)]
        place = next((p for p in same if _one_build(kept[p], view)), None)
        if place is None:
            same.append(len(kept))
            kept.append(view)
            continue
        twin = kept[place]
        better, other = sorted((twin, view), key=lambda v: -max(_DETAIL[t.layer.detail] for t in v.layers))
        merged = [_filled(a.layer, b.layer) for a, b in zip(better.layers, other.layers, strict=True)]
        kept[place] = EngineView(better.key, [TimedLayer(x) for x in merged], better.engine or other.engine)
    return kept


def _one_build(a: EngineView, b: EngineView) -> bool:
    """Whether two inputs may tell one build: not of two JSON files, which are two engines until shown otherwise."""
    details = {max((t.layer.detail for t in v.layers), key=lambda d: _DETAIL[d]) for v in (a, b)}
    tactics = [
        [t.layer.tactic_value or t.layer.tactic for t in v.layers if t.layer.tactic_value or t.layer.tactic]
        for v in (a, b)
    ]
    return len(details) == 2 and (not all(tactics) or tactics[0] == tactics[1] or _folder(a.key) == _folder(b.key))


def _filled(layer: EngineLayer, other: EngineLayer) -> EngineLayer:
    """The layer with what only the other input tells of it."""
    changes: dict[str, object] = {}
    for name in ("type", "inputs", "outputs", "tactic", "tactic_value", "stream", "metadata"):
        if getattr(layer, name) in ("", (), None) and getattr(other, name) not in ("", (), None):
            changes[name] = getattr(other, name)
    if changes.get("metadata"):
        changes["nodes"] = nodes_of(layer.name, str(changes["metadata"]))
    return replace(layer, **changes) if changes else layer


def _timed(views: list[EngineView], profiles: Sequence[EngineProfile]) -> None:
    """Give each profile to the engine that it timed; one that fits none is an engine of which names are told."""
    for profile in profiles:
        names = [t.name for t in profile.layers]
        free = [v for v in views if v.profile is None]
        fitting = [v for v in free if _overlap(names, v) >= ALIKE]
        beside = [v for v in fitting if _folder(v.key) == _folder(profile.anchor.input)]
        fitting = beside or fitting
        best = max(fitting, key=lambda v: (_overlap(names, v), _prefix(v.key, profile.anchor.input)), default=None)
        if best is None:
            best = EngineView(profile.anchor.input, [TimedLayer(x) for x in _named(profile)])
            views.append(best)
        best.profile, best.summed = profile, None
        times: dict[str, list[float]] = defaultdict(list)
        for timed in profile.layers:
            times[timed.name].append(timed.average)
        best.layers = [
            TimedLayer(t.layer, times[t.layer.name].pop(0) if times.get(t.layer.name) else None) for t in best.layers
        ]


def _overlap(names: Sequence[str], view: EngineView) -> float:
    own = {t.layer.name for t in view.layers}
    return sum(name in own for name in names) / max(len(names), 1)


def _prefix(a: str, b: str) -> int:
    """How many characters two names share: `fp16.layers.json` goes with `fp16.profile.json`."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def _named(profile: EngineProfile) -> list[EngineLayer]:
    where = profile.anchor
    return [
        EngineLayer(
            Anchor(where.input, where.start, where.end, where.line, t.name[:200]),
            where.input,
            index,
            t.name,
            nodes=nodes_of(t.name),
            seq=profile.seq,
        )
        for index, t in enumerate(profile.layers)
    ]


def _folder(name: str) -> str:
    return name.replace("\\", "/").partition("#")[0].rpartition("/")[0]


def _labels(keys: Sequence[str]) -> list[str]:
    """The shortest ends of the names that tell the engines apart; the folders, where each is in its own."""
    if len(keys) == 1:
        return [""]
    parts = [k.replace("\\", "/").split("/") for k in keys]
    for depth in range(1, max((len(p) for p in parts), default=1) + 1):
        labels = ["/".join(p[-depth:]) for p in parts]
        if len(set(labels)) == len(labels):
            break
    folders = [label.rpartition("/")[0] for label in labels]
    return folders if all(folders) and len(set(folders)) == len(folders) else labels


def _edges(layers: Sequence[EngineLayer]) -> tuple[list[list[int]], list[list[int]]]:
    """Who wrote what each layer reads, and who reads what it writes. Names of Myelin's buffers are used again."""
    writers: list[list[int]] = [[] for _ in layers]
    readers: list[list[int]] = [[] for _ in layers]
    last: dict[str, int] = {}
    for index, layer in enumerate(layers):
        for tensor in layer.inputs:
            if (writer := last.get(tensor.name)) is not None and writer not in writers[index]:
                writers[index].append(writer)
                readers[writer].append(index)
        for tensor in layer.outputs:
            last[tensor.name] = index
    return writers, readers


def precision(tensors: Sequence[EngineTensor]) -> str:
    """Types of the tensors, each once, in their order: `int8`, `int8+fp16`."""
    return "+".join(dict.fromkeys(t.dtype for t in tensors if t.dtype))


def layouts(tensors: Sequence[EngineTensor]) -> list[str]:
    """Layouts of the tensors in their order."""
    return [_shown(t.format) for t in tensors]


def _shown(form: TensorFormat) -> str:
    """`int8 CHW32`; `int8:32` where a log's line tells the size of vectors only."""
    if form.layout:
        return f"{form.dtype or '?'} {form.layout}"
    return f"{form.dtype or '?'}{f':{form.pack}' if form.pack > 1 else ''}"
