"""Graph breaks of the installed torch, made for real: each finding at its planted line, and none elsewhere.

One process compiles a dozen small functions with backend="eager"; the comment behind a line names the rule that
must claim it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from textwrap import dedent
from typing import Final

import pytest
from tests.support.cases import brief

from necropsy.api import analyze
from necropsy.finding import Severity
from necropsy.report import Report

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("live-compile")

SCRIPT: Final = dedent(
    """
    import copy, logging, time, warnings
    import torch

    LOG = logging.getLogger("pooling")

    class Floor(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            low = x.min().item()  # CMP003 warning
            return x.clamp(min=low)

        @staticmethod
        def backward(ctx, grad):
            return grad

    @torch.compiler.disable
    def on_host(x):
        return x + 1

    def checked(x):
        if x.max() > 3:  # CMP002 warning
            return x
        return x * 2

    def branch(x):
        return checked(x.relu()) + 1

    def custom(x):
        return Floor.apply(x.relu()) + 1

    def as_int(x):
        n = int(x.sum())  # CMP003 warning
        return x * n

    def as_list(x):
        first = x.tolist()  # CMP003 warning
        return x + first[0]

    def prints(x):
        y = x.relu()
        print("shape", y.shape)  # CMP004 warning
        return y + 1

    def logs(x):
        y = x.relu()
        LOG.info("value %s", y)  # CMP004 warning
        return y + 1

    def warns(x):
        warnings.warn("careful")  # CMP004 warning
        return x + 1

    def copies(x):
        y = x.relu()
        return copy.deepcopy(y) + y  # CMP005 warning

    def clock(x):
        return x * time.time()  # CMP005 warning

    def disabled(x):
        return on_host(x.relu()) * 2  # CMP005 warning

    def picks(x):
        return x[x > 0] + 1  # CMP006 warning

    def sparse(x):
        return x.relu().to_sparse()  # CMP001 warning

    def asked_for(x):
        y = x + 1
        torch._dynamo.graph_break()  # CMP001 note
        return y + 2

    def loop(x):
        total = x.new_zeros(())
        for part in x.split(2):
            total = total + part.sum()
            print("part", total.shape)  # CMP023 error
        return total

    def healthy(x):
        for scale in (1, 2, 3):
            x = x * scale
        return x.tanh() if x.shape[0] > 4 else x

    def whole(x):
        y = x + 1
        if y.sum() > 0:  # CMP002 fatal
            return y * 2
        return y

    x = torch.randn(8)
    for f in (branch, custom, as_int, as_list, prints, logs, warns, copies, clock, disabled, picks, sparse, asked_for,
              loop, healthy):
        torch.compile(f, backend="eager")(x.clone().requires_grad_(f is custom))
    torch.compile(whole, backend="eager", fullgraph=True)(x)
    """
).lstrip()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What is said about the log of one run."""
    folder = tmp_path_factory.mktemp("breaks") / "projects" / "pooling"
    folder.mkdir(parents=True)
    (folder / "pooling.py").write_text(SCRIPT, encoding="utf-8")
    log = folder / "run.log"
    with log.open("wb") as out:
        subprocess.run(
            [sys.executable, "pooling.py"],
            cwd=folder,
            env={**os.environ, "TORCH_LOGS": "graph_breaks", "CUDA_VISIBLE_DEVICES": ""},
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=240,
            check=False,
        )
    return analyze([str(log)])


def planted() -> set[tuple[str, str, int]]:
    """(rule, severity, line) of each comment."""
    marks = (re.search(r"# (CMP\d{3}) (\w+)$", line) for line in SCRIPT.splitlines())
    return {(m[1], m[2], number) for number, m in enumerate(marks, 1) if m is not None}


def test_every_break_is_found_at_its_line_and_nothing_else_is_accused(report: Report) -> None:
    found = {(f.rule, f.severity.label, f.code[0].line) for f in report.findings if f.rule.startswith("CMP") and f.code}
    assert found == planted(), "\n".join(brief(report.findings))


def test_nothing_but_the_compiler_is_blamed(report: Report) -> None:
    others = [f for f in report.findings if not f.rule.startswith("CMP") and f.severity > Severity.NOTE]
    assert brief(others) == []


def test_a_function_left_uncompiled_is_named(report: Report) -> None:
    skipped = next(f for f in report.findings if f.rule == "CMP023")
    assert "`loop`" in skipped.message
    assert [p.function for p in skipped.code] == ["loop", "loop"]


def test_the_page_of_the_break_is_linked(report: Report) -> None:
    branch = next(f for f in report.findings if f.rule == "CMP002" and f.severity is Severity.WARNING)
    assert "gb0170" in str(branch.facts["graph-break page"])
