"""How one operation reads what another one wrote, in words, and which refusals that explains."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy_parsers.grammars.ir import access, difference

from necropsy.api import analyze

WROTE = "MemoryDep('buf0', c0, {c0: 4096})"
READ = {
    "MemoryDep('buf0', 64*c0 + c1, {c0: 64, c1: 16})": (
        "of the 4096 elements that the first makes the second reads 1024",
        "size",
    ),
    "MemoryDep('buf0', c1, {c0: 64, c1: 4096})": (
        "the second reads each of the 4096 elements that the first makes 64 times",
        "size",
    ),
    "MemoryDep('buf0', c0 + 64*c1, {c0: 64, c1: 64}, None)": (
        "the second reads what the first makes in another order (transpose, permute, reduction over other dimensions)",
        "order",
    ),
    "MemoryDep('buf0', -64*c0 + c1 + 4032, {c0: 64, c1: 64})": (
        "the second reads what the first makes backwards (flip)",
        "arrangement",
    ),
    "MemoryDep('buf0', c1 + 64*(ModularIndexing(c0 + 63, 1, 64)), {c0: 64, c1: 64})": (
        "the second reads what the first makes in another arrangement (reshape, roll, repeat)",
        "arrangement",
    ),
    "MemoryDep('buf0', c0 + 5, {c0: 4096})": (
        "the second reads what the first makes with an offset of 5",
        "arrangement",
    ),
    "MemoryDep('buf0', c0, {c0: s27})": ("", ""),
    "MemoryDep('buf1', c0, {c0: 64})": ("", ""),
    "StarDep(name='buf0', mode=None)": ("", ""),
    "MemoryDep('buf0', c0, {c0: ": ("", ""),
}


@pytest.mark.parametrize(("read", "wanted"), READ.items())
def test_a_difference_in_words(read: str, wanted: tuple[str, str]) -> None:
    assert difference(WROTE, read) == wanted


def test_a_hostile_access_is_not_understood() -> None:
    assert access("MemoryDep('a', " + "(" * 500 + "c0" + ")" * 500 + ", {c0: 4})") is None
    assert access("MemoryDep('a', " + "c0 + " * 500 + "c0, {c0: 4})") is None


IR = "I0314 18:04:05.001000 7 torch/_inductor/debug.py:750] [0/0] [__ir_pre_fusion] "
FUSION = "V0314 18:04:05.100000 7 torch/_inductor/scheduler.py:5995] [0/0] [__fusion] "
GRAPH = (
    f"{IR}BEFORE FUSION\n{IR}op0: SchedulerNode(ComputedBuffer)\n{IR}op0.writes = [{WROTE}]\n"
    f"{IR}op0.unmet_dependencies = []\n{IR}op1.writes = [MemoryDep('buf1', c0, {{c0: 1024}})]\n"
    f"{IR}op1.unmet_dependencies = \n{IR}    [   MemoryDep('buf0', 64*c0 + c1, {{c0: 64, c1: 16}}),\n"
    f"{IR}        MemoryDep('buf9', c0, {{c0: 1024}})]\n{IR}op1.met_dependencies = []\n"
    f"{IR}op2.writes = [MemoryDep('buf2', c0, {{c0: 8}})]\n{IR}op2.unmet_dependencies = []\n"
)
REFUSED = f"{FUSION}cannot fuse op0 with op1: no shared data\n{FUSION}cannot fuse op0 with op2: no shared data\n"


def read(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "run.log").write_text(text)
    return [f.message for f in analyze(str(tmp_path / "run.log")).findings if f.rule == "FUS001"]


def test_no_shared_data_of_two_that_share_a_buffer(tmp_path: Path) -> None:
    (message,) = read(tmp_path, GRAPH + REFUSED)
    assert "refused 2 fusions, 1 of them because of what the program does" in message
    assert "`op0` with `op1`, because of the 4096 elements that the first makes the second reads 1024" in message


@pytest.mark.parametrize(
    "text",
    [
        REFUSED,  # nothing tells what they use
        REFUSED + GRAPH,  # a later graph
        GRAPH + REFUSED.replace("[0/0]", "[1/0]"),  # another compilation
        GRAPH + REFUSED.replace(" 7 torch", " 8 torch"),  # another process
        GRAPH + REFUSED + f"{FUSION}fusing op0 with op1\n",  # fused in a later round
        GRAPH + GRAPH.replace("64*c0 + c1, {c0: 64, c1: 16}", "c0, {c0: 4096}") + REFUSED,  # the graph told last
    ],
    ids=["no IR", "later", "compilation", "process", "fused", "last graph"],
)
def test_what_is_not_told_of_the_pair_is_not_said(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text) == []
