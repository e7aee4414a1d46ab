"""Compilations that fail for real, on the CPU: which rule, which line, which cause."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.support.cases import brief, loud, place_of

from necropsy.api import analyze
from necropsy.finding import Finding, Severity

pytestmark = pytest.mark.xdist_group("live-compile")

SHUFFLE = """
import torch

@torch.compile(backend="eager")
def enlarge(image):
    return torch.nn.functional.pixel_shuffle(image, 3)  # here

print(enlarge(torch.randn(2, 8, 4, 4)))
"""
BACKEND = """
import torch

def mine(graph, inputs):
    raise ValueError("no kernel for this graph")  # here

@torch.compile(backend=mine)
def score(x):
    return torch.relu(x) + 1

print(score(torch.randn(4, 8)).shape)
"""
INDUCTOR = """
import torch

@torch.compile
def score(x):
    return torch.relu(x) + 1

print(score(torch.randn(4, 8)))  # here
"""


def failing(folder: Path, program: str, **environment: str) -> Finding:
    """The first finding about the log of a program that fails, and the line marked `# here` in it."""
    program = textwrap.dedent(program)
    (folder / "job.py").write_text(program)
    run = subprocess.run(
        [sys.executable, "job.py"],
        cwd=folder,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    (folder / "job.log").write_text(run.stdout)
    report = analyze(str(folder / "job.log"))
    assert loud(report), run.stdout
    first = report.findings[0]
    line = next(n for n, text in enumerate(program.splitlines(), 1) if text.endswith("# here"))
    assert place_of(first).endswith(f"job.py:{line}"), brief(report.findings)
    return first


def test_an_operation_that_fails_on_fake_tensors(tmp_path: Path) -> None:
    found = failing(tmp_path, SHUFFLE)
    assert (found.rule, found.severity, found.code[0].exactness) == ("CMP011", Severity.FATAL, "line")
    assert found.facts["side"] == "program"
    assert "pixel_shuffle" in found.message


def test_a_failure_that_is_suppressed(tmp_path: Path) -> None:
    found = failing(tmp_path, BACKEND, TORCHDYNAMO_SUPPRESS_ERRORS="1")
    assert (found.rule, found.severity) == ("CMP011", Severity.ERROR)
    assert "`score`" in found.message
    assert "eagerly" in found.message


def test_a_machine_without_a_working_compiler(tmp_path: Path) -> None:
    found = failing(tmp_path, INDUCTOR, CXX="/bin/false")
    assert (found.rule, found.severity, found.code[0].exactness) == ("CMP011", Severity.FATAL, "function")
    assert (found.facts["cause"], found.facts["side"]) == ("no-cxx-compiler", "environment")


def test_a_compiler_that_lacks_a_header(tmp_path: Path) -> None:
    broken = tmp_path / "g++"
    broken.write_text(
        '#!/bin/sh\ncase "$1" in -v|--version|-dumpversion) exec g++ "$@";; esac\n'
        "echo '/tmp/x.cpp:1:10: fatal error: omp.h: No such file or directory' >&2\n"
        "echo 'compilation terminated.' >&2\nexit 1\n"
    )
    broken.chmod(0o755)
    found = failing(tmp_path, INDUCTOR, CXX=str(broken), TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")
    assert (found.rule, found.severity) == ("CMP011", Severity.FATAL)
    assert (found.facts["cause"], found.facts["side"]) == ("openmp", "environment")
