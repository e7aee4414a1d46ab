"""What is known of one profiled launch, whichever input told it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from necropsy_parsers.records import Frame, Record

Dims = tuple[int, int, int]

# Words of NVIDIA's rules for how much a message weighs, as their text pages print them.
OPTIMIZE: Final = "OPT"
INFORM: Final = "INF"
WARN: Final = "WRN"
FAIL: Final = "ERR"


class RuleResult(Struct, frozen=True):
    """What one of NVIDIA's own rules said of a launch.

    `rule` is its identifier (`SOLBottleneck`), "" in text pages, which do not print it; `section` the identifier of its
    section; `kind` OPT (an optimization), INF, WRN or ERR; `title` a heading where it has one (`Small Grid`). `gain` is
    the estimated speed-up in percent, None without an estimate, and `scope` what it is of: `global` the kernel's time,
    `local` one unit of the device only (never to be summed, nor told as the kernel's), `unknown`. `focus` are the
    metrics that it rests on.
    """

    rule: str
    section: str
    kind: str
    title: str
    message: str
    gain: float | None = None
    scope: str = ""
    focus: tuple[str, ...] = ()


class NvtxRange(Struct, frozen=True):
    """An NVTX range that was open at the launch: domain ("" of the default one), name, `push` or `start`."""

    domain: str
    name: str
    kind: str = "push"


class Launch(Record, frozen=True):
    """One result of ncu: a kernel's launch, or a range or graph that was profiled as one.

    `number` is its place in the report (the CSV's ID), from 0. `kernel` is the demangled name as printed, `function`
    the name without namespaces, template and arguments. `grid`, `block`, `device`, `capability` ("9.0") are None or ""
    where the input does not print them (before 2022). `metrics` are in base units (ns, bytes, bytes/s, Hz, %,
    counts) under ncu's names; what was not collected, is `n/a` or not a number is absent. `attributes` are words
    (`device__attribute_display_name`). `sections` are identifiers of the sections that were collected, as far as the
    input tells. `stack` are Python frames, the innermost last; `source` is the file and first line of the kernel's own
    code, where it was compiled with line information. `runs` is above 1 where a summary page folds
    several launches into means. `read` says what it was read from: `report`, `raw csv`, `details csv`, `text`.
    """

    number: int
    kernel: str
    function: str
    process: int | None = None
    program: str = ""
    host: str = ""
    context: int | None = None
    stream: int | None = None
    device: int | None = None
    capability: str = ""
    grid: Dims | None = None
    block: Dims | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    sections: tuple[str, ...] = ()
    rules: tuple[RuleResult, ...] = ()
    ranges: tuple[NvtxRange, ...] = ()
    stack: tuple[Frame, ...] = ()
    source: Frame | None = None
    notices: tuple[str, ...] = ()
    workload: str = "kernel"
    runs: int = 1
    read: str = ""
