"""The roofline plot: where dots and roofs are, whose limits they are, what it says is missing, that it is drawn."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from necropsy.api import analyze
from necropsy.commands import run
from necropsy.render.parts.kernels import fitted
from necropsy.render.parts.rooflines import Dot, Roof, alike, amount, missing, panels
from necropsy.report import KernelSummary, RooflinePosition

FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"
REPORT = FORMATS / "ncu_report" / "h200" / "report.ncu-rep.xz"
GEMM = RooflinePosition("GPU X", "bfloat16", 6e14, 8e14, 2e12, 4e12, "report", "report")
ADD = RooflinePosition("GPU X", "float", 2e11, 6e13, 2.4e12, 4e12, "report", "report")
COPY = RooflinePosition("GPU X", "", 0.0, None, 3e12, 4e12, "", "report")
COUNTERS = (
    "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC,"
    "device__attribute_display_name,gpu__time_duration.sum,sm__cycles_elapsed.avg.per_second,"
    "dram__bytes.sum.per_second,dram__bytes.sum.peak_sustained,dram__cycles_elapsed.avg.per_second,"
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed,"
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed,"
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed,"
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"
)
UNITS = ",,,,,,,,,,,,us,Ghz,Tbyte/second,Kbyte/cycle,Ghz,inst/cycle,inst/cycle,inst/cycle,inst/cycle"


def kernel(name: str, ns: int, at: RooflinePosition | None, share: float | None = None) -> KernelSummary:
    return KernelSummary("r.ncu-rep", name, 1, ns, share, "a/b/net.py", 7, "f", "", {}, at)


def test_dots_and_roofs() -> None:
    (panel,) = panels([kernel("add", 100, ADD, 0.1), kernel("gemm", 900, GEMM, 0.9)])
    assert panel.memory == Roof("device memory 4 TB/s", 4e12)
    assert panel.compute == (Roof("BF16 800 TFLOP/s", 8e14, "bfloat16"), Roof("FP32 60 TFLOP/s", 6e13, "float"))
    gemm, add = panel.dots
    assert gemm == Dot("net.py:7 gemm", "bfloat16", 300.0, 6e14, 900, 0.9, 0.75)  # of its arithmetic
    assert add.intensity == pytest.approx(1 / 12)
    assert add.reached == pytest.approx(0.6)  # of what memory allows at that intensity
    assert panel.title == "GPU X: limits from the report, at the clocks of the profile"
    assert panel.note == ""


def test_what_is_not_shown_is_said() -> None:
    rows = [kernel("gemm", 900, GEMM, 0.6), kernel("copy", 300, COPY, 0.2), kernel("k", 300, None, 0.2)]
    (panel,) = panels(rows)
    assert [dot.name for dot in panel.dots] == ["net.py:7 gemm"]
    assert panel.note == (
        "Not shown: 1 kernel (20% of the time) without floating-point arithmetic and "
        "1 kernel (20% of the time) whose operations were not counted."
    )


@pytest.mark.parametrize(
    ("peak_by", "bandwidth_by", "words"),
    [
        ("table", "table", "limits from its datasheet"),
        ("table", "report", "limits from the report, else from its datasheet"),
        ("", "", "limits unknown"),
    ],
)
def test_whose_limits(peak_by: str, bandwidth_by: str, words: str) -> None:
    at = RooflinePosition("GPU X", "half", 1e12, 1e14 if peak_by else None, 1e11, 1e12 if bandwidth_by else None,
                          peak_by, bandwidth_by)  # fmt: skip
    (panel,) = panels([kernel("k", 1, at)])
    assert panel.title == f"GPU X: {words}"
    assert (panel.memory is None, panel.compute == (), panel.dots[0].reached is None) == ((not bandwidth_by,) * 3)


def test_gpus_are_apart() -> None:
    other = RooflinePosition("GPU Y", "float", 1e12, 1e13, 1e11, 1e12, "report", "report")
    assert [p.title.split(":")[0] for p in panels([kernel("a", 2, ADD), kernel("b", 1, other)])] == ["GPU X", "GPU Y"]


def test_roofs_of_one_height_share_a_label() -> None:
    roofs = [Roof(kind, most, kind) for kind, most in (("a", 10.0), ("b", 10.0), ("c", 9.0), ("d", 1.0))]
    assert [[roof.kind for roof in together] for together in alike(roofs)] == [["a", "b", "c"], ["d"]]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "the inputs hold none"),
        ([kernel("copy", 1, COPY)], "none of the profiled kernels does floating-point arithmetic"),
        ([kernel("k", 1, None)], "ncu --set full (or --section SpeedOfLight"),
    ],
)
def test_why_there_is_none(rows: list[KernelSummary], words: str) -> None:
    assert panels(rows) == []
    assert words in missing(rows)


@pytest.mark.parametrize(("value", "words"), [(4.05e12, "4.05 TB/s"), (8.65e14, "865 TB/s"), (999, "999 B/s")])
def test_amounts(value: float, words: str) -> None:
    assert amount(value, "B/s") == words


def counted(tmp_path: Path) -> Path:
    """A raw CSV: 1 GHz, 2 TB/s of 4; adds 100 a cycle, products 50, fused ones 200, of 1,000 fused ones."""
    path = tmp_path / "raw.csv"
    cells = "0,77,python3.12,127.0.0.1,add_kernel(int),1,7,(128 1 1),(64 1 1),0,9.0,GPU X,10,1,2,2,2,100,50,200,1000"
    path.write_text(f"{COUNTERS}\n{UNITS}\n{cells}\n", encoding="utf-8")
    return path


def test_operations_bytes_and_limits_of_a_csv(tmp_path: Path) -> None:
    (row,) = analyze(str(counted(tmp_path))).kernels
    assert row.roofline == RooflinePosition("GPU X", "float", 5.5e11, 2e12, 2e12, 4e12, "report", "report")


def test_a_picture_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="the extra that draws is not installed")
    picture = tmp_path / "roofline.png"
    assert run(["analyze", str(counted(tmp_path)), "--roofline", str(picture)]) == 0
    assert "Roofline plot written to" in capsys.readouterr().err
    data = picture.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert (1200 < width < 2000, 600 < height < 1200, 10_000 < len(data) < 500_000) == (True, True, True)
    assert run(["analyze", str(counted(tmp_path)), "--roofline", str(tmp_path / "roofline.doc")]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert run(["analyze", str(counted(tmp_path)), "--roofline", str(tmp_path / "plot")]) == 0
    assert (tmp_path / "plot").read_bytes()[:4] == b"\x89PNG"


def test_without_matplotlib_one_line_names_the_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("necropsy.commands._plots.find_spec", lambda name: None)
    assert run(["analyze", str(counted(tmp_path)), "--roofline", str(tmp_path / "r.png")]) == 2
    assert "pip install 'necropsy[plot]'" in capsys.readouterr().err
    assert not (tmp_path / "r.png").exists()


@pytest.mark.parametrize(
    ("room", "ellipsis", "shown"),
    [
        (24, "…", "triton_poi_fused_relu_17"),
        (20, "…", "triton_poi…d_relu_17"),
        (20, "...", "triton_po..._relu_17"),
        (8, "…", "trit…_17"),
    ],
)
def test_names_keep_head_and_tail(room: int, ellipsis: str, shown: str) -> None:
    found = fitted("triton_poi_fused_relu_17", room, ellipsis)
    assert len(found) <= room
    assert found == shown


def test_of_a_long_template_what_it_computes_is_kept() -> None:
    assert fitted("reduce_kernel<MeanOps>", 22, "…") == "reduce_kernel<MeanOps>"
    assert fitted("reduce_kernel<MeanOps>", 21, "…") == "MeanOps"
    assert fitted("elementwise_kernel<direct_copy_kernel_cuda>", 19, "…") == "direct_co…rnel_cuda"
