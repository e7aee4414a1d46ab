"""What could not be read, counted and named: an issue is a row of the report.

Formats never raise on content and never print; they call `Issues.add` with a kind
from `CATALOGUE`. The catalogue says how bad a kind is and who lost the data, so that
a report can tell "your logger truncated this" from "Necropsy gave up here".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.records import Anchor

INFO: Final = "info"
NOTICE: Final = "notice"
DATA_LOSS: Final = "data-loss"
ERROR: Final = "error"


class Kind(Struct, frozen=True):
    """A kind of trouble: `level` (info, notice, data-loss, error), `blame`, a line."""

    level: str
    blame: str  # "recorder" (the job or its logger) or "reader" (Necropsy)
    meaning: str


CATALOGUE: Final[dict[str, Kind]] = {
    "source/unreadable": Kind(ERROR, "recorder", "the input cannot be opened or read"),
    "source/empty": Kind(NOTICE, "recorder", "the input holds no bytes"),
    "source/truncated": Kind(DATA_LOSS, "recorder", "the compressed or archived input ends too early"),
    "source/corrupt": Kind(DATA_LOSS, "recorder", "the compressed or archived input is damaged"),
    "source/limit": Kind(DATA_LOSS, "reader", "reading stopped at a safety limit"),
    "source/skipped-member": Kind(NOTICE, "reader", "an archive member or file was not opened"),
    "text/invalid-utf8": Kind(NOTICE, "recorder", "bytes that are not UTF-8 were shown as U+FFFD"),
    "text/nul": Kind(NOTICE, "recorder", "NUL bytes were skipped (a sparse or preallocated log)"),
    "text/nul-in-line": Kind(INFO, "recorder", "single NUL bytes were skipped (torch logs pickled settings)"),
    "text/long-line": Kind(NOTICE, "reader", "the rest of a very long line was not analyzed"),
    "text/wrapped": Kind(NOTICE, "recorder", "lines that were broken at a fixed column were put together again"),
    "text/cut-traceback": Kind(DATA_LOSS, "recorder", "a traceback ends without its exception line"),
    "text/headless-traceback": Kind(DATA_LOSS, "recorder", "a traceback starts in the middle"),
    "text/repeats-folded": Kind(INFO, "reader", "identical messages were counted, not kept"),
    "text/unknown-error": Kind(INFO, "reader", "lines marked as errors that nothing here reads"),
    "text/first-part": Kind(INFO, "reader", "of graphs and generated code that the log quotes the first part was read"),
    "text/sampled": Kind(INFO, "reader", "of very many progress lines a sample was read"),
    "pickle/refused": Kind(ERROR, "recorder", "a pickle asks for more than plain data and was not read"),
    "flight/cut": Kind(
        DATA_LOSS, "recorder", "a flight-recorder dump ends too early; the entries before that were read"
    ),
    "flight/damaged": Kind(
        DATA_LOSS, "recorder", "a flight-recorder dump is damaged; what stands before that was read"
    ),
    "flight/entry": Kind(
        DATA_LOSS, "recorder", "entries of a flight-recorder dump lack what they need, or are too many"
    ),
    "flight/no-rank": Kind(NOTICE, "recorder", "neither name nor content says whose flight-recorder dump it is"),
    "snapshot/cut": Kind(
        DATA_LOSS, "recorder", "a memory snapshot is cut or damaged; what stands before that was read"
    ),
    "snapshot/large": Kind(
        DATA_LOSS, "reader", "a memory snapshot is too large to be read to its end; live blocks stand first"
    ),
    "snapshot/none": Kind(NOTICE, "recorder", "it has keys of a memory snapshot, but is none"),
    "flight/no-dump": Kind(NOTICE, "recorder", "it has keys of a flight-recorder dump, but is none"),
    "engine/cut": Kind(DATA_LOSS, "recorder", "a file of TensorRT ends too early; what stands before was read"),
    "engine/damaged": Kind(DATA_LOSS, "recorder", "entries of a file of TensorRT cannot be read and were left out"),
    "engine/repaired": Kind(NOTICE, "recorder", "names in a file of TensorRT are not valid JSON and were repaired"),
    "engine/no-layers": Kind(NOTICE, "recorder", "it has keys of an engine's layers, but lists none"),
    "calibration/line": Kind(DATA_LOSS, "recorder", "lines of a calibration cache are no `tensor: scale`"),
    "onnx/damaged": Kind(DATA_LOSS, "recorder", "an ONNX model is damaged or cut off, and was not read"),
    "onnx/no-reader": Kind(ERROR, "reader", "ONNX models are read with `pip install 'necropsy[tensorrt]'`"),
    "trace/cut": Kind(DATA_LOSS, "recorder", "a trace ends too early; the events before that were read"),
    "trace/repaired": Kind(NOTICE, "recorder", "events of a trace are not valid JSON and were repaired"),
    "trace/dropped": Kind(DATA_LOSS, "recorder", "events of a trace could not be read"),
    "trace/times": Kind(DATA_LOSS, "recorder", "events of a trace have no time, or one that cannot be"),
    "trace/args": Kind(NOTICE, "recorder", "events of a trace were read without their arguments"),
    "structured/entry": Kind(DATA_LOSS, "recorder", "entries of a structured log are damaged and were left out"),
    "structured/cut": Kind(DATA_LOSS, "recorder", "a structured log ends too early; what stands before was read"),
    "structured/foreign": Kind(NOTICE, "reader", "lines in a structured log that belong to no entry"),
    "ncu/no-reader": Kind(
        ERROR, "reader", "an Nsight Compute report was not read: `pip install 'necropsy[ncu]'` reads it"
    ),
    "ncu/undecodable": Kind(ERROR, "reader", "NVIDIA's reader could not read an Nsight Compute report"),
    "ncu/lost": Kind(DATA_LOSS, "reader", "launches of an Nsight Compute report could not be decoded"),
    "ncu/cut": Kind(
        DATA_LOSS, "recorder", "an Nsight Compute report ends too early; the launches before that were read"
    ),
    "ncu/empty": Kind(NOTICE, "recorder", "an Nsight Compute report holds no profiled kernel"),
    "ncu/damaged": Kind(DATA_LOSS, "recorder", "an Nsight Compute report is damaged"),
    "ncu/page": Kind(DATA_LOSS, "recorder", "rows of an Nsight Compute page or CSV could not be read"),
    "trace/worker": Kind(
        ERROR, "reader", "the process that read it was ended; less memory may be the cause (--jobs 1)"
    ),
    "tensorrt/many-tactics": Kind(INFO, "reader", "of very many timed tactics the first were kept"),
    "sniff/unknown": Kind(ERROR, "reader", "no format claims this input"),
}


class ParseIssue(Struct, frozen=True):
    """One kind of trouble in one input; `count` occurrences (or bytes, see `unit`)."""

    kind: str
    input: str
    count: int = 1
    unit: str = "times"
    detail: str = ""
    first: Anchor | None = None

    @property
    def level(self) -> str:
        """The catalogue's level for this kind."""
        return CATALOGUE[self.kind].level

    @property
    def blame(self) -> str:
        """Who lost the data: `recorder` or `reader`."""
        return CATALOGUE[self.kind].blame

    @property
    def meaning(self) -> str:
        """The catalogue's sentence for this kind."""
        return CATALOGUE[self.kind].meaning


class Issues:
    """Collects issues; the same kind in the same input is one row with a count."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], ParseIssue] = {}

    def add(
        self,
        kind: str,
        input: str,
        *,
        count: int = 1,
        unit: str = "times",
        detail: str = "",
        first: Anchor | None = None,
    ) -> None:
        """Count `kind`; the first detail and anchor are kept."""
        key = (kind, input)
        if (row := self._rows.get(key)) is not None:
            self._rows[key] = replace(row, count=row.count + count)
        else:
            CATALOGUE[kind]  # an unknown kind is a bug, found by the first test that meets it
            self._rows[key] = ParseIssue(kind, input, count, unit, detail, first)

    def take(self, rows: Iterable[ParseIssue]) -> None:
        """Issues met elsewhere; of a kind that is known of that input nothing is added."""
        for row in rows:
            self._rows.setdefault((row.kind, row.input), row)

    def rows(self) -> list[ParseIssue]:
        """All issues in the order in which they were first met."""
        return list(self._rows.values())
