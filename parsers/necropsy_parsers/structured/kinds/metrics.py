"""What each compilation says of itself at its end: phases with their seconds, restarts, failures.

compilation_metrics (2.3 and later) and bwd_compilation_metrics (2.5 and later), torch/_dynamo/utils.py. Seconds are
floats in all releases; restart_reasons came with 2.4, cudagraph_skip_reason with 2.7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.messages import cudagraph
from necropsy_parsers.messages.recompile_limit import RecompileLimit
from necropsy_parsers.numbers import natural
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record
from necropsy_parsers.structured.entry import Entry
from necropsy_parsers.structured.kinds import Plain, Reader
from necropsy_parsers.text.guard_failure import failure

# 2.7 and later in words; before that `cache_size_limit reached`.
_LIMIT: Final = lazily(
    r"(?:recompile|cache) limit exceeded"
    r"(?:.*?exceeding the (?P<option>\w+) cache size limit|.*?Limit type: (?P<named>\w+))?"
    r"|(?P<reached>(?:accumulated_)?(?:cache_size|recompile)_limit) reached",
    re.DOTALL,
)
_VALUE: Final = lazily(r"currently set to (?P<limit>\d+)")
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
    recompile_reason: str | None = None


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
    yield from _limit(entry, m)
    if m.cudagraph_skip_reason:
        yield from cudagraph.read(entry.message(m.cudagraph_skip_reason, "cudagraphs"))
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


def _limit(entry: Entry, m: Metrics) -> Iterator[Record]:
    """The limit of recompilations, which ends a compilation before it begins; the text log warns of it."""
    told = _LIMIT.search(m.fail_reason or "")
    if told is None:
        return
    value = _VALUE.search(m.fail_reason or "")
    yield RecompileLimit(
        entry.anchor,
        "warning",
        told["option"] or told["named"] or told["reached"] or "",
        natural(value["limit"]) if value is not None else None,
        m.co_name or "",
        m.co_filename or "",
        m.co_firstlineno,
        entry.origin.compile_id,
        failure(m.recompile_reason) if m.recompile_reason else None,
        "",
        **entry.common,
    )
