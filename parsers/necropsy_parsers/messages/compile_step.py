"""Steps of a compilation: what torch's compiler took up, when, and with what end.

Step 1: torchdynamo start tracing forward /home/trainer/vit/train.py:63
Step 2: calling compiler function inductor
Step 2: done compiler function inductor
Step 3: torchinductor done compiling BACKWARDS graph 0
Restarting analysis due to _dynamo/symbolic_convert.py:261 in fail_and_restart_analysis
TorchDynamo attempted to trace the following frames: [                                        (torch 2.6 and later)
  * forward /home/trainer/vit/train.py:63
]
TorchDynamo compilation metrics:
Function                       Runtimes (s)
-----------------------------  --------------
_compile.compile_inner         4.322

`TORCH_LOGS=dynamo` prints them at INFO, all releases since 2.1 (DEBUG adds "torchdynamo start compiling", which tells
nothing more); the last two stand at the end of each process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "compile_step"
TITLE: Final = "Steps of compilations"
TRIGGERS: Final = (
    b"torchdynamo start tracing",
    b"calling compiler function",
    b"done compiler function",
    b"done compiling ",
    b"Restarting analysis",
    b"TorchDynamo attempted",
    b"TorchDynamo compilation metrics",
)
READS: Final = (
    Reads("", "2.1", "steps of each compilation with frame, clock and backend; seconds of a process at its end"),
    Reads("", "2.6", "frames that Dynamo attempted"),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Step 1: torchdynamo start tracing forward /home/trainer/vit/train.py:63": {"step": "trace", "function": "forward"},
    "Step 2: calling compiler function inductor": {"step": "backend", "backend": "inductor"},
}
_START: Final = lazily(r"torchdynamo start tracing (?P<function>\S+) (?P<file>[^\n]+?):(?P<line>\d+)(?=,|\n|$)")
_BACKEND: Final = lazily(r"(?P<step>calling|done) compiler function (?P<backend>[^\n]+)")
_GRAPH: Final = lazily(r"done compiling (?P<way>FORWARDS|BACKWARDS|INFERENCE) graph (?P<graph>\d+)")
_FRAME: Final = lazily(r"^\s*\* (?P<function>\S+) (?P<file>.+):(?P<line>\d+)\s*$", re.M)
# Dynamo's own name of "all of it": `_compile.<locals>.compile_inner` up to 2.4. With `tabulate` installed the columns
# stand apart by blanks, without it by commas; several values (2.1) are one a compilation.
_TOTAL: Final = lazily(
    r"^\s*_compile\.(?:<locals>\.)?compile_inner(?:,|\s)\s*(?P<seconds>\d+(?:\.\d+)?(?:, \d+(?:\.\d+)?)*)", re.M
)


class CompileStep(Record, frozen=True):
    """One step. `step`: trace, backend, backend done, graph done, restart, attempted, metrics.

    `function`, `file` and `line` name the frame (of a `trace`), `backend` the compiler function,
    `frames` how many frames Dynamo tried in this process (`attempted`), `seconds` what all compilations of this
    process took together (`metrics`; 0 where the table is empty).
    """

    step: str
    function: str = ""
    file: str = ""
    line: int | None = None
    backend: str = ""
    frames: int | None = None
    seconds: float | None = None


def read(message: Message) -> Iterator[CompileStep]:
    """The steps that `message` reports."""
    if message.exception is not None:
        return
    text, common = message.text, message.common
    for m in _START.finditer(text):
        yield CompileStep(message.anchor, "trace", m["function"], m["file"], int(m["line"]), **common)
    for m in _BACKEND.finditer(text):
        step = "backend" if m["step"] == "calling" else "backend done"
        yield CompileStep(message.anchor, step, backend=m["backend"].strip(), **common)
    if _GRAPH.search(text):
        yield CompileStep(message.anchor, "graph done", **common)
    if "Restarting analysis due to" in text:
        yield CompileStep(message.anchor, "restart", **common)
    if "TorchDynamo attempted to trace" in text and "]" in text:
        yield CompileStep(message.anchor, "attempted", frames=len(_FRAME.findall(text)), **common)
    if "TorchDynamo compilation metrics:" in text and "Runtimes (s)" in text:
        total = _TOTAL.search(text)
        seconds = sum(float(s) for s in total["seconds"].split(", ")) if total else 0.0
        yield CompileStep(message.anchor, "metrics", seconds=seconds, **common)
