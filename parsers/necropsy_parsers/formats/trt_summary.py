"""trtexec's options and summary as JSON, as trt-engine-explorer (trex) writes them beside an engine.

    {"model_options": {"Format": "ONNX", ..}, "build_options": {"Precision": "FP32+FP16", ..}}
    {"performance_summary": {"Throughput": 1155.36, "Latency": [0.85, 0.87, 0.86, 0.86, 0.87], ..},
     "inference_options": {..}, "device_information": {"Selected Device": "NVIDIA A100 80GB PCIe", ..}}

`*.build.metadata.json` and `*.profile.metadata.json` of TensorRT 8.x to 10.x; times are milliseconds.
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

NAME: Final = "trt_summary"
TITLE: Final = "trtexec's options and summary (JSON of trt-engine-explorer)"
PRIORITY: Final = 236
SAMPLES: Final = (
    '{"model_options": {"Format": "ONNX"}, "build_options": {"Max batch": "explicit batch", "Precision": "FP32"}}',
    '{"performance_summary": {"Throughput": 10.5, "Latency": [1, 2, 1.5, 1.5, 2]}, "device_information": {"SMs": 108}}',
)
MAX_BYTES: Final = 4 << 20
_SECTIONS: Final = (
    "model_options", "build_options", "inference_options", "device_information", "system_options", "reporting_options",
)  # fmt: skip
_KEYS: Final = re.compile(rb'"(?:performance_summary|build_options|device_information)"\s*:\s*\{')


def sniff(head: bytes, name: str) -> str | None:
    """Claims objects with at least two of trex's sections."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    known = (*_SECTIONS, "performance_summary")
    if text[:1] == b"{" and _KEYS.search(text) and sum(f'"{k}"'.encode() in text for k in known) >= 2:
        return "JSON with sections of trtexec's output"
    return None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """One `EngineSummary`, and its times as a log tells them."""
    from necropsy_parsers.tensorrt.json_items import Document
    from necropsy_parsers.tensorrt.measured import EngineSummary
    from necropsy_parsers.tensorrt.runs import of_summary

    document = Document(source, issues)
    options = {k: _texts(value) for k in _SECTIONS if isinstance(value := document.value(k), dict)}
    summary = document.value("performance_summary")
    times: dict[str, tuple[float, ...]] = {}
    for name, value in summary.items() if isinstance(summary, dict) else ():
        numbers = value if isinstance(value, list) else [value]
        times[str(name)[:80]] = tuple(n for v in numbers[:64] if (n := number(v)) is not None)
    if not options and not times:
        issues.add("engine/damaged", source.name)
        return
    throughput = times.pop("Throughput", ())
    told = EngineSummary(document.whole(), options, times, throughput[0] if throughput else None, seq=seq)
    yield told
    if (run := of_summary(told)) is not None:
        yield run


def _texts(value: dict[str, Any]) -> dict[str, str]:
    return {str(k)[:80]: str(v)[:400] for k, v in list(value.items())[:200]}
