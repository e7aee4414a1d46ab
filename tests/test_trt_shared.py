"""Engines of other projects and captures of real builds, where they are at hand, with what is known of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy.api import Loaded, analyze
from necropsy.config import Config
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_layers import TrtLayers
from necropsy.finding import Finding, Severity


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(*paths: Path, source: Path | None = None) -> dict[str, Finding]:
    config = Config(source=(str(source),)) if source is not None else Config()
    return {f.rule: f for f in analyze([str(p) for p in paths], config=config).findings}


def loud(findings: dict[str, Finding]) -> set[str]:
    return {code for code, f in findings.items() if f.severity > Severity.NOTE}


@pytest.mark.usefixtures("elsewhere")
class TestTrex:
    """ResNet and MobileNet engines of trt-engine-explorer."""

    def test_the_gap_is_named_with_its_layers_and_cost(self, shared: Path) -> None:
        trex = shared / "external" / "trex"
        one = found(trex / "A100-qat-residual")
        assert loud(one) == {"QNT001"}
        assert "Conv_284 (layer4[1].conv2) writes FP32" in one["QNT001"].message
        assert "the input of GlobalAveragePool_294 is not quantized" in one["QNT001"].message
        assert one["QNT001"].cost.ns == round((0.013312 + 0.007168) * 1e6)

    def test_without_the_gap_nothing_is_said(self, shared: Path) -> None:
        assert loud(found(shared / "external" / "trex" / "A100-qat-residual-qgap")) == set()

    def test_the_gap_is_what_separates_the_two(self, shared: Path) -> None:
        trex = shared / "external" / "trex"
        both = found(trex / "A100-qat-residual", trex / "A100-qat-residual-qgap")
        assert loud(both) == {"QNT001"}
        told = both["QNT001"]
        assert "A100-qat-residual-qgap is the same model without it" in told.message
        assert told.cost.basis == "measured"
        assert told.cost.ns == pytest.approx(56_300, abs=500)  # of 58,368 ns that the two differ by
        assert any(f.startswith("DequantizeLinear_291") for f in map(str, list(told.facts["without the gap"])))  # type: ignore[arg-type]

    def test_half_precision(self, shared: Path) -> None:
        assert loud(found(shared / "external" / "trex" / "A100-fp16")) == {"TRT003"}

    def test_mobilenet(self, shared: Path) -> None:
        mobile = found(shared / "external" / "trex" / "mobilenet-qat")
        assert loud(mobile) == {"QNT001", "QNT003"}
        assert "16 quantized layers" in mobile["QNT001"].message


@pytest.mark.usefixtures("elsewhere")
class TestCaptures:
    """Builds with TensorRT 8.6 of `workloads/export_onnx.py`."""

    def test_the_shifted_input_is_found(self, shared: Path) -> None:
        folder = shared / "captures" / "tensorrt"
        pair = found(folder / "calib_entropy.cache", folder / "calib_entropy_shifted.cache")
        assert "already the input image (3.00 times" in pair["QNT010"].message
        assert "QNT010" not in found(folder / "calib_entropy.cache", folder / "calib_minmax.cache")

    @pytest.mark.parametrize("kind", ["entropy", "minmax"])
    def test_log_and_json_of_one_build_are_equal(self, shared: Path, kind: str) -> None:
        folder = shared / "captures" / "tensorrt"
        paths = [folder / f"trt86_calib_{kind}.log.gz", folder / f"calib_{kind}.cache.layers.json"]
        log, told = (Loaded([str(p)], Config()).evidence.get(TrtLayers) for p in paths)
        for column in ("name", "type", "precision_in", "precision_out", "dims_out", "tactic_value"):
            assert [getattr(r, column) for r in log.rows] == [getattr(r, column) for r in told.rows], column
        assert len(Loaded([str(p) for p in paths], Config()).evidence.get(TrtLayers).rows) == len(told.rows)

    @pytest.mark.parametrize("model", ["convnet", "convnet_dynamo"])
    def test_nodes_lead_to_their_lines(self, shared: Path, model: str) -> None:
        """The exporter's own stacks and what is read of names and source agree."""
        path = shared / "captures" / "tensorrt" / f"{model}.onnx"
        loaded = Loaded([str(path)], Config(source=(str(shared / "workloads"),)))
        nodes = loaded.evidence.get(OnnxNodes)
        places = TrtLayers().places(nodes, loaded.evidence.get(Sources))
        lines = [[p.line for p in places.of_node(n.name)] for n in nodes if n.op not in ("Identity", "Constant")]
        assert lines == [[n] for n in (24, 24, 25, 25, 26, 26, 26, 27, 27, 27, 27, 28, 29, 29, 30, 30, 30, 31, 31)]
