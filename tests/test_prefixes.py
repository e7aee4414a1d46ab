"""What stands before a message: who wrote it, when, and where the text begins."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import to_builtins

from necropsy_parsers.records import UNKNOWN
from necropsy_parsers.text.prefix import Peeler


def told(line: str) -> dict[str, Any]:
    """What a line's prefixes tell."""
    origin = to_builtins(Peeler().peel(line).origin)
    stamp = origin.pop("time")
    found = {k: v for k, v in origin.items() if v not in (None, "")}
    return {**found, "time": stamp["text"]} if stamp else found


@pytest.mark.parametrize(
    ("line", "text", "origin"),
    [
        ("[rank3]: RuntimeError: x", "RuntimeError: x", {"rank": 3}),
        ('[rank12]:   File "a.py"', '  File "a.py"', {"rank": 12}),
        ("[Rank 3] started", "started", {"rank": 3}),
        ("[default0]:[rank5]:     x = 1", "    x = 1", {"local_rank": 0, "rank": 5}),
        ("[1,2]<stderr>:Traceback", "Traceback", {"rank": 2, "stream": "stderr"}),
        ("[node-3@1,2]<stdout>: x", "x", {"rank": 2, "stream": "stdout"}),
        ("(Worker pid=12) x", "x", {"source": "Worker", "pid": 12}),
        ("(train pid=12, ip=192.0.2.7) x", "x", {"source": "train", "pid": 12, "host": "192.0.2.7"}),
        ("(RayTrainWorker rank=4 pid=9) x", "x", {"source": "RayTrainWorker", "pid": 9, "rank": 4}),
        ("(Worker_TP1 pid=12) x", "x", {"source": "Worker_TP1", "pid": 12, "rank": 1}),
        ("[pod/train-0/main] x", "x", {"source": "train-0/main"}),
        ("May  1 12:00:00 node-3 train.sh[4411]: x", "x",
         {"host": "node-3", "source": "train.sh", "pid": 4411, "time": "May  1 12:00:00"}),
        ("2024-05-01T12:00:00.123Z x", "x", {"time": "2024-05-01T12:00:00.123Z"}),
        ("2024-05-01T12:00:00.123456789+00:00 stderr F x", "x", {"time": "2024-05-01T12:00:00.123456789+00:00"}),
        ("node-3:4411:4502 [0] NCCL WARN x", "NCCL WARN x", {"host": "node-3", "pid": 4411, "level": "WARN"}),
        ("W0501 12:00:00.123456 4411 torch/run.py:851] x", "x",
         {"level": "W", "pid": 4411, "place": ("torch/run.py", 851), "time": "0501 12:00:00.123456"}),
        ("[W501 12:00:00.123456 ProcessGroup.cpp:15] x", "x",
         {"level": "W", "place": ("ProcessGroup.cpp", 15), "time": "501 12:00:00.123456"}),
        ("[W CUDAFunctions.cpp:15] x", "x", {"level": "W", "place": ("CUDAFunctions.cpp", 15)}),
        ("2024-05-01 12:00:00,123 model/model.py:580 : WARNING  : Skipping", "Skipping",
         {"level": "WARNING", "place": ("model/model.py", 580), "time": "2024-05-01 12:00:00,123"}),
        ("2024-05-01 12:00:00,123 - a.b - ERROR - x", "x", {"level": "ERROR", "time": "2024-05-01 12:00:00,123"}),
        ("[2024-05-01 12:00:00,123] [INFO] [stage3.py:19:step] x", "x",
         {"level": "INFO", "place": ("stage3.py", 19), "time": "2024-05-01 12:00:00,123"}),
        ("[INFO|trainer.py:1812] 2024-05-01 12:00:00,123 >> x", "x", {"level": "INFO", "place": ("trainer.py", 1812)}),
        ("V1129 12:21:04.426000 502 torch/_dynamo/guards.py:4760] [4/1_2] [__recompiles]     - 4/0: y == 7",
         "    - 4/0: y == 7",
         {"level": "V", "pid": 502, "place": ("torch/_dynamo/guards.py", 4760), "time": "1129 12:21:04.426000",
          "compile_id": "4/1_2", "artifact": "recompiles"}),
        ("[rank1]:[2023-08-09 10:33:46,123] [0/0] torch._dynamo.symbolic_convert.__graph_breaks: [DEBUG]   File",
         "  File",
         {"rank": 1, "level": "DEBUG", "place": ("torch/_dynamo/symbolic_convert.py", 0), "compile_id": "0/0",
          "artifact": "graph_breaks", "time": "2023-08-09 10:33:46,123"}),
        ("[2023-12-01 10:33:46,123] torch._dynamo.convert_frame: [WARNING] x", "x",
         {"level": "WARNING", "place": ("torch/_dynamo/convert_frame.py", 0), "time": "2023-12-01 10:33:46,123"}),
        ("WARNING:root:x", "x", {"level": "WARNING"}),
        ("[12:00:00] x", "x", {"time": "12:00:00"}),
        ("[  812.345678] Out of memory", "Out of memory", {"source": "kernel"}),
    ],
)  # fmt: skip
def test_a_prefix_tells(line: str, text: str, origin: dict[str, Any]) -> None:
    assert Peeler().peel(line).text == text
    assert told(line) == origin


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: x",
        "loss: 3.2 at step 100",
        "12/391 [00:41<21:33, 3.41s/it]",
        "    x = [rank0]",
        "Killed",
        "(a note in brackets) and text",
        "Epoch 3: loss 0.2",
        "[tensor(1.0)] is what it printed",
        "Warning: x",
        "INFORMATION about the run",
        "192.0.2.7: no route",
    ],
)
def test_ordinary_text_has_no_prefix(line: str) -> None:
    peeled = Peeler().peel(line)
    assert peeled.text == line
    assert peeled.origin == UNKNOWN
    assert not peeled.key
    assert not peeled.headed


@pytest.mark.parametrize(
    "bare",
    [
        *("[rank3]:", "[default1]:", "[1,2]<stderr>:", "(Worker pid=12)", "[pod/train-0/main]"),
        *("2024-05-01T12:00:00.123Z", "2024-05-01T12:00:00.123Z stderr F", "May  1 12:00:00 node-3 train[44]:"),
        "W0501 12:00:00.123 4411 torch/run.py:851]",
    ],
)
def test_a_prefix_alone_is_an_empty_line(bare: str) -> None:
    """Blank lines inside a traceback lose their last blank on the way: the prefix must not depend on it."""
    assert Peeler().peel(bare).text == ""
    assert Peeler().peel(bare).key == Peeler().peel(f"{bare} x").key


def test_the_writer_does_not_depend_on_the_clock() -> None:
    keys = {Peeler().peel(f"May  1 12:00:0{n} node-3 train[4411]: x").key for n in range(9)}
    assert len(keys) == 1
    assert Peeler().peel("2024-05-01T12:00:00.123Z [rank0]: x").key == Peeler().peel("[rank0]: y").key
