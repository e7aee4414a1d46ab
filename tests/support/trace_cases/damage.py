"""Traces that are damaged, or whose times are doubtful."""

from __future__ import annotations

import json
import re

from tests.support.trace_cases.launch import GEMM, MAIN
from tests.support.tracing import TraceBuilder


class Cut(TraceBuilder):
    """The file ends in the middle of an event."""

    def text(self) -> str:
        """Two thirds of it."""
        whole = super().text()
        return whole[: len(whole) * 2 // 3]


class RawNames(TraceBuilder):
    """Names written as they are, by a profiler that escapes nothing."""

    def text(self) -> str:
        """The same with quotation marks and control characters left raw."""
        return super().text().replace('\\"', '"').replace("\\u001b", "\x1b")


class Absolute(TraceBuilder):
    """Times since 1970; as strings, as some vendors' profilers write them, or as numbers."""

    strings = True

    def text(self) -> str:
        """The same without `baseTimeNanoseconds`."""
        base = self.head.pop("baseTimeNanoseconds")
        quote = '"' if self.strings else ""

        def later(m: re.Match[str]) -> str:
            ns = round(float(m[1]) * 1000) + base
            return f'"ts": {quote}{ns // 1000}.{ns % 1000:03d}{quote}'

        return re.sub(r'"ts": ([\d.]+)', later, super().text())


def _run(t: TraceBuilder, name: str = GEMM, us: float = 31.337) -> TraceBuilder:
    with t.frame(*MAIN):
        for n in range(3):
            with t.step(n):
                for _ in range(6):
                    with t.op("aten::addmm"):
                        t.launch(name, us=us, call_us=2.1)
                t.wait()
    return t


def unrecorded(*, device: bool = False) -> TraceBuilder:
    """Launches whose kernels were not recorded, or a program of the CPU alone."""
    t = _run(TraceBuilder()) if device else _run(TraceBuilder(device=None))
    t.events = [e for e in t.events if e["cat"] != "kernel" and (device or e["cat"] != "cuda_runtime")]
    return t


def empty(*, operators: bool = False, cut: bool = False) -> TraceBuilder:
    """The profiler's own frames, in the cycle that begins behind the recorded steps; with one operator, or cut."""
    t = (Cut if cut else TraceBuilder)(device=None)
    with t.frame(*MAIN, "torch/profiler/profiler.py(905): step"):
        t.host(40)
        if operators:
            with t.op("aten::zeros"):
                t.host(3)
    return t


def raw_names() -> TraceBuilder:
    """A quotation mark and an escape in names."""
    t = RawNames()
    with t.frame(*MAIN), t.frame('<eval_with_key>.4("fused, graph 2") \x1b[1mforward'):
        t.host(5)
    return _run(t)


def twice(shift: float) -> TraceBuilder:
    """Kernels that stand in the trace twice, shifted."""
    t = _run(TraceBuilder())
    for e in [json.loads(json.dumps(e)) for e in t.events if e["cat"] == "kernel"][:9]:
        t.events.append({**e, "ts": e["ts"] + shift})
    return t


def _rank(rank: int, world: int) -> TraceBuilder:
    return _run(TraceBuilder(rank=rank, world=world))


def dependent(overlap: float) -> TraceBuilder:
    """Kernels that begin a little before their predecessor has ended, as dependent launches do."""
    t = _run(TraceBuilder())
    for e in t.events:
        if e["cat"] == "kernel":
            e["dur"] += overlap
    return t


CASES = {
    "INP002/fires-trace-cut": lambda: _run(Cut()),
    "INP002/silent-whole-trace": lambda: _run(TraceBuilder()),
    "INP003/fires-raw-names": raw_names,
    "INP003/silent-escaped-names": lambda: _run(TraceBuilder(), 'kernel<"a", \\x>'),
    "INP005/fires-no-kernels": lambda: unrecorded(device=True),
    "INP005/silent-no-device": unrecorded,
    "INP013/fires-next-cycle": empty,
    "INP013/silent-one-operator": lambda: empty(operators=True),
    "INP013/silent-cut": lambda: empty(cut=True),
    "INP007/fires-two-sizes": lambda: {"input.d/rank0.json": _rank(0, 2), "input.d/other.json": _rank(1, 4)},
    "INP007/silent-one-run": lambda: {"input.d/rank0.json": _rank(0, 2), "input.d/rank1.json": _rank(1, 2)},
    "LCH012/fires-absolute-strings": lambda: _run(Absolute(), us=30.7),
    "LCH012/fires-overlaps": lambda: twice(-25.5),
    "LCH012/silent-relative-times": lambda: _run(TraceBuilder()),
    "LCH012/silent-dependent-launch": lambda: dependent(4),
}
