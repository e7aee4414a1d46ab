"""Times of single runs of a TensorRT engine, as JSON.

    [ { "startEnqMs" : 0.1, "endEnqMs" : 0.4, "startH2dMs" : 0, "endH2dMs" : 0.1, "startComputeMs" : 0.2,
        "endComputeMs" : 0.9, "startD2hMs" : 0.9, "endD2hMs" : 1.0, "h2dMs" : 0.1, "computeMs" : 0.7, "d2hMs" : 0.1,
        "latencyMs" : 0.9 }, .. ]

Written by `trtexec --exportTimes`; before TensorRT 8.5 the copies are called `inMs` and `outMs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from necropsy_parsers.formats.trt_profile import number
from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "trt_times"
TITLE: Final = "Times of runs of a TensorRT engine (JSON)"
PRIORITY: Final = 234
SAMPLES: Final = (
    '[\n  { "startEnqMs" : 0.1, "endEnqMs" : 0.4, "startComputeMs" : 0.2, "endComputeMs" : 0.9, "computeMs" : 0.7 }\n]',
    '[{"startInMs": 0, "endInMs": 0.1, "startComputeMs": 0.1, "inMs": 0.1, "computeMs": 0.7, "outMs": 0.1}]',
)
MAX_RUNS: Final = 1_000_000
_KEYS: Final = re.compile(rb'"(?:startComputeMs|endComputeMs)"\s*:')


def sniff(head: bytes, name: str) -> str | None:
    """Claims lists of objects with `startComputeMs`."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return "a JSON list of runs with computeMs" if text[:1] == b"[" and _KEYS.search(text) else None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """One `EngineRuns`, and the same as a log tells it."""
    from necropsy_parsers.tensorrt.json_items import Document
    from necropsy_parsers.tensorrt.measured import EngineRuns
    from necropsy_parsers.tensorrt.runs import of_runs

    document = Document(source, issues)
    columns: dict[str, list[float]] = {k: [] for k in ("compute", "latency", "enqueue", "to_device", "from_device")}
    for item in document.items(max(document.list_start(""), 0)):
        value = item.value
        if not isinstance(value, dict) or len(columns["compute"]) >= MAX_RUNS:
            continue
        ran = _span(value, "computeMs", "startComputeMs", "endComputeMs")
        if ran is None:
            continue
        columns["compute"].append(ran)
        for column, told in (
            ("latency", _span(value, "latencyMs", "", "")),
            ("enqueue", _span(value, "enqMs", "startEnqMs", "endEnqMs")),
            ("to_device", _first(value, "h2dMs", "inMs")),
            ("from_device", _first(value, "d2hMs", "outMs")),
        ):
            if told is not None and told >= 0:
                columns[column].append(told)
    if not columns["compute"]:
        issues.add("engine/no-layers", source.name)
        return
    compute, latency, enqueue, to_device, from_device = (tuple(v) for v in columns.values())
    runs = EngineRuns(document.whole(), compute, latency, enqueue, to_device, from_device, seq=seq)
    yield runs
    yield of_runs(runs)


def _span(value: dict[str, Any], key: str, start: str, end: str) -> float | None:
    """The duration under `key`, or between two times; None where neither is told or it is negative."""
    told = number(value.get(key))
    if told is None:
        first, last = number(value.get(start)), number(value.get(end))
        told = last - first if first is not None and last is not None else None
    return told if told is not None and told >= 0 else None


def _first(value: dict[str, Any], *keys: str) -> float | None:
    return next((n for k in keys if (n := number(value.get(k))) is not None), None)
