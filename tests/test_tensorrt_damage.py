"""TensorRT's log torn by a second writer or with made-up numbers: places hold, and no number raises."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from tests.support.reading import anchor_faults, read, report_on
from tests.test_tensorrt_log import tactics

from necropsy_parsers.issues import Issues
from necropsy_parsers.numbers import decimal, whole
from necropsy_parsers.records import UNKNOWN, Record
from necropsy_parsers.tensorrt.records import EngineLayer
from necropsy_parsers.tensorrt_log.reader import TensorrtReader
from necropsy_parsers.tensorrt_log.records import TrtRun, TrtTimings

HEAD: Final = "[01/31/2026-12:00:00] [V] [TRT] "
TABLE: Final = "".join(
    HEAD + line + "\n"
    for line in (
        "*************** Autotuning format combination: Half(64,1:8,8,1) -> Half(64,1:8,8,1) ***************",
        "--------------- Timing Runner: /a/Conv (CaskConvolution[0x80000009])",
        "Tactic Name: sm80_xmma Tactic: 0x01 Time: 0.25",
        "/a/Conv (CaskConvolution[0x80000009]) profiling completed in 0.1 s. Fastest Tactic: 0x01 Time: 0.25",
        "--------------- Timing Runner: /b/Conv (Cask"
        + HEAD
        + "--------------- Timing Runner: /c/Conv (CudnnConvolution)",
        "Tactic Name: sm80_gemm Tactic: 0x02 Time: 0.5",
        ">>>>>>>>>>>>>>> Chose Runner Type: CaskConvolution Tactic: 0x01",
    )
)


@pytest.mark.parametrize("cuts", [(), range(1, len(TABLE), 60), (300,)], ids=["whole", "lines", "two"])
def test_a_runner_is_quoted_from_the_begin_of_its_line(cuts: Iterable[int]) -> None:
    """Also where two writers share a line, and where the chunk ends behind it."""
    rows = tactics(TABLE, cuts)
    assert [r.layer for r in rows] == ["/a/Conv", "/b/Conv", "/c/Conv"]
    assert list(anchor_faults([r.anchor for r in rows], TABLE.encode())) == []
    assert [r.anchor.line for r in rows] == [2, 5, 5]


def test_chunks_without_a_word_of_tensorrt_move_no_place() -> None:
    """What a log holds between two tables is not handed over; places are those of the whole text all the same."""
    between = "step 12 loss 0.25\n" * 9
    text = (TABLE + between + TABLE).encode()
    reader = TensorrtReader("run.log", 0, lambda line, _: (line.decode(), UNKNOWN, 0), Issues())
    lines = TABLE.count("\n")
    reader.feed(TABLE.encode(), 0, 0)
    reader.feed(TABLE.encode(), len(TABLE) + len(between), lines + 9)
    found: list[Record] = list(reader.records())
    rows = [r for t in found if isinstance(t, TrtTimings) for r in t.blocks]
    assert len(rows) == 6
    assert list(anchor_faults([r.anchor for r in rows], text)) == []


def test_a_layer_with_control_characters_is_quoted_whole() -> None:
    """What is taken out of the text of a line is still part of the line."""
    head = "[01/31/2026-12:00:00] [V] [TRT] Engine Layer Information:\n"
    line = "Layer(Cask\x03Convolution): /a/Conv, Tactic: 0x1, x (Half[8,3,8,\x168]) -> y (Half[8,4,8,8])\n"
    got = read(head + line)
    layers = got.of(EngineLayer)
    assert [r.name for r in layers] == ["/a/Conv"]
    assert list(anchor_faults([r.anchor for r in layers], got.text)) == []


LINES: Final = (
    "Throughput: 512.5 qps",
    "Latency: min = 1.5 ms, max = 2.5 ms, mean = 2 ms, median = 2 ms, percentile(99%) = 2.25 ms",
    "Total Host Walltime: 3.001 s", "Engine generation completed in 12.5 seconds.", "Opset version:    17",
    "&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=a.onnx", "TensorRT version: 8.6.1",
    "Total Scratch Memory: 1024", "Memory Pools: workspace: 0.5 MiB, dlaSRAM: default", "Inference Streams: 1",
    "Skipping tactic 0x1 due to insufficient memory on requested size of 4096 detected for tactic 0x1.",
    "Setting workspace to 4096enables more tactics",
    "2: [virtualMemoryBuffer.cpp::resizePhysical::145] Error Code 2: x ()",
    "Layer(Cask): /a, Tactic: 0x1, x (Half[8,3:2,224,224]) -> y (Half[8,64:2,112,112])",
    "=== Profile (115 iterations ) ===",
)  # fmt: skip


_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 20, "0.050.", "²", "٣", "--3", "1e999", "nan", ""])
def test_any_number_can_stand_where_tensorrt_prints_one(number: str, tmp_path: Path) -> None:
    head = "[01/31/2026-12:00:00] [I] [TRT] "
    for line in LINES:
        before = f"{head}Engine Layer Information:\n" if line.startswith("Layer(") else ""
        for m in _NUMBER.finditer(line):
            read(f"{before}{head}{line[: m.start()]}{number}{line[m.end() :]}\n")
    report = report_on("".join(f"{head}{_NUMBER.sub(number, line)}\n" for line in LINES), tmp_path)
    assert report.inputs[0].bytes


def test_a_torn_number_is_left_out_and_the_others_stay() -> None:
    head = "[01/31/2026-12:00:00] [I] "
    rows = read(f"{head}Throughput: 0.050. qps\n{head}Total Host Walltime: 3.5 s\n").of(TrtRun)
    assert [(r.throughput, r.wall_s) for r in rows] == [(None, 3.5)]


def test_small_times_have_exponents() -> None:
    head = "[01/31/2026-12:00:00] [I] "
    line = "D2H Latency: min = 9.5e-05 ms, max = 0.5 ms, mean = 0.25 ms, median = 0.25 ms\n"
    (row,) = read(f"{head}Throughput: 5 qps\n{head}{line}").of(TrtRun)
    assert row.d2h is not None
    assert row.d2h.min == 9.5e-05


@pytest.mark.parametrize(
    ("text", "integer", "number"),
    [("12", 12, 12.0), ("-3", -3, -3.0), ("²", None, None), ("9" * 19, None, 1e19), ("1.2.3", None, None),
     ("", None, None), ("inf", None, None), ("--3", None, None)],
)  # fmt: skip
def test_numbers(text: str, integer: int | None, number: float | None) -> None:
    assert whole(text) == integer
    assert decimal(text) == number
