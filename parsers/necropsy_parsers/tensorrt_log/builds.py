"""Builds and runs of a tool: what was asked for, what was measured, how it ended.

An input may hold several: a service loads and builds engines one after the other, a script runs trtexec in a loop.
A new one begins with trtexec's first line, with another model, or with the builder's first words after an end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.numbers import decimal, whole
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import UNKNOWN, Anchor, Origin, Record
from necropsy_parsers.tensorrt.measured import EngineSummary
from necropsy_parsers.tensorrt_log.records import Quantiles, TrtBuild, TrtMemory, TrtReformat, TrtRun

_FLAG: Final = re.compile(r"--(\w+)(?:[= ]([^\s-]\S*))?")
_METRIC: Final = re.compile(r"(min|max|mean|median|percentile\((\d+(?:\.\d+)?)%?\)) = ([\d.]+(?:e[+-]\d+)?)(?: ms)?")
# Options of trtexec (samples/common/sampleOptions.cpp): printed under the same names from 7.x to 11.x.
OPTIONS: Final = (
    "Precision", "Calibration", "Memory Pools", "Workspace", "Sparsity", "CUDA Graph", "Inference Streams", "Streams",
    "Strongly Typed", "LayerPrecisions", "Layer Precisions", "Precision Constraints", "BuilderOptimizationLevel",
    "timingCacheMode", "Skip inference", "Input(s)s format", "Load engine",
)  # fmt: skip
_MEMORY: Final = (
    ("Total Host Persistent Memory", "host persistent"), ("Total Device Persistent Memory", "device persistent"),
    ("Total Scratch Memory", "scratch"), ("Max Scratch Memory", "scratch"), ("Total Activation Memory", "activation"),
    ("Total Weights Memory", "weights"),
)  # fmt: skip
_NAMES: Final = {
    "Latency": "latency", "Enqueue Time": "enqueue", "H2D Latency": "h2d", "GPU Compute Time": "compute",
    "D2H Latency": "d2h",
}  # fmt: skip
_PARTS: Final = {
    "Latency": "latency", "Enqueue Time": "enqueue", "H2D Latency": "h2d", "GPU Compute Time": "compute",
    "D2H Latency": "d2h", "Host Latency": "latency", "GPU Compute": "compute",
}  # fmt: skip


class Open(Struct):
    """A build while it is read: what becomes its records."""

    number: int
    anchor: Anchor
    seq: int
    told: dict[str, object] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    release: tuple[int, ...] = ()
    cached: bool = False  # the builder's line about its timing cache, once a build, was seen
    run: dict[str, object] = field(default_factory=dict)
    run_anchor: Anchor | None = None
    last: int = 0

    @property
    def over(self) -> bool:
        """Whether the build ended, one way or the other."""
        return bool(self.told.get("finished") or self.told.get("outcome") or self.told.get("failed"))


def begins(b: Open, starts: str) -> bool:
    """Whether a line that may begin a build (see `Fact.starts`) begins another than `b`."""
    tool, model = b.told.get("tool"), b.told.get("model")
    if starts == "always":
        return bool(tool or b.over or model)
    if starts == "model":
        return bool((model or b.over) and (model or not tool))
    return bool(starts == "builder" and b.over and not tool) or bool(starts == "cache" and b.cached and not tool)


def flags_of(command: str) -> dict[str, str]:
    """Options of a command line: name -> value, "" of a switch."""
    return {m[1]: m[2] or "" for m in _FLAG.finditer(command)}


def release_of(text: str) -> tuple[int, ...]:
    """A version: `8.6.0`, or trtexec's `8600`, `8204` (8.2.4), `101100` (10.11.0)."""
    if "." in text:
        return tuple(n for p in text.split(".")[:4] if (n := whole(p)) is not None)
    value = whole(text)
    if value is None:
        return ()
    if value >= 100_000:  # since 10.0: major * 10000 + minor * 100 + patch
        return value // 10_000, value // 100 % 100, value % 100
    if value >= 10_000:
        return value // 10_000, value // 100 % 100, value % 100
    return (value // 1000, value // 100 % 10, value % 100) if value >= 1000 else ()


def _tool(b: Open, m: re.Match[str]) -> None:
    b.told.setdefault("tool", m["tool"])
    if m["version"]:
        b.release = release_of(m["version"])
    if m["command"]:
        b.told["command"] = m["command"].strip()
        b.flags.update(flags_of(m["command"]))


def _ended(b: Open, m: re.Match[str]) -> None:
    if "command" not in b.told:
        _tool(b, m)
    b.told["outcome"] = m["outcome"].lower()


def _version(b: Open, m: re.Match[str]) -> None:
    found = release_of(m["version"])
    if len(found) >= len(b.release) or found[:1] != b.release[:1]:
        b.release = found


def _producer(b: Open, m: re.Match[str]) -> None:
    b.told["producer"] = f"{b.told.get('producer', '')} {m['value'].strip()}".strip()


def _value(name: str, convert: Callable[[str], object | None] = str) -> Callable[[Open, re.Match[str]], None]:
    def take(b: Open, m: re.Match[str]) -> None:
        value = m["value"].strip()
        told = convert(value) if value else None
        if told is not None:
            b.told[name] = told

    return take


def _finished(b: Open, m: re.Match[str]) -> None:
    b.told["finished"] = True
    b.told["ended"] = b.last
    if (seconds := decimal(m["value"])) is not None:
        b.told["seconds"] = seconds


def _polygraphy(b: Open, m: re.Match[str]) -> None:
    """Its table of the configuration, as trtexec would tell it; the pool there is all memory unless it was set."""
    b.options.setdefault("Precision", "+".join(("FP32", *re.findall(r"\w+", m["flags"]))))


def _option(b: Open, m: re.Match[str]) -> None:
    b.options.setdefault(m["option"], m["value"].strip())


def _flag(name: str) -> Callable[[Open, re.Match[str]], None]:
    def take(b: Open, _: re.Match[str]) -> None:
        b.told[name] = True

    return take


def _quantiles(text: str) -> Quantiles:
    plain: dict[str, float] = {}
    percentiles: dict[str, float] = {}
    for m in _METRIC.finditer(text):
        if (value := decimal(m[3])) is None:
            continue
        if m[2]:
            percentiles[m[2]] = value
        else:
            plain[m[1]] = value
    return Quantiles(plain.get("min"), plain.get("max"), plain.get("mean"), plain.get("median"), percentiles)


def _part(b: Open, m: re.Match[str]) -> None:
    b.run[_PARTS[m["part"]]] = _quantiles(m["value"])


def _measured(name: str) -> Callable[[Open, re.Match[str]], None]:
    def take(b: Open, m: re.Match[str]) -> None:
        if (value := decimal(m["value"])) is not None:
            b.run[name] = value

    return take


class Fact(Struct, frozen=True):
    """A line that tells something of a build: its literal, its pattern, and where that goes."""

    literal: str
    pattern: re.Pattern[str]
    take: Callable[[Open, re.Match[str]], None]
    starts: str = ""  # "always", "model", "builder": when a new build begins here
    measures: bool = False

    @property
    def fails(self) -> bool:
        """Whether the line says that the tool failed."""
        return self.literal == _FAILED


def _fact(
    literal: str, pattern: str, take: Callable[[Open, re.Match[str]], None], starts: str = "", *, measures: bool = False
) -> Fact:
    return Fact(literal, lazily(pattern), take, starts, measures)


_FAILED: Final = "&&&& FAILED"
_LAST: Final = (
    r"&&&& (?P<outcome>PASSED|FAILED) (?P<tool>[\w.]+)(?: \[TensorRT v(?P<version>\d+)\](?: \[\w+\])?)?"
    r" ?(?:# ?(?P<command>.*))?"
)
QUANTIZED_LITERAL: Final = "[QuantizeLinear]"
_SECONDS: Final = r"(?P<value>[\d.]+) sec"
FACTS: Final = (
    _fact("&&&& RUNNING", _LAST.replace("PASSED|FAILED", "RUNNING"), _tool, "always"),
    _fact("&&&& PASSED", _LAST, _ended),
    _fact(_FAILED, _LAST, _ended),
    _fact("TensorRT version: ", r"TensorRT version: (?P<version>[\d.]+)", _version),
    _fact("TensorRT Version: ", r"TensorRT Version: (?P<version>[\d.]+)", _version),
    _fact("tensorrt==", r"tensorrt==(?P<version>\d+\.[\d.]+)", _version),
    _fact(
        "nvinfer_builder_resource",
        r"nvinfer_builder_resource\w*?[._](?:so\.|win\.so\.)?(?P<version>\d+(?:\.\d+)*)", _version,
    ),
    _fact("libnvinfer.so.", r"libnvinfer\.so\.(?P<version>\d+(?:\.\d+)*)", _version),
    _fact("target compute capabilities: ", r"Number of target compute capabilities", _flag("rtx")),
    _fact("tensorrt_rtx", r"tensorrt_rtx", _flag("rtx")),
    _fact("Input filename: ", r"Input filename: +(?P<value>.*)", _value("model"), "model"),
    _fact("Opset version: ", r"Opset version: +(?P<value>\d+)", _value("opset", whole)),
    _fact("Producer name: ", r"Producer name: +(?P<value>.*)", _producer),
    _fact("Producer version: ", r"Producer version: +(?P<value>.*)", _producer),
    _fact("Selected Device: ", r"Selected Device: (?P<value>.*)", _value("device")),
    _fact("Compute Capability: ", r"Compute Capability: (?P<value>[\d.]+)", _value("capability")),
    _fact("Init CUDA", r"\[MemUsageChange\] Init CUDA", _flag("initialised"), "builder"),
    _fact("timing cache in use", r"(?:Local|Global) timing cache in use", _flag("optimised"), "cache"),
    _fact("Engine generation completed in ", rf"Engine generation completed in {_SECONDS}", _finished),
    _fact("Engine built in ", rf"Engine built in {_SECONDS}", _finished),
    _fact("Finished engine building in ", rf"Finished engine building in {_SECONDS}", _finished),  # Polygraphy
    _fact("Total time of building ", r"\[TRT-LLM\] \[I\] Total time of building [^\n]*?(?P<value>)$", _finished),
    _fact("Flags             ", r"^\s*Flags +\| \[(?P<flags>[\w, ]*)\]", _polygraphy),
    _fact(QUANTIZED_LITERAL, r"Parsing node: .*\[QuantizeLinear\]", _flag("quantized")),
    *(_fact(f"] {o}: ", rf"\] (?P<option>{re.escape(o)}): (?P<value>.*)", _option) for o in OPTIONS),
    _fact("hroughput: ", r"[Tt]hroughput: (?P<value>[\d.]+) qps", _measured("throughput"), measures=True),
    *(
        _fact(f"{p}: min = ", rf"\] {p}: (?P<value>min = .*)".replace(f"{p}:", f"(?P<part>{p}):"), _part, measures=True)
        for p in _PARTS
    ),
    _fact("Total Host Walltime: ", r"Total Host Walltime: (?P<value>[\d.]+)", _measured("wall_s"), measures=True),
    _fact("GPU Compute Time: ", r"Total GPU Compute Time: (?P<value>[\d.]+)", _measured("compute_s"), measures=True),
)  # fmt: skip

MEMORY_LITERALS: Final = (*(literal for literal, _ in _MEMORY), "Host Persistent: ", "[MemUsageStats] Peak")
_AMOUNT: Final = re.compile(r"(?P<what>(?:Total|Max) [A-Z][\w ]* Memory): (?P<value>\d+)")
_LAYER: Final = re.compile(
    r"Layer: (?P<layer>.+?) Host Persistent: (?P<host>\d+)(?: bytes)? Device Persistent: (?P<device>\d+)(?: bytes)?"
    r" Scratch Memory: (?P<scratch>\d+)"
)
_PEAK: Final = re.compile(
    r"Peak memory usage of TRT CPU/GPU memory allocators: CPU (?P<cpu>\d+) MiB, GPU (?P<gpu>\d+) MiB"
)
REFORMAT_LITERAL: Final = "Adding reformat layer: "
_REFORMAT: Final = re.compile(
    r"Adding reformat layer: Reformatted (?P<side>Input|Output) Tensor (?P<number>\d+) to (?P<layer>.+)"
    r" \((?P<tensor>[^()]*(?:\([^()]*\)[^()]*)*)\) from (?P<source>\S.*?) to (?P<target>\S+\)?)\s*$"
)


def memory(text: str, build: int, anchor: Anchor, seq: int) -> list[TrtMemory]:
    """The amounts of memory that a line tells."""
    if (m := _AMOUNT.search(text)) is not None:
        told = ((dict(_MEMORY).get(m["what"]), m["value"]),)
        return [
            TrtMemory(anchor, build, what, "", n, seq=seq) for what, v in told if what and (n := whole(v)) is not None
        ]
    if (m := _LAYER.search(text)) is not None:
        parts = (("host persistent", m["host"]), ("device persistent", m["device"]), ("scratch", m["scratch"]))
        return [TrtMemory(anchor, build, what, m["layer"], n, seq=seq) for what, v in parts if (n := whole(v))]
    if (m := _PEAK.search(text)) is not None:
        peaks = (("peak host", m["cpu"]), ("peak device", m["gpu"]))
        return [
            TrtMemory(anchor, build, what, "", n << 20, seq=seq) for what, v in peaks if (n := whole(v)) is not None
        ]
    return []


def reformat(
    text: str, build: int, anchor: Anchor, seq: int, timed: Callable[[str, str], float | None]
) -> TrtReformat | None:
    """The reformat that a line says was put in, with the time of that pair of formats, if it was timed."""
    m = _REFORMAT.search(text)
    if m is None or (number := whole(m["number"])) is None:
        return None
    ms = timed(m["source"], m["target"])
    return TrtReformat(
        anchor,
        build,
        m["layer"],
        m["tensor"],
        m["side"].lower(),
        number,
        m["source"],
        m["target"],
        ms,
        seq=seq,
    )


def workspace_of(b: Open) -> int | None:
    """The limit of the workspace in bytes, where trtexec printed one (`default`: None)."""
    m = re.search(r"workspace: ([\d.]+) ?([KMG])i?B", b.options.get("Memory Pools", ""))
    m = m or re.search(r"([\d.]+) ?([KMG])i?B", b.options.get("Workspace", ""))
    size = decimal(m[1]) if m else None
    return int(size * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[m[2]]) if m and size is not None else None


def types_of(b: Open) -> frozenset[str] | None:
    """The precisions that were allowed besides fp32: by trtexec's `Precision` line, else by its flags."""
    told = b.options.get("Precision", "")
    if told:
        return frozenset(t.lower() for t in re.findall(r"FP16|BF16|INT8|FP8|INT4|FP32|TF32", told.upper()))
    if b.flags:
        return frozenset(f for f in ("fp16", "bf16", "int8", "fp8", "int4", "best") if f in b.flags) | {"fp32"}
    return None


_TOLD: Final = frozenset(
    {
        "tool",
        "rtx",
        "command",
        "model",
        "opset",
        "producer",
        "device",
        "capability",
        "seconds",
        "finished",
        "outcome",
        "ended",
    }
    | {"quantized"}
)


def closed(
    b: Open, timed: list[int], *, timing: bool, ranges: int, verbose: bool, origin: Origin = UNKNOWN
) -> Iterator[Record]:
    """The records of a build that was read: itself, and what was measured."""
    told = b.told
    strong = "stronglyTyped" in b.flags or "trong" in b.options.get("Precision", "")
    yield TrtBuild(
        b.anchor,
        b.number,
        flags=b.flags,
        options=b.options,
        release=b.release,
        types=types_of(b),
        strong=strong or None,
        workspace=workspace_of(b),
        verbose=verbose,
        timed=timed[0],
        timed_reformats=timed[1],
        timing=timing,
        placeholder_ranges=ranges,
        last=b.last,
        origin=origin,
        seq=b.seq,
        **{k: v for k, v in told.items() if k in _TOLD},  # type: ignore[arg-type]
    )
    if not b.run or b.run_anchor is None:
        return
    graph = b.options.get("CUDA Graph")
    streams = b.options.get("Inference Streams") or b.options.get("Streams")
    seq = b.seq + b.run_anchor.start - b.anchor.start
    yield TrtRun(
        b.run_anchor, b.number, **b.run, cuda_graph=None if graph is None else graph == "Enabled",  # type: ignore[arg-type]
        streams=whole(streams or ""), origin=origin, seq=seq,
    )  # fmt: skip
    times = {name: row for name, part in _NAMES.items() if (row := _row(b.run.get(part)))}
    throughput = b.run.get("throughput")
    yield EngineSummary(
        b.run_anchor,
        {"Inference Options": b.options},
        times,
        throughput if isinstance(throughput, float) else None,
        origin=origin,
        seq=seq,
    )


def _row(told: object) -> tuple[float, ...]:
    """Minimum, maximum, mean, median, percentiles; () where one of the four is missing."""
    if not isinstance(told, Quantiles):
        return ()
    four = [v for v in (told.min, told.max, told.mean, told.median) if v is not None]
    return (*four, *told.percentiles.values()) if len(four) == 4 else ()
