"""The quick reader of tactics against one that asks every line, over the fixtures' logs, made logs and damaged ones."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.benchmarks.tensorrt_log_throughput import layer_block
from tests.test_tensorrt_log import read

from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtTactic, TrtTimings

FIXTURES: Final = Path(__file__).resolve().parents[1] / "fixtures" / "rules"
HEADS: Final = {
    "trtexec": "[01/31/2026-12:00:07] [V] [TRT] ",
    "python": "[TRT] [V] ",
    "polygraphy": "[V] ",
    "onnxruntime": (
        "2026-01-31 12:00:00.1 [V:onnxruntime:Default, tensorrt_execution_provider.h:83 log] "
        "[2026-01-31 12:00:00 VERBOSE] "
    ),
    "torch-tensorrt": "DEBUG: [Torch-TensorRT TorchScript Conversion Context] - ",
    "container": "2026-01-31T12:00:00.000000001Z stdout F [01/31/2026-12:00:07] [V] [TRT] ",
    "unknown": "trt (verbose) | ",
}


class Row(NamedTuple):
    """What both must agree in."""

    line: int
    layer: str
    formats: tuple[str, str]
    times: tuple[float, ...]
    fastest: str
    name: str
    chosen: bool


class Plain:
    """Asks every line of a log, one after the other."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.reformats: dict[str, float] = {}
        self.timed = [0, 0]
        self._formats = ""
        self._open: list[str] | None = None  # lines of the runner at hand
        self._at = self._first = 0
        self._runners: list[str] = []
        self._results: list[str] = []

    def read(self, text: str) -> None:
        for number, line in enumerate(text.split("\n"), 1):
            before, *runners = line.split("Timing Runner: ")
            self._line(before)
            for runner in runners:
                self._close()
                self._open, self._at = [runner], number
        self._close()

    def _line(self, line: str) -> None:
        if self._open is not None:
            self._open.append(line)
        else:
            self._after(line)

    def _close(self) -> None:
        lines, self._open = self._open, None
        if lines is None:
            return
        reformat = self._formats.startswith("Reformat")
        self.timed[0] += 1
        self.timed[1] += reformat
        told = next((i for i, line in enumerate(lines) if "Fastest Tactic: " in line), None)
        m = re.search(r"Fastest Tactic: (\S+) Time: (\S+)", lines[told]) if told is not None else None
        if reformat and told is not None:
            if m is not None:
                self.reformats[self._formats] = float(m[2])
        elif not reformat:
            self._runner(lines, lines[:told], m)
        for line in lines[told or 0 :]:
            if not reformat or told is None or "Autotuning " in line:  # nothing is chosen among reformats
                self._after(line)

    def _runner(self, lines: list[str], before: list[str], m: re.Match[str] | None) -> None:
        times = [float(t) for line in before for t in re.findall(r" [Tt]ime:? (\S+)", line)]
        name = ""
        if m is not None:
            for line in before:
                if m[1] in line:
                    named = re.search(r"Name: (\S+)(?!.*Name: )", line[: line.index(m[1])])
                    name = named[1] if named else ""
                    break
        layer, _, runner = lines[0].rpartition(" (")
        source, _, target = self._formats.partition(":")[2].strip(" *").partition(" -> ")
        self.rows.append(Row(self._at, layer, (source, target), tuple(times), m[1] if m else "", name, chosen=False))
        self._runners.append(runner)
        self._results.append("" if m is None and times else "\n".join(lines) if m is None else m[1])

    def _after(self, line: str) -> None:
        if (m := re.search(r"Chose Runner Type: (\S+) Tactic: (\S+)", line)) is not None:
            for i in range(self._first, len(self.rows)):
                if self._runners[i].startswith(m[1]) and (m[2] in self._results[i] or not self._results[i]):
                    self.rows[i] = self.rows[i]._replace(chosen=True)
                    break
            self._first = len(self.rows)
        if "Autotuning " in line:
            self._formats = line.rpartition("Autotuning ")[2]
            self._first = len(self.rows)


def quick(text: str) -> tuple[list[Row], TrtBuild | None]:
    records = read(text, cuts=range(0, len(text), 7001))
    rows = [
        Row(r.anchor.line, r.layer, (r.inputs, r.outputs), r.times, r.fastest, r.fastest_name, chosen=r.chosen)
        for t in records
        if isinstance(t, TrtTimings)
        for r in t.blocks
        if isinstance(r, TrtTactic)
    ]
    return rows, next((b for b in records if isinstance(b, TrtBuild)), None)


def agree(text: str) -> int:
    """How many runners both found."""
    plain = Plain()
    plain.read(text)
    rows, build = quick(text)
    assert rows == plain.rows
    if plain.timed[0] and build is not None:
        assert [build.timed, build.timed_reformats] == plain.timed
    return len(rows)


def made(head: str, layers: int = 9) -> list[str]:
    return [f"{head}{line}" for n in range(layers) for line in layer_block(n)]


def logs() -> Iterator[Path]:
    for path in sorted(FIXTURES.glob("*/*/input.log")):
        if path.parts[-3][:3] in ("TRT", "QNT"):
            yield path


def test_of_the_fixtures() -> None:
    found = sum(agree(path.read_text("utf-8", "replace").replace("\r\n", "\n")) for path in logs())
    assert found


@pytest.mark.parametrize("name", HEADS)
def test_behind_any_head(name: str) -> None:
    assert agree("\n".join(made(HEADS[name]))) == 18


def without_some(lines: list[str], dice: random.Random) -> str:
    return "\n".join(line for line in lines if dice.random() > 0.1)


def twice(lines: list[str], dice: random.Random) -> str:
    return "\n".join(line for line in lines for _ in range(1 + (dice.random() < 0.1)))


def exchanged(lines: list[str], dice: random.Random) -> str:
    out = list(lines)
    for _ in range(len(lines) // 10):
        i = dice.randrange(len(out) - 1)
        out[i], out[i + 1] = out[i + 1], out[i]
    return "\n".join(out)


def between(lines: list[str], dice: random.Random) -> str:
    return "\n".join(
        f"{line}\nepoch 3 step {n} loss 0.5" if dice.random() < 0.3 else line for n, line in enumerate(lines)
    )


def ended(lines: list[str], dice: random.Random) -> str:
    return "\n".join(lines)[: -dice.randrange(1, 4000)]


@pytest.mark.parametrize("damage", [without_some, twice, exchanged, between, ended])
@pytest.mark.parametrize("seed", range(6))
def test_of_damaged_logs(damage: Callable[[list[str], random.Random], str], seed: int) -> None:
    names = list(HEADS.values())
    agree(damage(made(names[seed % len(names)]), random.Random(seed)))


def test_glued_and_cut_lines_lose_no_runner() -> None:
    lines = made(HEADS["trtexec"])
    dice = random.Random(3)
    glued = "".join(line + ("" if dice.random() < 0.1 else "\n") for line in lines)
    rows, _ = quick(glued)
    assert [r.layer for r in rows] == [r.layer for r in quick("\n".join(lines))[0]]
    cut = "\n".join(line[: dice.randrange(60, 400)] if "Tactic Name" in line else line for line in lines)
    assert len(quick(cut)[0]) == len(rows)
