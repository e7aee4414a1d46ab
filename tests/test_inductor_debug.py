"""TORCH_COMPILE_DEBUG folders: which files are claimed, what is counted, and what looks alike but is not one."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import pytest
from tests.support.cases import FIXTURES, brief

from necropsy_parsers.formats.inductor_debug import sniff

import necropsy
from necropsy.api import analyze
from necropsy.evidence.compiled_graphs import CompiledGraphs

FOLDERS: Final = sorted(p for p in (FIXTURES / "formats" / "inductor_debug").iterdir() if p.is_dir())
CODE: Final = (
    "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_a_folder_becomes_one_row(folder: Path) -> None:
    expect = tomllib.loads((folder / "expect.toml").read_text(encoding="utf-8"))
    (row,) = necropsy.load(str(folder / "torch_compile_debug")).get(CompiledGraphs)
    assert {
        "graph": row.graph,
        "kinds": sorted(row.files),
        "torch": row.torch,
        "device": list(row.device),
        "calls": row.calls,
        "nodes": row.nodes,
        "units": row.units,
        "fused": row.fused,
        "kernels": list(row.kernels),
        "extern": list(row.extern),
        "lines": [f"{f.file}:{f.line} {f.function}" for f in row.lines],
    } == expect


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_nothing_is_found_and_nothing_is_of_unknown_format(folder: Path) -> None:
    report = analyze(str(folder / "torch_compile_debug"))
    assert brief(report.findings) == []
    assert not [i for i in report.issues if i.kind == "sniff/unknown"]


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        "V0311 09:41:08.1 512 torch/_inductor/graph.py:2] [0/0] [__output_code] async_compile = AsyncCompile()\n",
        "compiled op0: SchedulerNode(ComputedBuffer)\n",
        "V0311 09:41:08.1 512 torch/_dynamo/utils.py:9] {}\n\tfrom ctypes import c\n\tasync_compile = AsyncCompile()\n",
        "",
    ],
    ids=["user-source", "output-code-in-a-log", "ir-in-a-sentence", "structured-trace", "empty"],
)
def test_what_only_looks_alike_is_not_claimed(text: str) -> None:
    assert sniff(text.encode(), "model.py") is None


def test_line_ends_and_cuts_do_not_matter(tmp_path: Path) -> None:
    (whole,) = (FIXTURES / "formats" / "inductor_debug" / "gpu-21").rglob("ir_post_fusion.txt")
    data = whole.read_bytes()
    for name, changed in (("crlf", data.replace(b"\n", b"\r\n")), ("cut", data[: len(data) * 2 // 3])):
        place = tmp_path / name / "ir_post_fusion.txt"
        place.parent.mkdir()
        place.write_bytes(changed)
        (row,) = necropsy.load(str(place)).get(CompiledGraphs)
        assert row.fused == 1
