"""What expressions over sizes ask of a size, and where a changing size is found to come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy_parsers.grammars.guard import parse
from necropsy_parsers.grammars.symbolic import asked

from necropsy.api import analyze

ASKED = {
    "Ne(Mod(s27, 8), 0)": ("s27", "sizes that are no multiples of 8"),
    "(ids.size()[1] % 8) == 0": ("ids.size()[1]", "multiples of 8"),
    "Eq(PythonMod(s0, 4), 1)": ("s0", "sizes that leave 1 when divided by 4"),
    "128*s27 <= 4096": ("s27", "sizes up to 32"),
    "128*s27 < 4096": ("s27", "sizes up to 31"),
    "3*s0 >= 10": ("s0", "sizes from 4 on"),
    "2 <= x.size()[0] <= 1024": ("x.size()[0]", "sizes from 2 to 1024"),
    "2 <= L['x'].size()[1]": ("L['x'].size()[1]", "sizes from 2 on"),
    "8 < s27": ("s27", "sizes from 9 on"),
    "s0 + 1 <= 9": ("s0", "sizes up to 8"),
    "(s0 // 4) == 2": ("s0", "sizes from 8 to 11"),
    "Ne((s27//8), 0)": ("s27", "sizes from 8 on"),
    "Eq(s41, 5)": ("s41", "5 only"),
    "not Eq(s0, 3)": ("s0", "sizes other than 3"),
    "x.size()[0] == y.size()[1]": ("x.size()[0]", "the size of y.size()[1]"),
}
UNTOLD = (
    "s0*s1 + 1 < 4",
    "s27**2 <= 4096",
    "Eq(s0*s1, 4)",
    "Eq(2*s0, 3)",
    "VR[2, int_oo]",
    "s0 <= s1",
    "len(xs) == 3",
    "(((",
    "s0 <= " + "9" * 600,
    "(" * 300 + "s0" + ")" * 300 + " < 3",
)


@pytest.mark.parametrize(("text", "wanted"), ASKED.items())
def test_what_is_asked(text: str, wanted: tuple[str, str]) -> None:
    told = asked(text)
    assert told is not None
    assert (told.subject, told.words) == wanted


@pytest.mark.parametrize("text", UNTOLD, ids=lambda t: t[:20])
def test_what_is_not_understood_stays_untold(text: str) -> None:
    assert asked(text) is None


def test_one_value_is_told_as_a_number() -> None:
    told = asked("Eq(s41, 5)")
    assert told is not None
    assert told.only == 5


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(ids.size()[1] % 8) != 0", ("ids", 1, "_ % 8")),
        ("8*L['x'].size()[0] < 4096", ("x", 0, "8*_")),
        ("x.size()[0]*y.size()[1] < 9", ("x.size()[0]*y.size()[1]", None, "")),
        ("x.size()[0] == 4", ("x", 0, "")),
    ],
)
def test_the_size_in_a_guard(text: str, wanted: tuple[str, int | None, str]) -> None:
    guard = parse(text)
    assert guard.kind == "size"
    assert (guard.source, guard.dim, guard.term) == wanted


# Heads and wordings of several releases; the line that is claimed, and how exact that is.
RECOMPILE = (
    "Recompiling function f in /home/trainer/projects/lm/lm.py:3\n"
    "{head}    triggered by the following guard failure(s):\n"
)
NEW = "V0314 18:04:07.100000 7 torch/_dynamo/guards.py:5396] [0/1] [__recompiles] "
SYMBOL = "I0314 18:04:07.200000 7 torch/fx/experimental/symbolic_shapes.py:5743] [0/1] "
OLD = "[2024-02-08 09:14:02,118] [0/1] torch._dynamo.guards.__recompiles: [DEBUG] "
OLD_GUARDS = "[2024-02-08 09:14:01,118] [0/0] torch._dynamo.guards.__guards: [DEBUG] "
GUARDS = "V0314 18:04:06.100000 7 torch/_dynamo/guards.py:4483] [0/0] [__guards] "
MISMATCH = "    - tensor 'L['x']' size mismatch at index 1. expected 48, actual 41\n"
PLACED = {
    "2.13 symbol": (NEW, SYMBOL + "create_symbol s27 = 41 for L['x'].size()[1] [2, int_oo] b, t = x.shape  "
        "# me/trainer/projects/lm/lm.py:4 in f (_dynamo/variables/builder.py:4960 in <lambda>)\n", 4, "line"),
    "2.4 symbol": (NEW, SYMBOL + "create_symbol s0 = 41 for L['x'].size()[1] [2, int_oo] at lm/lm.py:4 in f "
        "(_dynamo/variables/builder.py:2711 in <lambda>)\n", 4, "line"),
    "2.2 symbol without a line": (OLD, "[2024-02-08 09:14:02,218] [0/1] torch.fx.experimental.symbolic_shapes: [INFO] "
        "create_symbol s0 = 41 for L['x'].size()[1] [2, 9223372036854775806]\n", 3, "function"),
    "2.13 symbol of a library's line": (NEW, SYMBOL + "create_symbol s27 = 41 for L['x'].size()[1] [2, int_oo] "
        "return F.linear(input, self.weight, self.bias)  # nn/modules/linear.py:134 in forward (_dynamo/v.py:4 in w)\n",
        3, "function"),
    "2.13 guards": (NEW, GUARDS + "| | +- TENSOR_MATCH: check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.int64, "
        "device=None, requires_grad=False, size=[4, 48], stride=[48, 1])  # b, t = x.shape  # lm/lm.py:4 in f\n",
        4, "line"),
    "2.2 guards": (OLD, OLD_GUARDS + "hasattr(L['x'], '_dynamo_dynamic_indices') == False           "
        "# b, t = x.shape  # lm/lm.py:4 in f\n", 4, "line"),
    "2.13 guards of another tensor": (NEW, GUARDS + "| | +- TENSOR_MATCH: check_tensor(L['xs'], Tensor, "
        "size=[4, 48])  # b, t = xs.shape  # lm/lm.py:4 in f\n", 3, "function"),
}  # fmt: skip


@pytest.mark.parametrize("case", PLACED)
def test_the_line_of_a_changing_size(case: str, tmp_path: Path) -> None:
    head, told, line, exactness = PLACED[case]
    log = head + RECOMPILE.format(head=head) + head + MISMATCH
    (tmp_path / "run.log").write_text(told + log if "[0/0]" in told else log + told)
    (finding,) = analyze(str(tmp_path / "run.log")).findings
    assert finding.rule == "CMP007"
    assert (finding.code[0].line, finding.code[0].exactness) == (line, exactness)
    assert finding.code[0].file == "/home/trainer/projects/lm/lm.py"
    assert "48 -> 41" in finding.message
