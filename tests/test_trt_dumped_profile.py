"""Tables of times by layer in logs (`--dumpProfile`), in the forms of TensorRT 8.0 to 11, as the JSON tells them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.engine_cases.build import engine, profile
from tests.support.engine_cases.case import IO
from tests.support.engine_cases.nets import quantized

from necropsy.api import Loaded, analyze
from necropsy.config import Config
from necropsy.evidence.trt_layers import TrtLayers

LAYERS = quantized(gap=True)
TOTAL = sum(x.ms for x in LAYERS)
HEADS = ("[03/11/2026-10:00:00] [I] ", "[I] ", "")


def table(head: str, form: str) -> str:
    """The table behind a log's head: names last (8.5 and later), first with medians (8.4), or without (8.0)."""
    rows = [*((x.name, x.ms) for x in LAYERS), ("Total", TOTAL)]
    lines = ["", "=== Profile (100 iterations ) ==="]
    if form == "last":
        lines.append("   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer")
        lines += [f"{ms * 100:11.2f}{ms:13.4f}{ms:13.4f}{100 * ms / TOTAL:10.1f}   {name}" for name, ms in rows]
    else:
        median = "   Median Time (ms)" if form == "first" else ""
        lines.append(f"{'Layer':>90}   Time (ms)   Avg. Time (ms){median}   Time %")
        for name, ms in rows:
            middle = f"{ms:19.4f}" if median else ""
            lines.append(f"{name:>90}{ms * 100:12.2f}{ms:17.4f}{middle}{100 * ms / TOTAL:9.1f}")
    lines += ["", "&&&& PASSED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=tagger.onnx --int8 --dumpProfile"]
    start = "&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=tagger.onnx --int8 --dumpProfile\n"
    return start + "".join(f"{head}{line}\n" for line in lines)


@pytest.mark.parametrize("form", ["last", "first", "old"])
@pytest.mark.parametrize("head", HEADS)
def test_the_table_is_what_the_json_tells(tmp_path: Path, head: str, form: str) -> None:
    (tmp_path / "run.log").write_text(table(head, form))
    (tmp_path / "profile.json").write_text(profile(LAYERS))
    (log,) = Loaded([str(tmp_path / "run.log")], Config()).evidence.get(TrtLayers).engines
    (told,) = Loaded([str(tmp_path / "profile.json")], Config()).evidence.get(TrtLayers).engines
    assert [t.layer.name for t in log.layers] == [t.layer.name for t in told.layers if t.layer.name]
    assert [t.ms for t in log.layers] == pytest.approx([t.ms for t in told.layers])
    assert log.profile is not None
    assert log.profile.count == 100


def test_layers_in_json_get_their_times_from_the_log(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(table(HEADS[0], "last"))
    (tmp_path / "layers.json").write_text(engine(LAYERS, IO))
    report = analyze(str(tmp_path))
    (gap,) = [f for f in report.findings if f.rule == "QNT001"]
    assert "0.021 ms a run" in gap.message


@pytest.mark.parametrize("cut", range(200, 1_400, 97))
def test_a_table_that_is_cut_off(tmp_path: Path, cut: int) -> None:
    (tmp_path / "run.log").write_text(table(HEADS[0], "last")[:cut])
    engines = Loaded([str(tmp_path / "run.log")], Config()).evidence.get(TrtLayers).engines
    assert len(engines) <= 1
