"""Records of TensorRT's log."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from necropsy_parsers.records import Record


class OnnxNode(Struct, frozen=True):
    """An ONNX node that the parser quotes: its number in the file, operator, name, domain and attributes, as told."""

    number: int | None = None
    op: str = ""
    name: str = ""
    domain: str = ""
    output: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


class TrtMessage(Record, frozen=True):
    """A message, and those like it.

    `kind` names what it says (see `kinds`; `error` and `warning`: nothing that is known). `level` is V, I, W, E or F,
    "" where no logger told. `code` is TensorRT's number (10: Internal Error), `category` its words, `api` the function
    of its API that failed, `source` the file and line of its own code. `words` are the message's parts by name,
    `subjects` the layers or tensors that it and its like name (the first `MAX_SUBJECTS`), `count` how many there are.
    `build` numbers the builds of an input from 0; `node` is the ONNX node of a message of the parser.
    """

    kind: str
    level: str
    text: str
    code: int | None = None
    category: str = ""
    api: str = ""
    source: str = ""
    words: dict[str, str] = field(default_factory=dict)
    subjects: tuple[str, ...] = ()
    count: int = 1
    build: int = 0
    node: OnnxNode | None = None


class TrtTactic(Record, frozen=True):
    """One runner that was timed for a layer in one combination of formats.

    `candidates` is how many kernels were timed, `times` what they took in milliseconds (bounded, see `timing`),
    `fastest` and `fastest_ms` the best of them (None: none ran), `chosen` whether the builder took it for these
    formats. `skipped` says why nothing was timed: "no valid tactics", "memory", "error"; `shortage` is the
    largest request for memory that was refused, as printed.
    """

    build: int
    layer: str
    runner: str
    inputs: str
    outputs: str
    candidates: int = 0
    times: tuple[float, ...] = ()
    fastest: str = ""
    fastest_name: str = ""
    fastest_ms: float | None = None
    infinite: bool = False
    chosen: bool = False
    skipped: str = ""
    shortage: str = ""


class TrtTimings(Record, frozen=True):
    """All runners that were timed in an input: `blocks` makes `TrtTactic` rows on demand."""

    blocks: Any


class TrtReformat(Record, frozen=True):
    """A reformat that the builder put in: of which tensor of which layer, from what to what; `ms` as timed, or None."""

    build: int
    layer: str
    tensor: str
    side: str
    number: int
    source: str
    target: str
    ms: float | None = None


class TrtMemory(Record, frozen=True):
    """An amount of memory that the builder or the runtime tells: `what`, of which layer ("": of all), in bytes."""

    build: int
    what: str
    layer: str
    bytes: int


class Quantiles(Struct, frozen=True):
    """Milliseconds: minimum, maximum, mean, median (None where untold), percentiles by their number."""

    min: float | None = None
    max: float | None = None
    mean: float | None = None
    median: float | None = None
    percentiles: dict[str, float] = field(default_factory=dict)


class TrtRun(Record, frozen=True):
    """What trtexec measured: milliseconds of each part, throughput in queries per second, wall time in seconds."""

    build: int
    throughput: float | None = None
    latency: Quantiles | None = None
    enqueue: Quantiles | None = None
    h2d: Quantiles | None = None
    compute: Quantiles | None = None
    d2h: Quantiles | None = None
    wall_s: float | None = None
    compute_s: float | None = None
    cuda_graph: bool | None = None
    streams: int | None = None


class TrtBuild(Record, frozen=True):
    """One build, or one run of a tool: what was asked for and how it ended, as far as the log tells.

    `release` is TensorRT's version as numbers, () where nothing tells it; `rtx` that it is TensorRT for RTX.
    `options` are trtexec's, as it printed them, `flags` those of its command line. `types` are the precisions that
    were allowed (fp16, int8, ...), None where unknown. `seconds` is the time of the build, None if it did not finish,
    `ended` the line that says so (0: none). `outcome` is what the tool itself said last: passed, failed, or "".
    `timed` counts runners that were timed, `timed_reformats` how many of them were reformats; `timing` tells that the
    log ends while tactics are timed. `last` is the line of the last message of the build.
    """

    build: int
    tool: str = ""
    release: tuple[int, ...] = ()
    rtx: bool = False
    command: str = ""
    flags: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    types: frozenset[str] | None = None
    strong: bool | None = None
    model: str = ""
    opset: int | None = None
    producer: str = ""
    device: str = ""
    capability: str = ""
    workspace: int | None = None
    seconds: float | None = None
    finished: bool = False
    ended: int = 0
    outcome: str = ""
    verbose: bool = False
    timed: int = 0
    timed_reformats: int = 0
    timing: bool = False
    quantized: bool = False
    placeholder_ranges: int = 0
    last: int = 0

    @property
    def major(self) -> int | None:
        """The major version, or None."""
        return self.release[0] if self.release else None
