"""What each compilation says of itself at its end: phases with their seconds, restarts, failures.

compilation_metrics (2.3 and later) and bwd_compilation_metrics (2.5 and later), torch/_dynamo/utils.py. Seconds are
floats in all releases; restart_reasons came with 2.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.records import Record
from necropsy_parsers.structured.entry import Entry
from necropsy_parsers.structured.kinds import Plain, Reader

KINDS: Final = ("compilation_metrics", "bwd_compilation_metrics")


class Metrics(Struct, frozen=True):
    """The fields that are read."""

    co_name: str | None = None
    co_filename: str | None = None
    co_firstlineno: int | None = None
    entire_frame_compile_time_s: float | None = None
    backend_compile_time_s: float | None = None
    inductor_compile_time_s: float | None = None
    code_gen_time_s: float | None = None
    fail_type: str | None = None
    fail_reason: str | None = None
    fail_user_frame_filename: str | None = None
    fail_user_frame_lineno: int | None = None
    restart_reasons: list[str] | None = None
    dynamo_time_before_restart_s: float | None = None
    graph_op_count: int | None = None
    guard_count: int | None = None
    cudagraph_skip_reason: str | None = None


class CompilationMetrics(Record, frozen=True):
    """The metrics of one compilation, or of its backward graph (`backward`), which is compiled at its first use.

    Seconds: `entire` for the frame, of which `backend` (AOT autograd and what it calls), of which `inductor`, of which
    `codegen`; None where untold. `before_restart` were lost to `restarts`, the reasons for which the analysis began
    anew. `failure` is the class of the exception that ended it ("" for none), `fail_file` and `fail_line` the user's
    line.
    """

    compile_id: str
    backward: bool
    function: str
    file: str
    line: int | None
    entire: float | None
    backend: float | None
    inductor: float | None
    codegen: float | None
    restarts: tuple[str, ...]
    before_restart: float
    failure: str
    fail_reason: str
    fail_file: str
    fail_line: int | None
    ops: int | None
    guards: int | None
    cudagraphs_skipped: str

    @property
    def seconds(self) -> float | None:
        """What it took: the frame's time, or that of the backward graph."""
        return self.inductor if self.backward else self.entire


def make() -> Reader:
    """A reader of metrics."""
    return Plain(_read)


def _read(entry: Entry) -> Iterator[Record]:
    m = entry.value(Metrics)
    if m is None:
        return
    yield CompilationMetrics(
        entry.anchor,
        entry.origin.compile_id.split("_")[0],
        entry.kind.startswith("bwd"),
        m.co_name or "",
        m.co_filename or "",
        m.co_firstlineno,
        m.entire_frame_compile_time_s,
        m.backend_compile_time_s,
        m.inductor_compile_time_s,
        m.code_gen_time_s,
        tuple(m.restart_reasons or ()),
        max(0.0, m.dynamo_time_before_restart_s or 0.0),
        m.fail_type or "",
        m.fail_reason or "",
        m.fail_user_frame_filename or "",
        m.fail_user_frame_lineno,
        m.graph_op_count,
        m.guard_count,
        m.cudagraph_skip_reason or "",
        **entry.common,
    )
