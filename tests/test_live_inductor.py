"""The installed torch compiles a network for the CPU: calls and lines against torch's own provenance of that very run.

C++ kernels bear no comments in generated code: the buffers that they write, what the scheduler fused and its candidates
tell their nodes. Products and convolutions have them from the comments at their calls.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest
from tests.test_inductor_kernels import measured, structured, told, without

import necropsy
from necropsy.evidence.inductor_kernels import InductorKernel, InductorKernels

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("live-compile")

SCRIPT: Final = dedent(
    """
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 4, 3, padding=1)
            self.up, self.down = nn.Linear(4, 16), nn.Linear(16, 4)
            self.tokens, self.even = nn.Embedding(9, 4), nn.LayerNorm(4)
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, image, words):
            y = self.stem(image)  # stem
            x = torch.relu(y).flatten(2).transpose(1, 2)  # relu
            q = x / x.norm(dim=-1, keepdim=True)  # norm
            scores = q @ q.transpose(1, 2)  # scores
            x = scores.softmax(-1) @ x  # mixed
            self.seen.add_(x.mean((0, 1)).detach())  # seen
            x = self.even(x + self.tokens(words).cumsum(1))  # even
            x = F.dropout(x, 0.1)  # dropped
            x[:, 0] = 0  # zeroed
            h = self.up(x)  # up
            h = F.gelu(h)  # gelu
            return self.down(h)  # down

    net = torch.compile(Net())
    out = net(torch.randn(2, 3, 8, 8), torch.randint(0, 9, (2, 64)))
    F.cross_entropy(out.flatten(0, 1), torch.zeros(128, dtype=torch.long)).backward()
    """
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run: its log, its structured log, its debug folder."""
    folder = tmp_path_factory.mktemp("inductor")
    (folder / "net.py").write_text(SCRIPT)
    settings = {
        "TORCH_TRACE": str(folder / "trace"),
        "TORCH_COMPILE_DEBUG": "1",
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
        "INDUCTOR_PROVENANCE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
        "TORCHINDUCTOR_CPP_WRAPPER": "0",
        "TORCH_LOGS": "output_code,graph_code,aot_graphs,post_grad_graphs,fusion,ir_post_fusion",
    }
    env = {**os.environ, **settings}
    done = subprocess.run(
        [sys.executable, "net.py"], check=False, cwd=folder, env=env, capture_output=True, timeout=600
    )
    if b"No working C++ compiler" in done.stderr or b"InvalidCxxCompiler" in done.stderr:
        pytest.skip("no C++ compiler for Inductor")
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    (folder / "run.log").write_bytes(done.stdout + done.stderr)
    return folder


def marked(row: InductorKernel) -> list[str]:
    """The words that the script's lines are marked with."""
    return [f.text.rpartition("# ")[2] for f in row.frames]


def test_products_have_the_lines_that_torch_says(run: Path) -> None:
    trace = next((run / "trace").iterdir()).read_bytes()
    for records in (told((run / "run.log").read_bytes()), structured(trace)):
        precision, recall, calls = measured(records, structured(trace), products=True)
        assert calls >= 9
        assert precision >= 0.98
        assert recall >= 0.95


@pytest.mark.parametrize("graphs", [True, False])
def test_cpp_kernels_have_the_lines_that_torch_says(run: Path, graphs: bool) -> None:
    log = (run / "run.log").read_bytes()
    if not graphs:
        log = without(log, "graph_code", "aot_graphs", "post_grad_graphs")
    truth = structured(next((run / "trace").iterdir()).read_bytes())
    precision, recall, calls = measured(told(log), truth, extern=False)
    assert calls >= 8
    assert precision >= 0.98
    assert recall >= 0.95


def test_the_structured_log_with_torchs_provenance_has_all(run: Path) -> None:
    table = necropsy.load(str(run / "trace")).get(InductorKernels)
    bare = [r.kernel for r in table if not r.lines]
    assert len(bare) <= 2  # a kernel that only copies inputs has no node
    gelu = next(r for r in table if "gelu" in r.kernel and r.direction == "forward")
    assert "gelu" in marked(gelu)
    assert {r.direction for r in table} == {"forward", "backward"}


def test_the_debug_folder_tells_the_forward_pass(run: Path) -> None:
    table = necropsy.load(str(next(run.glob("torch_compile_debug")))).get(InductorKernels)
    forward = [r for r in table if r.direction == "forward"]
    libraries = [marked(r) for r in forward if r.extern and r.lines]  # the generator of random numbers has no line
    assert libraries == [["stem"], ["scores"], ["mixed"], ["even"], ["up"], ["down"]]
    assert any(marked(r)[:1] == ["gelu"] for r in forward if not r.extern)
    backward = [r for r in table if r.direction == "backward" and r.extern]
    assert {word for r in backward for word in marked(r)} == {"stem", "scores", "mixed", "even", "up", "down"}
