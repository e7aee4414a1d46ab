"""Times by layer of a TensorRT engine, as JSON.

    [ { "count" : 6610 }
    , { "name" : "Conv_0 + Relu_1", "timeMs" : 57.6562, "averageMs" : 0.00872257, "medianMs" : 0.008608,
        "percentage" : 1.85433 } ]

Written by `trtexec --exportProfile` (7.x to 11.x), and by Torch-TensorRT's profiler in the same form. Layers are timed
one by one, with an event between any two, so that their sum exceeds the time of an undisturbed run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "trt_profile"
TITLE: Final = "Times by layer of a TensorRT engine (JSON)"
PRIORITY: Final = 232
SAMPLES: Final = (
    '[\n  { "count" : 6610 }\n, { "name" : "Conv_0", "timeMs" : 57.6, "averageMs" : 0.008, "percentage" : 1.8 }\n]',
    '[{"name": "fc", "timeMs": 3.5, "averageMs": 0.35, "medianMs": 0.35, "percentage": 100}]',
)
MAX_LAYERS: Final = 200_000
_COUNT: Final = re.compile(rb'\[\s*\{\s*"count"\s*:\s*\d+\s*\}')
_TIME: Final = re.compile(rb'"averageMs"\s*:')


def sniff(head: bytes, name: str) -> str | None:
    """Claims lists of objects with `averageMs`."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] != b"[":
        return None
    if _TIME.search(text) and (b'"percentage"' in text or b'"timeMs"' in text):
        return "a JSON list of layers with averageMs"
    return "a JSON list that begins with a count of runs" if _COUNT.match(text) else None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """One `EngineProfile`."""
    from necropsy_parsers.tensorrt.json_items import Document
    from necropsy_parsers.tensorrt.measured import EngineProfile, LayerTime

    document = Document(source, issues)
    count = 0
    layers: list[LayerTime] = []
    for item in document.items(max(document.list_start(""), 0)):
        value = item.value
        if not isinstance(value, dict) or len(layers) >= MAX_LAYERS:
            continue
        if isinstance(value.get("count"), int):
            count = value["count"]
        average = number(value.get("averageMs"))
        if average is None and count and (total := number(value.get("timeMs"))) is not None:
            average = total / count
        if isinstance(value.get("name"), str) and average is not None and average >= 0:
            share = number(value.get("percentage"))
            median = number(value.get("medianMs"))
            layers.append(LayerTime(value["name"], average, median, share / 100 if share is not None else None))
    if not layers:
        issues.add("engine/no-layers", source.name)
        return
    yield EngineProfile(document.whole(), count, tuple(layers), seq=seq)


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
