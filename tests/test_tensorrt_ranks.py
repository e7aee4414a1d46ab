"""Ranks that build engines at the same time and write into one log."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest
from tests.benchmarks.tensorrt_log_throughput import layer_block
from tests.support.reading import anchor_faults, read

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Record
from necropsy_parsers.tensorrt.measured import EngineProfile
from necropsy_parsers.tensorrt.records import Engine, EngineLayer
from necropsy_parsers.tensorrt_log.records import TrtBuild, TrtMessage, TrtTimings
from necropsy_parsers.text.decode import text_chunks
from necropsy_parsers.text.log import LogReader

from necropsy.api import analyze

HEAD: Final = "[01/31/2026-12:00:00] [TRT] [V] "
PREFIXES: Final = {
    "torch": "[rank{0}]: ",
    "torchrun": "[default{0}]:",
    "both": "[default{0}]:[rank{0}]: ",
    "srun": "{0}: ",
    "mpirun": "[1,{0}]<stdout>:",
    "container": "2026-01-31T12:00:00.{0}0000001Z stdout F [rank{0}]: ",
}
NODE: Final = (
    "[01/31/2026-12:00:00] [TRT] [E] ModelImporter.cpp:768: While parsing node number {0} [Mish{0} -> \"b\"]:",
    "[01/31/2026-12:00:00] [TRT] [E] ModelImporter.cpp:769: --- Begin node ---",
    "[01/31/2026-12:00:00] [TRT] [E] ModelImporter.cpp:770: input: \"a\"",
    "name: \"/neck/mish{0}\"",
    "op_type: \"Mish{0}\"",
    "[01/31/2026-12:00:00] [TRT] [E] ModelImporter.cpp:771: --- End node ---",
    "[01/31/2026-12:00:00] [TRT] [E] ModelImporter.cpp:774: ERROR: onnx2trt_utils.cpp:5400 In function importFallback:",
    "[8] Assertion failed: creator && \"Plugin not found\"",
)  # fmt: skip


def own(rank: int, layers: int = 6) -> list[str]:
    """What one rank prints: its banner, tables of tactics, a list of layers, a node that failed."""
    lines = [f"[01/31/2026-12:00:00] [TRT] [I] Input filename:   part{rank}.onnx"]
    for n in range(layers):
        lines += [HEAD + line for line in layer_block(7 * rank + n)]
    lines += [HEAD + "Engine Layer Information:"]
    lines += [
        f"Layer(Cask): /r{rank}/Conv_{n}, Tactic: 0x{n:x}, a{n} (Half[8,3]) -> a{n + 1} (Half[8,3])" for n in range(5)
    ]
    return lines + [line.format(rank) for line in NODE]


def woven(written: dict[int, list[str]], prefix: str, seed: int) -> str:
    """The lines of several ranks, each in its order."""
    dice, left = random.Random(seed), {rank: list(lines) for rank, lines in written.items()}
    out = []
    while left:
        rank = dice.choice(sorted(left))
        for _ in range(dice.randrange(1, 4)):
            if left[rank]:
                out.append(prefix.format(rank) + left[rank].pop(0))
        if not left[rank]:
            del left[rank]
    return "\n".join(out) + "\n"


def rows(records: list[Record]) -> dict[str, list[object]]:
    """What must be the same alone and among others: everything but places and numbers."""
    tactics = [r for t in records if isinstance(t, TrtTimings) for r in t.blocks]
    return {
        "tactics": [
            (r.layer, r.runner, r.inputs, r.outputs, r.times, r.fastest, r.fastest_name, r.chosen) for r in tactics
        ],
        "layers": [(r.name, r.index, r.inputs, r.outputs) for r in records if isinstance(r, EngineLayer)],
        "messages": [(m.kind, m.text, m.node) for m in records if isinstance(m, TrtMessage)],
        "builds": [(b.model, b.timed, b.timed_reformats) for b in records if isinstance(b, TrtBuild)],
    }


@pytest.mark.parametrize("name", PREFIXES)
@pytest.mark.parametrize("seed", [1, 2])
def test_tables_of_ranks_are_those_of_each_alone(name: str, seed: int) -> None:
    written = {rank: own(rank) for rank in range(3)}
    got = read(woven(written, PREFIXES[name], seed))
    records = list(got.records)
    together, alone = rows(records), [rows(list(read("\n".join(lines) + "\n").records)) for lines in written.values()]
    for table, found in together.items():
        assert sorted(map(repr, found)) == sorted(repr(row) for one in alone for row in one[table])
    builds = [r for r in records if isinstance(r, TrtBuild)]
    assert sorted(b.build for b in builds) == [0, 1, 2]
    assert {b.origin.local_rank if b.origin.rank is None else b.origin.rank for b in builds} == {0, 1, 2}
    assert len({e.engine for e in records if isinstance(e, Engine)}) == 3
    tactics = [r for t in records if isinstance(t, TrtTimings) for r in t.blocks]
    assert {(t.origin, t.build) for t in tactics} == {(b.origin, b.build) for b in builds}
    assert list(anchor_faults([t.anchor for t in tactics], got.text)) == []
    assert list(anchor_faults([b.anchor for b in builds], got.text)) == []


def test_lines_without_a_rank_go_on_with_the_line_above() -> None:
    """A dump of a node is one write of several lines, of which a launcher may mark only the first."""
    text = "".join(
        f"[rank{rank}]: {line.format(rank)}\n" if line.startswith("[01") else f"{line.format(rank)}\n"
        for rank in range(2)
        for line in NODE
    )
    found = [m for m in read(text).records if isinstance(m, TrtMessage) and m.node is not None]
    assert [(m.node.op, m.node.name, m.origin.rank) for m in found if m.node] == [
        ("Mish0", "/neck/mish0", 0),
        ("Mish1", "/neck/mish1", 1),
    ]


def test_a_rank_that_comes_later_moves_nothing() -> None:
    """Until then the chunks of the first were read as they are."""
    first = "".join(f"[rank4]: {line}\n" for line in own(4, layers=60))
    text = (first + woven({4: own(4), 5: own(5)}, "[rank{0}]: ", 3)).encode()
    blocks = [text[at : at + 50_000] for at in range(0, len(text), 50_000)]
    assert len(blocks) > 4
    issues = Issues()
    records = list(LogReader("run.log", issues).records(text_chunks(blocks, "run.log", issues)))
    builds = [r for r in records if isinstance(r, TrtBuild)]
    assert sorted((b.origin.rank, b.model) for b in builds) == [(4, "part4.onnx"), (4, "part4.onnx"), (5, "part5.onnx")]
    tactics = [r for t in records if isinstance(t, TrtTimings) for r in t.blocks]
    assert len(tactics) == 2 * (60 + 6 + 6)
    assert list(anchor_faults([t.anchor for t in tactics], text)) == []


PROFILE: Final = (
    "[01/31/2026-12:00:00] [I] === Profile (115 iterations ) ===",
    "[01/31/2026-12:00:00] [I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer",
    "[01/31/2026-12:00:00] [I]       11.37       0.0098       0.0098       1.4   /a/Conv",
    "[01/31/2026-12:00:00] [I]       11.37       0.0098       0.0098     100.0   Total",
)


@pytest.mark.parametrize("name", PREFIXES)
def test_what_one_rank_writes_is_read_behind_its_prefix(name: str) -> None:
    lines = [*own(3), *PROFILE]
    alone = list(read("\n".join(lines) + "\n").records)
    prefixed = list(read("".join(f"{PREFIXES[name].format(3)}{line}\n" for line in lines)).records)
    assert rows(prefixed) == rows(alone)
    profiles = [r for r in prefixed if isinstance(r, EngineProfile)]
    assert [layer.name for r in profiles for layer in r.layers] == ["/a/Conv"]


def test_findings_of_ranks_name_each_build_once(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(woven({rank: own(rank) for rank in range(2)}, "[rank{0}]: ", 4), encoding="utf-8")
    findings = analyze([str(path)]).findings
    assert "TRT012" not in [f.rule for f in findings]  # no model that was split: each rank builds its own
    found = [f for f in findings if f.rule == "TRT013"]
    assert sorted(op for f in found for op in ("Mish0", "Mish1") if op in f.message) == ["Mish0", "Mish1"]
