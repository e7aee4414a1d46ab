"""Patterns and chains of operators, what fusing them is estimated to spare, and notes with their near misses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.trace_cases.fusion import CASES
from tests.support.tracing import TraceBuilder

from necropsy.api import Loaded, analyze
from necropsy.config import Config
from necropsy.evidence.traces import Traces
from necropsy.trace.convnorm import biased
from necropsy.trace.fusion import PATTERNS, letter, spelled
from necropsy.trace.kerneltimes import varying
from necropsy.trace.profile import Profile
from necropsy.trace.roofline import classes, on_ordinary_cores
from necropsy.trace.unfused import element_wise, known_patterns


def profile(case: str, folder: Path) -> Profile:
    made = CASES[case]()
    assert isinstance(made, TraceBuilder)
    made.write(folder / "trace.json")
    return Loaded([str(folder / "trace.json")], Config()).evidence.get(Traces).profiles[0]


@pytest.mark.parametrize(
    ("operators", "pattern"),
    [
        ("bmm div masked_fill_ _softmax bmm", "attention"),
        ("baddbmm add _softmax native_dropout bmm", "attention"),
        ("pow mean add rsqrt mul mul", "RMSNorm"),
        ("mul mean add sqrt div mul", "RMSNorm"),
        ("mean sub pow mean add sqrt div mul add", "LayerNorm"),
        ("mean std sub mul add div add", "LayerNorm"),
        ("mean var sub add rsqrt mul mul add", "LayerNorm"),
        ("mul pow mul add mul tanh add mul", "GELU"),
        ("mul div erf add mul", "GELU"),
        ("mul neg cat mul add", "rotary embedding"),
        ("mul mul sub mul mul add cat", "rotary embedding"),
        ("mm silu mm mul", "SwiGLU"),
    ],
)
def test_ways_to_write_them(operators: str, pattern: str) -> None:
    text = "".join(letter(f"aten::{o}") for o in operators.split())
    found = re.search(PATTERNS[pattern], text)
    assert found is not None
    assert len(found[0]) >= len(text) - 1


@pytest.mark.parametrize(
    "operators", ["pow mean", "sub pow mean", "mul add", "mm _softmax mm", "mean var", "sigmoid mul"]
)
def test_what_is_none_of_them(operators: str) -> None:
    text = "".join(letter(f"aten::{o}") for o in operators.split())
    assert not [name for name, pattern in PATTERNS.items() if re.search(pattern, text)]


def test_threads_are_spelled_apart(tmp_path: Path) -> None:
    s = spelled(profile("FUS002/fires-attention", tmp_path))
    assert s.text == "gbDFSb" * 3
    assert len(s.rows) == len(s.text)


def test_the_estimate_leaves_the_longest_kernels(tmp_path: Path) -> None:
    (chain,) = element_wise(profile("FUS004/fires-long-chain", tmp_path))
    assert (chain.ns, chain.low, chain.high) == (3 * 900_000, 3 * 600_000, 3 * 750_000)


def test_the_backward_pass_counts_with_the_forward(tmp_path: Path) -> None:
    (attention,) = known_patterns(profile("FUS002/fires-attention", tmp_path))
    assert attention.ns == 3 * (160 + 300 + 280 + 260) * 1000
    assert attention.products == 3 * 180 * 1000


NOTES = [c for c in CASES if c.startswith(("FUS003/", "FUS005/")) or "rotary" in c]


@pytest.mark.parametrize("case", NOTES)
def test_a_note_is_there_or_not(case: str, tmp_path: Path) -> None:
    made = CASES[case]()
    assert isinstance(made, TraceBuilder)
    made.write(tmp_path / "trace.json")
    code, _, name = case.partition("/")
    found = {f.rule for f in analyze(str(tmp_path / "trace.json")).findings}
    assert (code in found) is name.startswith("fires-")


DAMAGE = ["5", '"x"', "{}", "[[1e30]]", "[[99999999999999999999999, 8], [8, 8]]", "[[], [], []]", "[[-1, 2]]"]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("case", ["FUS002/fires-attention", "FUS005/fires-bias-and-batch-norm"])
def test_damaged_arguments_end_nothing(damage: str, case: str, tmp_path: Path) -> None:
    made = CASES[case]()
    assert isinstance(made, TraceBuilder)
    for event in made.events:
        if event["cat"] == "cpu_op":
            event["args"] |= {"Input Dims": "@", "Input type": "@", "Concrete Inputs": "@"}
    (tmp_path / "trace.json").write_text(made.text().replace('"@"', damage))
    p = Loaded([str(tmp_path / "trace.json")], Config()).evidence.get(Traces).profiles[0]
    assert biased(p) is None
    assert classes(p) == []
    assert varying(p, calls=1, variation=0.0) is not None
    assert on_ordinary_cores(p, sixteen_bit=True, family="matmul") is None
    assert known_patterns(p) is not None
    assert element_wise(p) is not None
