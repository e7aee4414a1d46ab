"""Calibration caches: heads of all releases, scales by their bits, damage; advice by TensorRT's major number."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.engine_cases.build import T, conv, engine, engine11, other
from tests.support.engine_cases.quantization import cache

from necropsy_parsers.tensorrt.calibration import release_of, scale_of

from necropsy.api import analyze, load


def written(folder: Path, name: str, text: str | bytes) -> str:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        ("3f800000", 1.0),
        ("3D15A525", 0.036534447),
        ("0", 0.0),
        ("bf800000", -1.0),
        ("7f800000", math.inf),
        ("1", 1.4e-45),
    ],
)
def test_scales_are_bits_of_a_float(digits: str, value: float) -> None:
    assert scale_of(digits) == pytest.approx(value, rel=1e-6, abs=1e-40)


def test_a_scale_that_is_no_number() -> None:
    assert math.isnan(scale_of("7fc00000"))


@pytest.mark.parametrize(
    ("digits", "release"),
    [("8601", (8, 6, 1)), ("7103", (7, 1, 3)), ("8205", (8, 2, 5)), ("100001", (10, 0, 1)), ("101300", (10, 13, 0))],
)
def test_releases(digits: str, release: tuple[int, ...]) -> None:
    assert release_of(digits) == release


@pytest.mark.parametrize("head", ["TRT-8601-EntropyCalibration2", "TRT-7103-MinMaxCalibration", "TRT-100300-Legacy"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_cache_is_read(tmp_path: Path, head: str, end: str) -> None:
    text = cache(head=head).replace("\n", end)
    rows = load(written(tmp_path, "calib.cache", text)).calibration
    assert len(rows) == 8
    assert list(rows["calibrator"].unique()) == [head.split("-")[2]]
    assert rows["range"][0] == pytest.approx(127 * 0.02)
    assert rows["tensor"][1] == "(Unnamed Layer* 0) [Constant]_output"


def test_lines_that_are_no_scale_are_counted(tmp_path: Path) -> None:
    text = cache() + "Traceback (most recent call last):\nlogits\nx: 123456789\n\n"
    report = analyze(written(tmp_path, "calib.cache", text))
    assert [(i.kind, i.count) for i in report.issues] == [("calibration/line", 3)]


def test_a_tensor_with_colons_keeps_its_name(tmp_path: Path) -> None:
    rows = load(
        written(tmp_path, "c.cache", "TRT-8601-EntropyCalibration2\nonnx::Conv_1: out:0: 3f800000\n")
    ).calibration
    assert list(rows["tensor"]) == ["onnx::Conv_1: out:0"]


def test_unrelated_caches_are_not_compared(tmp_path: Path) -> None:
    one = written(tmp_path, "a.cache", cache())
    two = written(tmp_path, "b.cache", cache(lambda i, n: 3.0).replace(": ", "_of_another_net: "))
    assert [f for f in analyze([one, two]).findings if f.rule == "QNT010"] == []


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.integers(0, 150))
def test_any_damage(tmp_path: Path, junk: bytes, at: int) -> None:
    text = cache().encode()
    report = analyze(written(tmp_path, "calib.cache", text[:at] + junk + text[at:]), config=None)
    assert not [n for n in report.not_evaluated if "fault" in n.missing]


@pytest.mark.parametrize("eleven", [False, True])
def test_eleven_is_not_told_to_calibrate(tmp_path: Path, eleven: bool) -> None:
    """An engine without Q/DQ whose INT8 layers write floats: up to 10.x a range may be given, 11 has no calibrators."""
    image, a, b = T("image", "int8", (8, 8, 9, 9)), T("a", "fp16", (8, 16, 9, 9)), T("b", "int8", (8, 16, 9, 9))
    out = T("out", "int8", (8, 16, 9, 9))
    layers = [
        conv("/c0/Conv", [image], a, tactic="imma"),
        other("Reformatting CopyNode for Input Tensor 0 to /c1/Conv", "Reformat", [a], [b], Origin="REFORMAT"),
        conv("/c1/Conv", [b], out, tactic="imma"),
    ]
    text = engine11(layers, [image], [out]) if eleven else engine(layers, ["image", "out"])
    found = [f for f in analyze(written(tmp_path, "layers.json", text)).findings if f.rule == "QNT001"]
    assert len(found) == 1
    advice = " ".join(fix.title for fix in found[0].fixes)
    assert ("calibrate" in advice) is not eleven
    assert "Q/DQ" in advice
