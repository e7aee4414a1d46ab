"""What the compiler's findings cost, in seconds of compiling, and that no second is counted twice."""

from __future__ import annotations

from pathlib import Path

from necropsy.api import analyze

HEAD = "I1012 09:14:{s:06.3f}000 7 torch/_dynamo/{place}] [{cid}] "
APP = "/home/trainer/app/net.py"


def line(s: float, place: str, cid: str, text: str) -> str:
    return HEAD.format(s=s, place=place, cid=cid).replace("000000", "000") + text + "\n"


def compiled(cid: str, function: str, at: int, begin: float, seconds: float) -> str:
    return (
        line(begin, "symbolic_convert.py:5320", cid, f"Step 1: torchdynamo start tracing {function} {APP}:{at}")
        + line(begin + seconds, "output_graph.py:2661", cid, "Step 2: calling compiler function inductor")
        + line(begin + seconds, "output_graph.py:2665", cid, "Step 2: done compiler function inductor")
    )


def broken(cid: str, at: int, when: float) -> str:
    rows = [
        f"Graph break in user code at {APP}:{at}",
        "Graph Break Reason: Data-dependent branching",
        "User code traceback:",
        f'  File "{APP}", line {at}, in forward',
        "    if x.mean() > 0:",
        "",
    ]
    return "".join(
        line(when, "symbolic_convert.py:5127", cid, row).replace(f"[{cid}] ", f"[{cid}] [__graph_breaks] ")
        for row in rows
    )


def costs(text: str, folder: Path) -> dict[str, int | None]:
    (folder / "run.log").write_text(text)
    return {f.rule: f.cost.ns for f in analyze(str(folder / "run.log")).findings}


def test_a_break_costs_the_compilation_of_the_rest(tmp_path: Path) -> None:
    rest = "torch_dynamo_resume_in_forward_at_12"
    text = (
        compiled("0/0", "forward", 9, 1.0, 4.0)
        + broken("0/0", 12, 5.0)
        + compiled("1/0", rest, 12, 6.0, 2.5)
        + compiled("1/1", rest, 12, 10.0, 7.0)  # a recompilation: another rule's
        + compiled("2/0", "torch_dynamo_resume_in_forward_at_40", 40, 20.0, 9.0)  # another break's
    )
    assert costs(text, tmp_path)["CMP002"] == 2_500_000_000


def test_without_steps_the_cost_is_unknown(tmp_path: Path) -> None:
    assert costs(broken("0/0", 12, 5.0), tmp_path)["CMP002"] is None
