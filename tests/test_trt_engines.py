"""Engine layers, times and summaries in every form, whole and damaged; tables of what belongs together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.engine_cases.build import engine, engine11, profile, summary
from tests.support.engine_cases.case import IO
from tests.support.engine_cases.cases import all_cases
from tests.support.engine_cases.nets import attention, quantized
from tests.support.engine_cases.write import RULES, files_of

from necropsy.api import Loaded, analyze, load
from necropsy.config import Config
from necropsy.evidence.trt_layers import TrtLayers

LAYERS = quantized(gap=True)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No sources around: looking through this checkout for a model takes longer than all else."""
    monkeypatch.chdir(tmp_path)


def engines_of(*paths: Path) -> TrtLayers:
    return Loaded([str(p) for p in paths], Config()).evidence.get(TrtLayers)


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def kinds(path: Path) -> list[str]:
    return sorted({i.kind for i in analyze(str(path)).issues})


@pytest.mark.parametrize("case", all_cases(), ids=lambda c: c.name)
def test_fixtures_are_what_the_programs_write(case: Any) -> None:
    for name, data in files_of(case).items():
        if not name.endswith(".onnx"):  # releases of onnx order fields differently
            assert (RULES / name).read_bytes() == data, "python -m tests.support.engine_cases"


@pytest.mark.parametrize("case", [c for c in all_cases() if "/silent-" in c.name], ids=lambda c: c.name)
def test_silent_cases_have_no_note_either(case: Any, tmp_path: Path) -> None:
    for name, data in case.files.items():
        written(tmp_path / "input.d", name, data)
    rule = case.expect["rule"]
    allowed = {"QNT007/silent-faster"}  # faster, but not by what one expects of INT8: a note
    found = [f.rule for f in analyze(str(tmp_path / "input.d")).findings if f.rule == rule]
    assert not found or case.name in allowed


class TestForms:
    """The same layers in the schemas of TensorRT 8 to 11."""

    def test_detailed(self, tmp_path: Path) -> None:
        rows = engines_of(written(tmp_path, "layers.json", engine(LAYERS, IO))).rows
        assert [r.name for r in rows] == [x.name for x in LAYERS]
        body = rows[4]
        assert (body.type, body.precision_in, body.precision_out) == ("CaskConvolution", "int8+fp32", "fp32")
        assert body.formats_in == ["int8 CHW32", "fp32 CHW"]
        assert body.nodes[-3:] == ["/body/body.1/Conv", "/Add", "/Relu_1"]
        assert body.tactic.startswith("sm80_xmma")

    def test_eleven(self, tmp_path: Path) -> None:
        layers = attention(fused=False)
        path = written(tmp_path, "layers.json", engine11(layers, [layers[0].ins[0]], [layers[-1].outs[0]]))
        table = engines_of(path)
        assert [r.type for r in table.rows] == ["gemm", "gemm", "kgen", "gemm", "gemm"]
        assert table.rows[2].nodes == ["/Softmax"]
        assert table.rows[0].formats_in == ["fp32 CHW"]
        assert table.engines[0].network_tensors == {"tokens", "hidden"}
        assert table.engines[0].engine is not None
        assert table.engines[0].engine.schema == "11"

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda n: {"Layers": n, "Bindings": IO},
            lambda n: {"Layers": n},
            lambda n: {"Layers": [{"Name": x} for x in n], "Bindings": []},
        ],
    )
    def test_names_only(self, tmp_path: Path, wrap: Any) -> None:
        names = [x.name for x in LAYERS]
        table = engines_of(written(tmp_path, "layers.json", json.dumps(wrap(names))))
        assert [r.name for r in table.rows] == names
        assert not table.engines[0].typed

    @pytest.mark.parametrize("indent", [None, 2])
    def test_a_bare_list(self, tmp_path: Path, indent: int | None) -> None:
        text = json.dumps([x.told() for x in LAYERS], indent=indent)
        assert len(engines_of(written(tmp_path, "layers.json", text)).rows) == len(LAYERS)

    @pytest.mark.parametrize("count", [1, 4])
    def test_layers_one_behind_the_other(self, tmp_path: Path, count: int) -> None:
        text = "\n".join(json.dumps(x.told()) for x in LAYERS[:count])
        rows = engines_of(written(tmp_path, "layers.json", text)).rows
        assert [(r.name, r.type) for r in rows] == [(x.name, x.type) for x in LAYERS[:count]]

    @pytest.mark.parametrize(
        "text",
        ['{"Layers": [{"name": "dense", "units": 3}]}', '{"Layers": 3}', '{"layers": ["a"]}', '["Conv_0", "Relu_1"]'],
    )
    def test_other_json_is_not_claimed(self, tmp_path: Path, text: str) -> None:
        assert analyze(str(written(tmp_path, "x.json", text))).inputs[0].format != "trt_layers"

    def test_a_log_that_holds_json_is_a_log(self, tmp_path: Path) -> None:
        lines = "[03/11/2026-10:00:00] [I] [TRT] words\n" * 9
        assert analyze(str(written(tmp_path, "x.log", lines + engine(LAYERS, IO)))).inputs[0].format == "log"

    def test_profiles_of_one_engine_are_not_its_layers_twice(self, tmp_path: Path) -> None:
        told = [x.told() for x in LAYERS]
        again = [{**t, "Name": f"{t['Name']} [profile 1]"} for t in told]
        text = json.dumps({"Layers": told + again, "Bindings": IO})
        assert len(engines_of(written(tmp_path, "layers.json", text)).rows) == len(LAYERS)

    def test_several_engines_in_one_file(self, tmp_path: Path) -> None:
        text = engine(LAYERS, IO) + engine(attention(fused=True)[:0] or LAYERS[:2], IO)
        assert [len(v.layers) for v in engines_of(written(tmp_path, "layers.json", text)).engines] == [len(LAYERS), 2]

    def test_only_a_profile(self, tmp_path: Path) -> None:
        table = engines_of(written(tmp_path, "profile.json", profile(LAYERS)))
        assert sum(r.ms or 0 for r in table.rows) == pytest.approx(sum(x.ms for x in LAYERS))

    @pytest.mark.parametrize("enqueue", [0.2, 1.9])
    def test_runs_that_the_host_binds(self, tmp_path: Path, enqueue: float) -> None:
        run = {"startEnqMs": 1.0, "endEnqMs": 1.0 + enqueue, "startComputeMs": 2, "endComputeMs": 4, "latencyMs": 3}
        found = analyze(str(written(tmp_path, "times.json", json.dumps([run] * 20)))).findings
        assert [f.rule for f in found] == (["TRT017"] if enqueue > 1 else [])

    def test_times_of_old_and_new_releases(self, tmp_path: Path) -> None:
        new = {"startEnqMs": 1.0, "endEnqMs": 1.5, "startComputeMs": 2, "endComputeMs": 4, "h2dMs": 0.1, "latencyMs": 3}
        old = {"startComputeMs": 2, "endComputeMs": 4, "computeMs": 2, "inMs": 0.25, "outMs": 0.5, "latencyMs": 2.75}
        frame = load(
            [str(written(tmp_path, f"{n}.json", json.dumps([t]))) for n, t in (("new", new), ("old", old))]
        ).trt_runs
        assert list(frame["compute_ms"]) == [2, 2]
        assert frame["enqueue_ms"][0] == 0.5
        assert list(frame["to_device_ms"]) == [0.1, 0.25]


class TestTogether:
    """What belongs to one engine."""

    def test_profiles_go_to_the_engine_in_their_folder(self, tmp_path: Path) -> None:
        for name, gap in (("a", True), ("b", False)):
            written(tmp_path, f"{name}/layers.json", engine(quantized(gap=gap), IO))
            written(tmp_path, f"{name}/profile.json", profile(quantized(gap=gap)))
            written(tmp_path, f"{name}/x.profile.metadata.json", summary(0.2 if gap else 0.1))
        views = engines_of(tmp_path).engines
        assert [v.label for v in views] == ["a", "b"]
        assert [v.total_ms for v in views] == pytest.approx(
            [sum(x.ms for x in quantized(gap=g)) for g in (True, False)]
        )
        assert [v.compute_ms for v in views] == [0.2, 0.1]

    def test_a_log_and_the_json_of_its_build_tell_one_engine(self, tmp_path: Path) -> None:
        json_path = written(tmp_path, "layers.json", engine(LAYERS, IO))
        log_path = written(tmp_path, "build.log", log_of(LAYERS))
        one, other, both = engines_of(json_path), engines_of(log_path), engines_of(json_path, log_path)
        assert len(both.engines) == 1
        assert len(other.rows) == len(one.rows)
        for column in ("name", "nodes", "type", "precision_in", "precision_out", "dims_out", "tactic_value"):
            assert [getattr(r, column) for r in other.rows] == [getattr(r, column) for r in one.rows], column
        assert [r.tactic for r in both.rows] == [r.tactic for r in one.rows]


def log_of(layers: list[Any]) -> str:
    """The list of layers at the end of a verbose build with TensorRT 8."""
    names = {"fp32": "Float", "fp16": "Half", "int8": "Int8"}

    def tensor(t: Any) -> str:
        dims = ",".join(map(str, t.dims))
        return f"{t.name} ({names[t.dtype]}[{dims}])"

    lines = ["[03/11/2026-10:00:00] [V] [TRT] Engine Layer Information:"]
    for x in layers:
        sides = " -> ".join(", ".join(tensor(t) for t in side) for side in (x.ins, x.outs))
        lines.append(f"Layer({x.type}): {x.name}, Tactic: {x.more.get('TacticValue', '0x0000000000000000')}, {sides}")
    head = "&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=tagger.onnx --int8 --verbose\n"
    return head + "\n".join(lines) + "\n[03/11/2026-10:00:01] [I] Engine built in 1.5 sec.\n"


class TestDamage:
    """Damaged JSON costs what is damaged, and is named."""

    def test_cut_anywhere(self, tmp_path: Path) -> None:
        text = engine(LAYERS, IO)
        for at in range(40, len(text) - 60, 331):
            path = written(tmp_path, "layers.json", text[:at])
            report = analyze(str(path))
            assert {i.kind for i in report.issues} & {"engine/cut", "engine/no-layers", "sniff/unknown"}, at
            assert not [n for n in report.not_evaluated if "fault" in n.missing]

    def test_one_damaged_layer_is_left_out(self, tmp_path: Path) -> None:
        text = engine(LAYERS, IO).replace('"LayerType": "CudaPooling"', '"LayerType": "Cuda"Pooling"', 1)
        path = written(tmp_path, "layers.json", text)
        assert [r.name for r in engines_of(path).rows] == [x.name for x in LAYERS if x.type != "CudaPooling"]
        assert kinds(path) == ["engine/damaged"]

    def test_a_name_with_an_unescaped_backslash(self, tmp_path: Path) -> None:
        text = engine(LAYERS, IO).replace("/head/Gemm", "scope\\head\\Gemm")
        path = written(tmp_path, "layers.json", text)
        assert len(engines_of(path).rows) == len(LAYERS)
        assert kinds(path) == ["engine/repaired"]

    @pytest.mark.parametrize(
        "text", ['{"Layers": []}', '{"Layers": [], "Bindings": []}', '{"Layers": [1, null], "Bindings": []}']
    )
    def test_no_layers(self, tmp_path: Path, text: str) -> None:
        assert kinds(written(tmp_path, "layers.json", text)) == ["engine/no-layers"]

    def test_values_of_other_kinds(self, tmp_path: Path) -> None:
        layer = LAYERS[2].told()
        odd: list[Any] = [None, 1, -1.5, "x", [], {}, [None], [[1]], {"Type": 1}, 1 << 70, True]
        layers = [{**layer, key: value} for key in layer for value in odd if key != "Name"]
        path = written(tmp_path, "layers.json", json.dumps({"Layers": layers, "Bindings": 3, "I/O Tensors": [3, {}]}))
        assert len(engines_of(path).rows) == len(layers)
        assert not [n for n in analyze(str(path)).not_evaluated if "fault" in n.missing]

    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_any_damage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject) -> None:
        monkeypatch.setenv("NECROPSY_STRICT", "1")
        monkeypatch.chdir(tmp_path)
        name, text = data.draw(st.sampled_from(sorted(WHOLE.items())))
        raw = bytearray(text.encode())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(raw)))
            end = min(len(raw), at + data.draw(st.integers(0, 40)))
            raw[at:end] = data.draw(
                st.sampled_from([b"", b"null", b"[", b"}", b'"', b"\\", b"1e999", b"-1", b"\x00\xff"])
            )
        analyze(str(written(tmp_path, name, bytes(raw))))


WHOLE = {
    "layers.json": engine(LAYERS, IO),
    "eleven.json": engine11(attention(fused=False), LAYERS[0].ins, LAYERS[0].outs),
    "profile.json": profile(LAYERS),
    "run.profile.metadata.json": summary(0.2),
}
