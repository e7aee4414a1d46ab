"""Kernels of generated code to lines: against torch's own provenance, with less evidence, as old releases print it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

import pytest

from necropsy_parsers.inductor.records import GeneratedCode, GraphLines, KernelNodes, KernelStacks, NodeStacks
from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.structured.reading import StructuredReader
from necropsy_parsers.tallies import fusion_stacks, generated_code, graph_lines
from necropsy_parsers.text.naming import named

import necropsy
from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.provenance.inductor import Book, Lines

FIXTURES: Final = Path(__file__).parents[1] / "fixtures"
RUN: Final = FIXTURES / "rules" / "KRN024" / "fires-attention-in-bf16" / "input.d" / "run.log.gz"
H200: Final = FIXTURES / "kernels" / "h200"
KINDS: Final = (GeneratedCode, GraphLines, KernelNodes, KernelStacks, NodeStacks)


def told(data: bytes) -> list[Record]:
    """What the tallies read of a log."""
    found: list[Record] = []
    for module in (generated_code, graph_lines, fusion_stacks):
        tally = module.Tally("run.log", 0)
        tally.feed(data, 0, 0)
        found += tally.records()
    return found


def structured(data: bytes) -> list[Record]:
    """The same of a structured log."""
    reader = StructuredReader("trace.log", Issues(), 0, named("trace.log"))
    return [r for r in reader.records([data]) if isinstance(r, KINDS)]


def places(frames: tuple[Frame, ...]) -> set[tuple[str, int | None]]:
    return {(f.file, f.line) for f in frames}


def measured(records: list[Record], truth: list[Record], *, generated: bool = True) -> tuple[float, float, int]:
    """Precision and recall of (call, line) pairs against torch's own stacks, and how many calls were compared."""
    stacks = [dict(r.stacks) for r in truth if isinstance(r, KernelStacks)]
    book = Book(records)  # type: ignore[arg-type]
    right = wrong = missed = calls = 0
    assert len(book.codes) == len(stacks)
    for code, own in zip(book.codes, stacks, strict=True):
        resolver = book.resolver(code, provenance=False)
        for call in code.calls:
            if not generated and not call.extern:
                continue
            theirs = places(own[f"{call.name}:{call.handle}"])
            mine = places(tuple(w.frame for w in resolver.lines(call).lines))
            right, wrong, missed = right + len(mine & theirs), wrong + len(mine - theirs), missed + len(theirs - mine)
            calls += 1
    return right / max(1, right + wrong), right / max(1, right + missed), calls


@pytest.fixture(scope="module")
def log() -> bytes:
    return gzip.decompress(RUN.read_bytes())


@pytest.fixture(scope="module")
def trace() -> bytes:
    return gzip.decompress((H200 / "torch_trace.log.gz").read_bytes())


def without(log: bytes, *artifacts: str) -> bytes:
    """The log as it were if those had not been asked for."""
    marks = [f"[__{a}]".encode() for a in artifacts]
    return b"\n".join(line for line in log.split(b"\n") if not any(m in line for m in marks))


def test_the_text_log_tells_what_torchs_own_provenance_tells(log: bytes, trace: bytes) -> None:
    precision, recall, calls = measured(told(log), structured(trace))
    assert calls == 148
    assert precision >= 0.98
    assert recall >= 0.95


def test_the_structured_log_tells_it_without_its_provenance(trace: bytes) -> None:
    precision, recall, calls = measured(structured(trace), structured(trace))
    assert calls == 148
    assert precision >= 0.98
    assert recall >= 0.95


@pytest.mark.parametrize(
    ("left_out", "least"),
    [
        (("graph_code",), 0.85),
        (("post_grad_graphs",), 0.95),
        (("aot_graphs",), 0.95),
        (("graph_code", "aot_graphs"), 0.85),
        (("graph_code", "aot_graphs", "post_grad_graphs"), 0.5),
        (("aot_graphs", "post_grad_graphs", "fusion"), 0.2),
    ],
)
def test_less_evidence_is_fewer_lines_and_none_wrong(
    log: bytes, trace: bytes, left_out: tuple[str, ...], least: float
) -> None:
    precision, recall, _ = measured(told(without(log, *left_out)), structured(trace))
    assert precision >= 0.98
    assert recall >= least


def test_cut_into_chunks_it_says_the_same(log: bytes) -> None:
    whole, parts = told(log), []
    for module in (generated_code, graph_lines, fusion_stacks):
        tally, start, line = module.Tally("run.log", 0), 0, 0
        while start < len(log):
            end = log.find(b"\n", min(len(log) - 1, start + 50_000)) + 1 or len(log)
            tally.feed(log[start:end], start, line)
            line += log.count(b"\n", start, end)
            start = end
        parts += list(tally.records())
    assert parts == whole


def test_the_table_has_a_row_a_call_with_the_heaviest_line_first() -> None:
    table = necropsy.load(str(RUN)).get(InductorKernels)
    assert len(table) == 148
    softmax = next(r for r in table if r.kernel == "triton_per_fused__softmax__to_copy_amax_mul_sub_view_11")
    assert [f.line for f in softmax.frames] == [18, 19, 17]
    assert softmax.how == "graph nodes"
    assert softmax.direction == "forward"
    products = [r.frames[0].line for r in table if r.kernel == "extern_kernels.bmm" and r.direction == "forward"]
    assert products == [17, 19, 17, 19]
    assert all(len(r.lines) == 1 for r in table if r.extern)


def lines(text: str) -> list[Lines]:
    """The lines of each call of a log's code."""
    book = Book(told(text.encode()))  # type: ignore[arg-type]
    return [book.resolver(code).lines(call) for code in book.codes for call in code.calls]
