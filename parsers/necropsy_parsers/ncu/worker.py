"""Decodes some launches of a report with NVIDIA's library, in a process of its own: `python -m ... FILE FIRST COUNT`.

The library keeps what it has decoded for as long as the report is open, and it is native code that reads a file of
unknown origin: a process that ends after ten launches bounds both. Each launch is written to standard output
as soon as it is known, as one length and one msgpack message, so that a crash costs only what comes after it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

from necropsy_parsers.ncu.metrics import by_identity, wanted
from necropsy_parsers.ncu.records import FAIL, INFORM, OPTIMIZE, WARN, NvtxRange, RuleResult
from necropsy_parsers.ncu.units import factor
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame

MEMORY: Final = 4 << 30  # bytes of address space: a damaged length must not take the machine's memory
MAX_RANGES: Final = 50
# Their sources are not the user's: looking for line information costs a twentieth of a second a launch.
_LIBRARY: Final = lazily(
    r"\b(?:at|c10|cub|thrust|cutlass|cute|cudnn|nccl|flash\w*)::|nvjet|cublas|cudnn|xmma|nccl|gemmSN"
)
_SECTION: Final = lazily(r"@section:[^:@]*:([^@]*)@")
_URL: Final = lazily(r"@url:([^:@]*):([^@]*)@")
_SCALES: Final[dict[str, float | None]] = {}
_KINDS: Final = {2: OPTIMIZE, 3: WARN, 4: FAIL}  # MsgType of ncu_report: 0 none, 1 OK


class Decoded(Struct, frozen=True):
    """What the library says of a launch; the rest is in the file's frames."""

    index: int
    function: str
    kernel: str
    metrics: dict[str, float]
    attributes: dict[str, str]
    sections: tuple[str, ...]
    rules: tuple[RuleResult, ...]
    ranges: tuple[NvtxRange, ...]
    source: Frame | None
    workload: str


class Opened(Struct, frozen=True):
    """The first message: how many launches the report has."""

    launches: int


Message = Opened | Decoded


def main(path: str, first: int, count: int) -> None:
    """Write the launches `first` to `first + count` of the report at `path`."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the library prints is no message
    _limit()
    actions = list(_actions(import_module("ncu_report").load_report(path)))
    _send(out, {"launches": len(actions)})
    for index in range(first, min(first + count, len(actions))):
        owner, number = actions[index]
        _send(out, msgspec.to_builtins(_decoded(owner.action_by_idx(number), index)))


def _limit() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _actions(report: Any) -> Iterator[tuple[Any, int]]:
    """Ranges of the report with the number of a launch within."""
    for r in range(report.num_ranges()):
        owner = report.range_by_idx(r)
        yield from ((owner, number) for number in range(owner.num_actions()))


def _send(out: BinaryIO, message: Any) -> None:
    data = msgspec.msgpack.encode(message)
    out.write(len(data).to_bytes(4, "little") + data)
    out.flush()


def _decoded(action: Any, index: int) -> Decoded:
    kernel = str(action.name(action.NameBase_DEMANGLED))
    metrics, attributes = _metrics(action)
    return Decoded(
        index,
        str(action.name(action.NameBase_FUNCTION)),
        kernel,
        metrics,
        attributes,
        tuple(sorted(str(s.identifier()) for s in action.sections() if not str(s.identifier()).startswith("section"))),
        tuple(_rules(action)),
        tuple(_ranges(action)),
        None if _LIBRARY.search(kernel) else _source(action),
        _workload(action),
    )


def _metrics(action: Any) -> tuple[dict[str, float], dict[str, str]]:
    numbers: dict[str, float] = {}
    words: dict[str, str] = {}
    for name in action.metric_names():
        if not wanted(name):
            continue
        metric = action.metric_by_name(name)
        if metric is None or not metric.has_value():
            continue
        scale = _scale(metric, name)
        if scale is None:
            if by_identity(name):
                words[name] = str(metric.as_string())
            continue
        value = float(metric.as_double())
        if value - value == 0:  # neither nan nor infinite
            numbers[name] = value * scale
    return numbers, words


def _scale(metric: Any, name: str) -> float | None:
    """By what its values are multiplied for base units; None for words. The same in all launches of a report."""
    if name not in _SCALES:
        _SCALES[name] = None if metric.kind() == metric.ValueKind_STRING else factor(metric.unit())
    return _SCALES[name]


def _rules(action: Any) -> Iterator[RuleResult]:
    """Results that say something."""
    for result in action.rule_results_as_dicts():
        message = result.get("rule_message")
        if not message:
            continue
        speedup = result.get("speedup_estimation") or {}
        yield RuleResult(
            str(result.get("rule_identifier", "")),
            str(result.get("section_identifier", "")),
            _KINDS.get(int(message.get("type", 1)), INFORM),
            str(message.get("title", "")),
            _plain(str(message.get("message", ""))),
            float(speedup["speedup"]) if "speedup" in speedup else None,
            {1: "local", 2: "global"}.get(int(speedup["type"]), "unknown") if "type" in speedup else "",
            tuple(str(f["name"]) for f in result.get("focus_metrics", ())),
        )


def _plain(message: str) -> str:
    """Words as text pages print them: `@section:Occupancy:Occupancy@` links, `@url:Guide:https://..@` is quoted."""
    message = _URL.sub(r"\1 (\2)", message)
    return " ".join(_SECTION.sub(r"\1", message).split())


def _ranges(action: Any) -> Iterator[NvtxRange]:
    """NVTX ranges that were open, the outermost first."""
    state = action.nvtx_state()
    if state is None:
        return
    left = MAX_RANGES
    for number in state.domains():
        domain = state.domain_by_id(number)
        name = str(domain.name())
        name = "" if name == "<default domain>" else name
        for kind, found in (("push", domain.push_pop_ranges()), ("start", domain.start_end_ranges())):
            for text in found:
                if left:
                    left -= 1
                    yield NvtxRange(name, str(text), kind)


def _source(action: Any) -> Frame | None:
    """File and first line of the kernel's code, from its first instruction that has line information."""
    metric = action.metric_by_name("inst_executed")
    if metric is None or not metric.has_correlation_ids():
        return None
    addresses = metric.correlation_ids()
    for k in range(min(addresses.num_instances(), 20)):
        info = action.source_info(addresses.as_uint64(k))
        if info is not None and info.file_name():
            return Frame(str(info.file_name()), int(info.line()))
    return None


def _workload(action: Any) -> str:
    kind = action.workload_type() if hasattr(action, "workload_type") else None
    for word in ("KERNEL", "RANGE", "GRAPH", "CMDLIST"):
        if kind is not None and kind == getattr(action, f"WorkloadType_{word}", object()):
            return word.lower()
    return "kernel"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
