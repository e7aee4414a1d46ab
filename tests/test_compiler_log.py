"""The log of torch's compiler as text: entries, quoted code, steps, tallies, and the search behind it."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.reading import read

from necropsy_parsers.issues import Issues
from necropsy_parsers.messages import Message
from necropsy_parsers.messages.compile_step import CompileStep
from necropsy_parsers.messages.graph_break import GraphBreak
from necropsy_parsers.records import UNKNOWN, Anchor
from necropsy_parsers.tallies import all_tallies, fusion, graph_nodes
from necropsy_parsers.tallies.fusion import FusionRefusal, Tally
from necropsy_parsers.tallies.graph_nodes import GraphNode
from necropsy_parsers.tallies.input_guards import GuardLists
from necropsy_parsers.text import search, tallying
from necropsy_parsers.text.entry import Entry
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.text.marks import Marks
from necropsy_parsers.text.plain import TextRun
from necropsy_parsers.text.quoted import counting, outside_quotes
from necropsy_parsers.text.search import Search, database_for

from necropsy.api import analyze

BREAK = [
    "Graph break in user code at /home/trainer/app/net.py:{n}",
    "Graph Break Reason: Data-dependent branching",
    "  Explanation: Detected data-dependent branching.",
    "",
    "User code traceback:",
    '  File "/home/trainer/app/net.py", line {n}, in forward',
    "    if x.mean() > 0:",
    "",
]


def head(pid: int, *, rank: int | None = None, place: str = "symbolic_convert.py:5127", cid: str = "0/0") -> str:
    before = "" if rank is None else f"[rank{rank}]:"
    return f"{before}V1012 09:14:02.118000 {pid} torch/_dynamo/{place}] [{cid}] [__graph_breaks] "


def of(kind: type[Any], text: str) -> list[Any]:
    return [r for r in read(text.encode()).records if isinstance(r, kind)]


# -- entries ------------------------------------------------------------------


def test_lines_of_one_head_are_one_entry() -> None:
    text = "".join(f"{head(7)}{line.format(n=12)}\n" for line in BREAK) + "features (48, 256)\n"
    (found,) = of(GraphBreak, text)
    assert (found.file, found.line) == ("/home/trainer/app/net.py", 12)
    assert found.origin.compile_id == "0/0"
    assert found.origin.pid == 7


def test_entries_of_two_processes_woven_line_by_line_come_apart() -> None:
    pairs = [(f"{head(7, rank=0)}{a.format(n=12)}", f"{head(8, rank=1)}{a.format(n=31)}") for a in BREAK]
    found = of(GraphBreak, "".join(f"{a}\n{b}\n" for a, b in pairs))
    assert sorted((f.origin.rank, f.line) for f in found) == [(0, 12), (1, 31)]


def test_a_silent_writer_holds_nobody_up() -> None:
    opened = "".join(f"{head(7)}{line.format(n=12)}\n" for line in BREAK[:-1])
    other = "".join(f"V1012 09:14:03.000000 8 torch/_inductor/graph.py:9] [__output_code] x{n}\n" for n in range(600))
    runs = of(TextRun, opened + other)
    assert len(of(GraphBreak, opened + other)) == 1
    assert max(r.lines for r in runs) > 400, "the lines behind it are counted, not read one by one"


def test_the_short_format_has_a_head_on_the_first_line_only() -> None:
    body = "\n".join(line.format(n=12) for line in BREAK)
    (found,) = of(GraphBreak, f"DEBUG:torch._dynamo.symbolic_convert.__graph_breaks:{body}\nstep 10 loss 2.3\n")
    assert found.line == 12
    assert found.frames[-1].function == "forward"


# -- what the compiler quotes --------------------------------------------------

QUOTED = [
    'raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")',
    "Traceback (most recent call last): in a docstring of the kernel",
    '  File "/home/trainer/app/net.py", line 9, in forward',
    "loss = cross_entropy(logits); exit(1)  # Killed",
    "Segmentation fault (core dumped)",
]


@pytest.mark.parametrize("artifact", ["output_code", "bytecode", "guards", "aot_graphs", "trace_source"])
@pytest.mark.parametrize("line", QUOTED)
def test_quoted_code_is_no_event(artifact: str, line: str, tmp_path: Path) -> None:
    glog = f"V1012 09:14:02.118000 7 torch/_inductor/codecache.py:1347] [0/0] [__{artifact}] {line}\n"
    old = f"[2024-02-08 09:14:02,118] [0/0] torch._inductor.codecache.__{artifact}: [DEBUG] {line}\n"
    (tmp_path / "run.log").write_text(glog * 3 + old * 3 + "step 1 loss 2.3\n")
    report = analyze(str(tmp_path / "run.log"))
    assert report.findings == []
    assert report.issues == []


def test_the_same_words_of_the_program_are_events(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    assert analyze(str(tmp_path / "run.log")).findings != []


# -- steps ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "seconds"),
    [
        (["Function, Runtimes (s)", "_compile.compile_inner, 0.2883", "gc, 0.0025"], 0.2883),  # without tabulate
        (
            ["Function                 Runtimes (s)", "-----------  ---", "_compile.<locals>.compile_inner    4.32"],
            4.32,
        ),
        (["Function                 Runtimes (s)", "-----------  ---", "_compile.compile_inner    1.5, 2.25"], 3.75),
        (["Function, Runtimes (s)"], 0.0),
    ],
)
def test_seconds_of_a_process(rows: list[str], seconds: float) -> None:
    mark = "I1012 09:14:02.118000 7 torch/_dynamo/utils.py:910] "
    text = "".join(f"{mark}{row}\n" for row in ["TorchDynamo compilation metrics:", *rows])
    (step,) = of(CompileStep, text)
    assert step.seconds == pytest.approx(seconds)


# -- tallies ---------------------------------------------------------------------

NODE = (
    "V1012 09:14:02.118000 {pid} torch/_inductor/scheduler.py:4609] [0/0] [__fusion]   SchedulerNode(name='op{n}'), "
    "Pointwise(['[8]', 'stack_traces = {{', '  File \"/home/trainer/app/net.py\", line {line}, in forward', "
    "'    x = x + {line}', '', '}}'])\n"
)
REFUSED = (
    "V1012 09:14:02.119000 {pid} torch/_inductor/scheduler.py:1388] [0/0] [__fusion] "
    "cannot fuse op{a} with op{b}: memory deps did not match\n"
)


def refusals(*chunks: str) -> list[FusionRefusal]:
    tally, start = Tally("run.log", 0), 0
    for chunk in chunks:
        tally.feed(chunk.encode(), start, 0)
        start += len(chunk)
    return [r for r in tally.records() if isinstance(r, FusionRefusal)]


def test_the_nodes_may_stand_in_the_chunk_before() -> None:
    nodes = NODE.format(pid=7, n=1, line=11) + NODE.format(pid=7, n=2, line=22)
    for chunks in ((nodes + REFUSED.format(pid=7, a=1, b=2),), (nodes, REFUSED.format(pid=7, a=1, b=2))):
        (found,) = refusals(*chunks)
        assert [found.first[-1].line, found.second[-1].line] == [11, 22]


def test_nodes_of_another_process_are_not_taken() -> None:
    mine = NODE.format(pid=7, n=1, line=11) + NODE.format(pid=7, n=2, line=22)
    other = NODE.format(pid=8, n=1, line=88) + NODE.format(pid=8, n=2, line=99)
    (found,) = refusals(mine + other + REFUSED.format(pid=7, a=1, b=2))
    assert [found.first[-1].line, found.second[-1].line] == [11, 22]


def test_the_graph_scheduled_last_is_meant() -> None:
    first = NODE.format(pid=7, n=1, line=11) + NODE.format(pid=7, n=2, line=22)
    second = NODE.format(pid=7, n=1, line=33) + NODE.format(pid=7, n=2, line=44)
    (found,) = refusals(first + second + REFUSED.format(pid=7, a=1, b=2))
    assert [found.first[-1].line, found.second[-1].line] == [33, 44]


def test_equal_refusals_are_one_row_with_a_count() -> None:
    nodes = NODE.format(pid=7, n=1, line=11) + NODE.format(pid=7, n=2, line=22)
    (found,) = refusals(nodes + REFUSED.format(pid=7, a=1, b=2) * 40)
    assert found.count == 40


def test_the_trivial_ones_among_many_are_counted_by_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = NODE.format(pid=7, n=1, line=11) + NODE.format(pid=7, n=2, line=22)
    refused = REFUSED.format(pid=7, a=1, b=2)
    trivial = refused.replace("memory deps did not match", "no shared data")
    chunk = nodes + trivial * 300 + refused + trivial.replace("data", "data at all") + trivial.replace("op2", "op3")
    each = refusals(*[chunk] * 3)
    monkeypatch.setattr(fusion, "ONE_BY_ONE", 100)
    monkeypatch.setattr(fusion, "ASKED", 10)
    assert refusals(*[chunk] * 3) == each
    assert sorted(row.count for row in each) == [3, 3, 903]


TRIED = (
    "V1012 09:14:02.119000 7 torch/_inductor/scheduler.py:1388] [0/0] [__fusion] {verdict} fuse (benchmark): {what}\n"
)
SETS = "fusing OrderedSet(['buf0']) with OrderedSet(['buf1', 'buf2']) cause \x1b[31m1.{n}\x1b[0mx slowdown"


def test_fusions_that_were_measured_as_slower_are_refusals() -> None:
    slower = "".join(TRIED.format(verdict="cannot", what=SETS.format(n=n)) for n in (208, 311))
    spilled = TRIED.format(verdict="cannot", what="register spilling of the fused kernel")
    faster = TRIED.format(verdict="can", what=SETS.format(n=5).replace("slowdown", "speedup"))
    found = {r.reason: (r.count, r.nodes, r.detail) for r in refusals(slower + spilled + faster)}
    assert found == {
        "slowdown when fused": (2, ("buf0", "buf1_buf2"), "cause 1.208x slowdown"),
        "register spilling of the fused kernel": (1, ("?", "?"), "register spilling of the fused kernel"),
    }


# -- search -----------------------------------------------------------------------


def test_both_searches_find_the_same() -> None:
    literals = (b"oss", b"loss is 0", b"Traceback", b"rror", b"Error: ", b'  File "', b"aa", b"aaa")
    database = database_for(literals)
    if database is None:
        pytest.skip("hyperscan has no wheel here")
    rng = random.Random(7)
    words = [*literals, b" ", b"a", b"\n", b"x", b"\x00", b"\xff"]
    for _ in range(200):
        chunk = b"".join(rng.choice(words) for _ in range(rng.randrange(60)))
        assert sorted(Search(literals).find(chunk)) == sorted(database.find(chunk))


HEADS = (
    *(
        head(7),
        head(123456),
        f"[rank3]: {head(7)}",
        "V1012 09:14:02.119000   88 torch/fx/graph.py:5] ",
        "",
        "[rank1]: ",
    ),
    "[2024-01-05 10:00:00,123] [0/0] torch._dynamo.guards.__guards: [DEBUG] ",
    *("V1012 09:14:02.119000 7 /srv/lib/torch/_export/x.py:5] ", "V1012 09:14:02.119000 7 torch/_ops.py:5] "),
    *("V1012 09:14:02.119000 7 torch/_dynamo/a.py", "X1012 09:14:02.119000 7 torch/_dynamo/a.py:5] "),
)


def _lines(chunk: bytes, positions: list[int]) -> set[int]:
    return {chunk.count(b"\n", 0, position) for position in positions}


def test_many_hits_are_judged_as_few_are() -> None:
    rng = random.Random(3)
    for _ in range(60):
        words = [
            rng.choice(HEADS) + rng.choice(["", " x"]) + rng.choice(["scale", "", "a scale scale"]) for _ in range(80)
        ]
        chunk = "\n".join([*words, "x" * rng.randrange(200)]).encode()
        hits = [m.start() for m in re.finditer(b"scale", chunk)]
        outside = outside_quotes(chunk, np.array(hits, np.int64))
        kept = [position for position, counts in zip(hits, outside.tolist(), strict=True) if counts]
        assert _lines(chunk, kept) == _lines(chunk, counting(chunk, [(position, 0) for position in hits], frozenset()))


@pytest.mark.parametrize("losses", [0, 30, 1999, 2500, 40_000])
def test_large_logs_are_marked_as_small_ones_are(losses: int, monkeypatch: pytest.MonkeyPatch) -> None:
    filler = "a line of a program that says nothing\n" * max(1, 8000 - losses)
    step = f"{filler[: len(filler) // max(1, losses)]}\nstep 1 loss 2.5\n"
    chunk = (step * losses + f"{head(7)}scale\nRuntimeError: oh\n" + filler).encode()
    found = []
    for limit in (search.LARGE, -1):
        monkeypatch.setattr(search, "LARGE", limit)
        issues = Issues()
        marks = Marks((b"rror", b"scale"), (), "run.log", issues, 0)
        found.append([_lines(chunk, part) for part in marks.find(chunk)] + [len(issues.rows())])
    assert found[0] == found[1]


def test_heads_that_were_cut_off_cost_nothing(tmp_path: Path) -> None:
    texts = []
    for cut in (False, True):
        lines = [f"{'' if cut else head(7)}{line.format(n=12)}\n" for line in BREAK]
        (tmp_path / "run.log").write_text("".join(lines) + "step 1 loss 2.3\nRuntimeError: later\n")
        texts.append(
            [
                (f.rule, f.code[0].line, f.code[0].function)
                for f in analyze(str(tmp_path / "run.log")).findings
                if f.code
            ]
        )
    assert texts[0] == texts[1] == [("CMP002", 12, "forward")]


# -- what is only read where it pays -------------------------------------------------


def test_frames_in_quoted_stacks_are_no_hits() -> None:
    chunk = b"""  File "a.py"\n'  File "b.py"', \\'  File "c.py"\n"  File "d.py"\n[rank0]:   File "e.py"\n"""
    assert {chunk[begin:].split(b'"')[1] for _, begin in Search((search.FRAME,)).find(chunk)} == {b"a.py", b"e.py"}
    assert (database := database_for((search.FRAME,))) is None or sorted(database.find(chunk)) == sorted(
        Search((search.FRAME,)).find(chunk)
    )


def test_lines_are_counted_as_count_does() -> None:
    rng = random.Random(5)
    chunks = [b"".join(rng.choice([b"x" * rng.randrange(300), b"\n"]) for _ in range(900)) for _ in range(2)]
    for chunk in (*chunks, chunks[0], b"", b"\n"):
        for position in [rng.randrange(len(chunk) + 1) for _ in range(50)]:
            assert lines_before(chunk, position) == chunk.count(b"\n", 0, position)


@pytest.mark.parametrize(
    ("other", "over"),
    [
        ("V1012 09:14:02.118000 7 torch/fx/a.py:9] [0/0] x", True),
        ("V1012 09:14:02.118000 7 torch/_dynamo/a.py:5] [0/1] x", True),
        ("V1012 09:14:02.118000 7 torch/_dynamo/a.py:5] [0/0] x", False),
        ("V1012 09:14:02.118000 8 torch/fx/a.py:9] [0/0] x", False),
    ],
)
def test_an_entry_without_artifact_ends_at_any_other_head(other: str, over: bool) -> None:
    prefix = "V1012 09:14:02.118000 7 torch/_dynamo/a.py:5] [0/0] "
    (row,) = [Message("said", Anchor("run.log", 0, 4, 1), UNKNOWN, 0, 0)]
    entry = Entry(row, 4, 0, prefix.encode())
    assert entry.ends_before(other.encode(), 0) is over
    tagged = Entry(row, 4, 0, (prefix + "[__graph_breaks] ").encode())
    assert not tagged.ends_before(other.encode(), 0)  # it may go on under another place of its module


GRAPH = "V1012 09:14:02.118000 7 torch/fx/graph.py:5] [0/0] [__post_grad_graphs] {text}\n"
NODE_OF = (
    "V1012 09:14:02.119000 7 torch/_inductor/scheduler.py:5] [0/0] [__fusion]   SchedulerNode(name='op0'), "
    "Pointwise(['[8]', 'origins={mul}'])\n"
)


@pytest.mark.parametrize("patience", [0, 1 << 20])
def test_graphs_wait_for_a_scheduler_that_names_their_nodes(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_nodes, "PATIENCE", patience)
    graph = "".join(
        GRAPH.format(text=text)
        for text in (
            "TRACED GRAPH",
            "# File: /home/trainer/net.py:7 in forward, code: y = 2 * x",
            "mul = aten.mul(x, 2)",
        )
    )
    tally, start = graph_nodes.Tally("run.log", 0), 0
    for chunk in (graph, "nothing\n", NODE_OF):
        tally.feed(chunk.encode(), start, 0)
        start += len(chunk)
    found = [(r.name, r.frame.line if r.frame else None) for r in tally.records() if isinstance(r, GraphNode)]
    assert found == ([("mul", 7)] if patience else [])


def test_what_is_quoted_is_read_up_to_a_bound() -> None:
    (kind,) = (k for k in all_tallies() if k.name == "fusion")
    issues = Issues()
    fed: list[bytes] = []

    class Kept(Tally):
        def feed(self, chunk: bytes, start: int, line: int) -> None:
            fed.append(chunk)

    tallies = tallying.Tallies("run.log", 0, None, issues, kinds=(replace(kind, make=Kept, most=10),))
    for chunk in (b"12345678\n", b"a\n", b"b\n", b"c\n"):
        tallies.feed(chunk, 0, 0, {b"__fusion"})
    assert fed == [b"12345678\n", b"a\n"]
    assert [(row.kind, row.count) for row in issues.rows()] == [("text/first-part", 2)]


GUARD_LINES = (
    "V1012 09:14:02.118000 7 torch/_dynamo/guards.py:5] [3/1] [__guards] | | +- TENSOR_MATCH: check_tensor({source}, "
    "Tensor, DispatchKeySet(CPU), torch.int64, device=None, size=[4, 48], stride=[48, 1])  # b, t = x.shape  "
    "# ome/trainer/lm.py:13 in forward\n"
)


RESTART = (
    "RuntimeError: lost\n" * 5
    + "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    + "exit\n"
)


def test_guards_on_inputs_have_place_process_and_attempt() -> None:
    state = GUARD_LINES.format(source="L['self']._modules['a']._parameters['w']")
    text = "step 1\n" * 5 + f"[rank3]: {state}[rank3]: " + GUARD_LINES.format(source="L['x']")
    for before, attempt in (("", 0), (RESTART, 1)):
        (lists,) = of(GuardLists, before + text + RESTART)
        (found,) = lists.read()
        assert (found.source, found.frame.line, found.frame.function) == ("L['x']", 13, "forward")
        assert (found.origin.rank, found.origin.pid, found.origin.compile_id) == (3, 7, "3/1")
        assert found.anchor.line == (before + text).count("\n")
        assert found.attempt == attempt
