"""What was measured of an engine: time by layer, times of single runs, and trtexec's summary."""

from __future__ import annotations

from msgspec import Struct

from necropsy_parsers.records import Record


class LayerTime(Struct, frozen=True):
    """Time of one layer, in milliseconds a run; `median` is None before TensorRT 8.4, `share` a fraction of all."""

    name: str
    average: float
    median: float | None = None
    share: float | None = None


class EngineProfile(Record, frozen=True):
    """Times by layer of one engine (`trtexec --exportProfile`), in the order of the engine; `count` runs of it."""

    count: int
    layers: tuple[LayerTime, ...]


class EngineRuns(Record, frozen=True):
    """Times of single runs (`trtexec --exportTimes`), in milliseconds.

    `compute` on the GPU, `enqueue` on the host, `to_device` and `from_device` copies, `latency` of all; a column is
    empty where the release did not write it.
    """

    compute: tuple[float, ...]
    latency: tuple[float, ...] = ()
    enqueue: tuple[float, ...] = ()
    to_device: tuple[float, ...] = ()
    from_device: tuple[float, ...] = ()


class EngineSummary(Record, frozen=True):
    """trtexec's options and summary, as trt-engine-explorer keeps them beside an engine's JSON.

    `options`: sections to settings, as printed. `times`: name to (min, max, mean, median, percentiles..) in
    milliseconds; `throughput` in runs a second, None where the file only holds the options of a build.
    """

    options: dict[str, dict[str, str]]
    times: dict[str, tuple[float, ...]]
    throughput: float | None = None
