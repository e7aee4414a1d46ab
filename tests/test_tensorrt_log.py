"""TensorRT's log: heads of many loggers, woven, glued and cut lines, tables, and what is not TensorRT's."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.benchmarks.tensorrt_log_throughput import layer_block

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import UNKNOWN, Record
from necropsy_parsers.tensorrt_log.builds import release_of
from necropsy_parsers.tensorrt_log.collect import error_parts
from necropsy_parsers.tensorrt_log.heads import read_head, segments
from necropsy_parsers.tensorrt_log.kinds import KINDS
from necropsy_parsers.tensorrt_log.reader import TensorrtReader
from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtMessage, TrtTactic, TrtTimings
from necropsy_parsers.tensorrt_log.search import marked

import necropsy
from necropsy.api import analyze
from necropsy.report import Report

TAG = (
    "Error Code 1: Serialization (Serialization assertion stdVersionRead == kSERIALIZATION_VERSION failed.Version tag "
    "does not match. Note: Current Version: 240, Serialized Engine Version: 236)"
)
HEADS = {
    "trtexec": "[01/31/2026-12:00:00] [E] [TRT] 1: [stdArchiveReader.cpp::StdArchiveReaderInitCommon::46] ",
    "trtexec 8.2": "[01/31/2026-12:00:00] [E] Error[1]: [stdArchiveReader.cpp::StdArchiveReaderInitCommon::46] ",
    "python": "[01/31/2026-12:00:00] [TRT] [E] IRuntime::deserializeCudaEngine: ",
    "python, no time": "[TRT] [E] IRuntime::deserializeCudaEngine: ",
    "python 7": "[TensorRT] ERROR: ",
    "polygraphy": "[E] IRuntime::deserializeCudaEngine: ",
    "onnxruntime": (
        "2026-01-31 12:00:00.123456789 [E:onnxruntime:Default, tensorrt_execution_provider.h:88 log] "
        "[2026-01-31 12:00:00   ERROR] IRuntime::deserializeCudaEngine: "
    ),
    "torch-tensorrt": "ERROR: [Torch-TensorRT] - IRuntime::deserializeCudaEngine: ",
    "torch_tensorrt": "ERROR:torch_tensorrt [TensorRT Conversion Context]:IRuntime::deserializeCudaEngine: ",
    "deepstream": "ERROR: [TRT]: 1: [stdArchiveReader.cpp::StdArchiveReaderInitCommon::46] ",
    "triton": "E0131 12:00:00.000000 1 logging.cc:40] 1: [stdArchiveReader.cpp::StdArchiveReaderInitCommon::46] ",
    "rank": "[rank1]: [01/31/2026-12:00:00] [TRT] [E] IRuntime::deserializeCudaEngine: ",
    "colour": "\x1b[38;5;1m[E] IRuntime::deserializeCudaEngine: \x1b[0m",
    "bare": "1: [stdArchiveReader.cpp::StdArchiveReaderInitCommon::46] ",
    "an unknown logger": "12:00:00.1 <trt-log> (error) | ",
}


def read(text: str, cuts: Iterable[int] = ()) -> list[Record]:
    """Records of a text given in pieces that end at line ends."""
    data = text.encode()
    reader = TensorrtReader("run.log", 0, lambda line, _: (line.decode(), UNKNOWN, 0), Issues())
    at = lines = 0
    for stop in [*sorted(cuts), len(data)]:
        end = data.rfind(b"\n", 0, stop) + 1 if stop < len(data) else stop
        if end > at:
            reader.feed(data[at:end], at, lines)
            lines += data.count(b"\n", at, end)
            at = end
    return list(reader.records())


def messages(text: str) -> list[TrtMessage]:
    return [r for r in read(text) if isinstance(r, TrtMessage)]


def report(tmp_path: Path, text: str) -> Report:
    path = tmp_path / "run.log"
    path.write_text(text, encoding="utf-8")
    return analyze([str(path)])


@pytest.mark.parametrize("name", HEADS)
def test_a_message_is_read_behind_any_head(name: str, tmp_path: Path) -> None:
    (row,) = messages(HEADS[name] + TAG + "\n")
    assert row.kind == "plan-tag"
    assert row.level == "E"
    assert row.code == 1
    assert (row.words["runtime"], row.words["plan"]) == ("240", "236")
    found = report(tmp_path, HEADS[name] + TAG + "\n")
    assert [f.rule for f in found.findings if f.severity > 1] == ["TRT025"]


@pytest.mark.parametrize(
    ("head", "level"),
    [
        ("[TRT] [W] text", "W"),
        ("[01/31/2026-12:00:00] [V] [TRT] text", "V"),
        ("[TensorRT] INTERNAL ERROR: text", "F"),
        ("WARNING: [Torch-TensorRT TorchScript Conversion Context] - text", "W"),
        ("DEBUG: [Torch-TensorRT] - text", "V"),
        ("[TRT-LLM] [I] text", "I"),
    ],
)
def test_heads(head: str, level: str) -> None:
    read_one = read_head(head)
    assert (read_one.level, read_one.text, read_one.own) == (level, "text", True)


def test_errors_of_other_programs_are_not_tensorrts(tmp_path: Path) -> None:
    text = "[TRT] [I] Loaded engine size: 21 MiB\nERROR: could not reach the tracker\n[E] disk is slow\nWARNING: x\n"
    assert messages(text) == []
    assert [f.rule for f in report(tmp_path, text).findings if f.rule.startswith("TRT")] == []


def test_glued_lines_are_two_messages() -> None:
    line = b"[01/31/2026-12:00:00] [W] [TRT] one[01/31/2026-12:00:00] [W] [TRT] two"
    assert [read_head(s).text for s in segments(line)] == ["one", "two"]


def test_errors_have_parts() -> None:
    parts = error_parts(
        "10: [optimizer.cpp::computeCosts::3869] Error Code 10: Internal Error (Could not (x) find it.)"
    )
    assert (parts.code, parts.category, parts.source) == (10, "Internal Error", "optimizer.cpp:3869")
    assert parts.text == "Could not (x) find it."
    parts = error_parts("IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (a: b.)")
    assert (parts.api, parts.category, parts.text) == ("IBuilder::buildSerializedNetwork", "API Usage Error", "a: b.")


@pytest.mark.parametrize(
    ("printed", "release"),
    [("8204", (8, 2, 4)), ("8601", (8, 6, 1)), ("7103", (7, 1, 3)), ("9200", (9, 2, 0)), ("100300", (10, 3, 0)),
     ("101303", (10, 13, 3)), ("110201", (11, 2, 1)), ("8.6.1.6", (8, 6, 1, 6)), ("", ()), ("x", ())],
)  # fmt: skip
def test_releases(printed: str, release: tuple[int, ...]) -> None:
    assert release_of(printed) == release


def test_every_kind_has_its_own_name_and_a_pattern() -> None:
    names = [k.name for k in KINDS]
    assert len(set(names)) == len(names)
    assert all(k.regex.pattern and k.literals for k in KINDS)


def tactics(text: str, cuts: Iterable[int] = ()) -> list[TrtTactic]:
    return [row for r in read(text, cuts) if isinstance(r, TrtTimings) for row in r.blocks]


def test_tables_of_tactics_do_not_depend_on_where_the_text_is_cut() -> None:
    text = "".join(f"[V] [TRT] {line}\n" for n in range(12) for line in layer_block(n))
    whole = tactics(text)
    assert len(whole) == 24
    assert sum(t.chosen for t in whole) == 12
    assert all(t.fastest_ms == min(t.times) for t in whole if t.times)
    assert {t.skipped for t in whole if not t.times} == {"no valid tactics"}
    lines = text.splitlines()
    assert all(
        lines[t.anchor.line - 1].endswith(f"Timing Runner: {t.layer} (CaskConvolution[0x80000009])") for t in whole[::2]
    )
    rng = random.Random(7)
    for _ in range(5):
        assert tactics(text, [rng.randrange(len(text)) for _ in range(9)]) == whole


def test_tactics_of_tensorrt_7() -> None:
    text = (
        "[TensorRT] VERBOSE: *************** Autotuning format combination: Float(1,5,25,400) -> Float(1,1,1,120) ***\n"
        "[TensorRT] VERBOSE: --------------- Timing Runner: fc1 + relu (CaskFullyConnected)\n"
        "[TensorRT] VERBOSE: fc1 + relu (caskFullyConnectedFP32) Set Tactic Name: volta_sgemm_128x32_relu_nn_v1\n"
        "[TensorRT] VERBOSE: Tactic: 8190451076631534509 time 0.028288\n"
        "[TensorRT] VERBOSE: Fastest Tactic: 8190451076631534509 Time: 0.028288\n"
        "[TensorRT] VERBOSE: --------------- Timing Runner: fc1 + relu (CudnnMLPFC)\n"
        "[TensorRT] VERBOSE: Tactic: 0 skipped. Scratch requested: 672, available: 0\n"
        "[TensorRT] VERBOSE: Fastest Tactic: -3360065831133338131 Time: 3.40282e+38\n"
        "[TensorRT] VERBOSE: >>>>>>>>>>>>>>> Chose Runner Type: CaskFullyConnected Tactic: 8190451076631534509\n"
        "[TensorRT] VERBOSE: Engine Layer Information:\n"
        "[TensorRT] VERBOSE: Layer(FullyConnected): fc1 + relu, Tactic: 0, data[Float(120,1,1)] -> prob[Half(10,1,1)]\n"
    )
    first, second = tactics(text)
    assert (first.layer, first.runner, first.times, first.chosen) == (
        "fc1 + relu",
        "CaskFullyConnected",
        (0.028288,),
        True,
    )
    assert (second.infinite, second.skipped, second.shortage) == (True, "memory", "672")
    (layer,) = [r for r in read(text) if type(r).__name__ == "EngineLayer"]
    assert [t.dtype for t in (*layer.inputs, *layer.outputs)] == ["fp32", "fp16"]  # type: ignore[attr-defined]


def test_runs_in_one_log_are_builds_of_their_own() -> None:
    one = (
        "&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=a.onnx --fp16\n"
        "[01/31/2026-12:00:00] [I] [TRT] Input filename:   a.onnx\n"
        "[01/31/2026-12:00:00] [I] Engine built in 3.5 sec.\n"
        "&&&& PASSED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=a.onnx --fp16\n"
    )
    rows = [r for r in read(one + one.replace("a.onnx", "b.onnx").replace("8601", "100300")) if isinstance(r, TrtBuild)]
    assert [(b.model, b.release, b.outcome, b.seconds) for b in rows] == [
        ("a.onnx", (8, 6, 1), "passed", 3.5),
        ("b.onnx", (10, 3, 0), "passed", 3.5),
    ]


def test_nodes_that_quantize_are_asked_once_a_build_and_what_shares_their_line_is_read() -> None:
    head = "[01/31/2026-12:00:00] [TRT] [V] "
    nodes = [
        f"{head}Parsing node: /q{n} [QuantizeLinear]\n{head}/q{n} [QuantizeLinear] inputs: [x]\n" for n in range(9)
    ]
    glued = f"{head}Parsing node: /q9 [QuantizeLinear][01/31/2026-12:00:01] [TRT] [E] {TAG}\n"
    text = f"{head}Input filename:   a.onnx\n{''.join(nodes)}{glued}{head}Parsing node: /r [QuantizeLinear]\n"
    records = read(text)
    assert [(b.quantized, b.last) for b in records if isinstance(b, TrtBuild)] == [(True, 21)]
    assert [m.kind for m in records if isinstance(m, TrtMessage)] == ["plan-tag"]


def test_many_alike_warnings_are_one_row_with_a_count() -> None:
    text = "".join(
        f"[TRT] [W] Missing scale and zero-point for tensor t{n}, expect fall back to non-int8 implementation\n"
        for n in range(500)
    )
    (row,) = messages(text)
    assert row.count == 500
    assert row.subjects[:2] == ("t0", "t1")


def test_cut_and_damaged_logs_are_read_as_far_as_they_go() -> None:
    text = "".join(f"[V] [TRT] {line}\n" for n in range(3) for line in layer_block(n))
    text += '[E] [TRT] ModelImporter.cpp:768: While parsing node number 1 [Conv -> "y"]:\n'
    text += '[E] [TRT] --- Begin node ---\nname: "n'
    rng = random.Random(3)
    for _ in range(40):
        cut = rng.randrange(len(text))
        read(text[:cut])
        read(text[:cut] + "\ufffd\x00" + text[cut + 5 :])
    last = messages(text)[-1]
    assert last.kind == "node-failed"
    assert last.node is not None
    assert last.node.op == "Conv"


def test_a_training_log_with_an_export_at_its_end_is_one_story(tmp_path: Path) -> None:
    training = "".join(f"step {n} | loss {3 / (n + 1):.4f} | 812 img/s\n" for n in range(200))
    export = (
        "[03/14/2026-09:00:00] [TRT] [E] IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (x: dynamic "
        "input is missing dimensions in profile 0.)\n"
        "Traceback (most recent call last):\n"
        '  File "train.py", line 88, in <module>\n'
        "    file.write(engine.serialize())\n"
        "AttributeError: 'NoneType' object has no attribute 'serialize'\n"
    )
    found = report(tmp_path, training + export).findings
    assert [(f.rule, f.role.value) for f in found if f.severity > 1] == [("TRT023", "root"), ("TRT027", "cascade")]


def test_tables_are_frames(tmp_path: Path) -> None:
    path = tmp_path / "build.log"
    path.write_text("".join(f"[V] [TRT] {line}\n" for n in range(3) for line in layer_block(n)), encoding="utf-8")
    frame = necropsy.load(str(path)).trt_tactics
    assert list(frame["candidates"]) == [6, 0, 7, 0, 8, 0]
    assert frame["fastest_ms"].notna().sum() == 3


@pytest.mark.parametrize("name", ["calib_entropy", "calib_minmax"])
def test_a_log_and_the_engines_own_list_tell_the_same(shared: Path, name: str) -> None:
    folder = shared / "captures" / "tensorrt"
    log = necropsy.load(str(folder / f"trt86_{name}.log.gz")).trt_layers
    listed = necropsy.load(str(folder / f"{name}.cache.layers.json")).trt_layers
    for column in ("name", "type", "precision_in", "precision_out", "formats_in", "formats_out", "tactic"):
        assert list(log[column]) == list(listed[column]), column


DUMP = (
    '[01/31/2026-12:00:00] [E] [TRT] ModelImporter.cpp:768: While parsing node number 1 [Mish -> "b"]:',
    "[01/31/2026-12:00:00] [E] [TRT] ModelImporter.cpp:769: --- Begin node ---",
    '[01/31/2026-12:00:00] [E] [TRT] ModelImporter.cpp:770: input: "a"',
    'name: "/neck/mish"',
    'op_type: "Mish"',
    "attribute {",
    '  name: "beta"',
    "  f: 1.5",
    "}",
    "[01/31/2026-12:00:00] [E] [TRT] ModelImporter.cpp:771: --- End node ---",
    "[01/31/2026-12:00:00] [E] [TRT] ModelImporter.cpp:774: ERROR: onnx2trt_utils.cpp:5400 In function importFallback:",
    '[8] Assertion failed: creator && "Plugin not found"',
)
STRANGERS = {
    "of TensorRT": f"[01/31/2026-12:00:00] [E] [TRT] 1: [stdArchiveReader.cpp::read::46] {TAG}",
    "of a program": "[E] camera 3: no frame for 5 s",
    "of a Python logger": "ERROR:camera:no frame for 5 s",
    "verbose": "[01/31/2026-12:00:00] [V] [TRT] Searching for input: conv.weight",
    "a list": "[01/31/2026-12:00:00] [V] [TRT] Engine Layer Information:\nLayer(Cask): c, Tactic: 0x1, a (Half[8,3])",
}


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("at", range(2, 11))
def test_lines_of_others_within_a_dump_are_not_part_of_it(name: str, at: int) -> None:
    records = read("\n".join([*DUMP[:at], STRANGERS[name], *DUMP[at:]]) + "\n")
    messages = {m.kind: m for m in records if isinstance(m, TrtMessage)}
    assert set(messages) == {"node-failed", "plan-tag"} if name == "of TensorRT" else {"node-failed"}
    (alone,) = [m for m in read("\n".join(DUMP) + "\n") if isinstance(m, TrtMessage)]
    found = messages["node-failed"]
    assert (found.node, found.words) == (alone.node, alone.words)
    assert alone.node is not None
    assert alone.node.attributes == {"beta": "1.5"}


def test_a_logger_that_heads_each_line_of_a_dump() -> None:
    head = "[01/31/2026-12:00:00] [TRT] [E] "
    lines = [line if line.startswith("[01") else f"{head}{line}" for line in DUMP]
    (message,) = [m for m in read("\n".join(lines) + "\n") if isinstance(m, TrtMessage)]
    assert message.node is not None
    assert (message.node.name, message.node.attributes) == ("/neck/mish", {"beta": "1.5"})


@pytest.mark.parametrize(
    ("loud", "quiet"),
    [
        (
            "ERROR:torch_tensorrt [TensorRT Conversion Context]:x",
            "DEBUG:torch_tensorrt [TensorRT Conversion Context]:x",
        ),
        (
            "2026-01-31 12:00:00.1: W tensorflow/compiler/tf2tensorrt/utils/trt_logger.cc:42] DefaultLogger x",
            "2026-01-31 12:00:00.1: I tensorflow/compiler/tf2tensorrt/utils/trt_logger.cc:42] DefaultLogger x",
        ),
    ],
)
def test_of_heads_that_all_lines_bear_those_of_warnings_and_errors_count(loud: str, quiet: str) -> None:
    text = f"{quiet}\n{loud}\n{quiet}\n"
    assert [m.begin for m in marked(text.encode())] == [len(quiet) + 1]
    assert len(list(marked(f"\x1b[0m{text}".encode()))) == 3  # colours may hide what a line says
    assert [m.level for m in read(text) if isinstance(m, TrtMessage)] == ["E" if "ERROR" in loud else "W"]
