"""Rendering is pure: hand-made reports against plain-text snapshots, and what must always hold.

Snapshots live in `tests/snapshots`; `NECROPSY_UPDATE=1 pytest tests/test_render.py`
rewrites them. Read the difference before committing it: it is what people will see.
"""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from tests.support.slow_ranks import slow_ranks

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor

from necropsy.api import analyze
from necropsy.finding import Confidence, Cost, Finding, Fix, Place, Related, Role, Severity
from necropsy.render import View, renderers
from necropsy.render.parts.printable import printable
from necropsy.report import InputRow, NotEvaluated, Report, Run

SNAPSHOTS = Path(__file__).parent / "snapshots"
PROJECT = "/home/trainer/projects/vision"

SOURCE = {
    86: "    for images, labels in loader:",
    87: "        images = images.to(device, non_blocking=True)",
    88: "        logits = model(images)",
    89: "        loss = criterion(logits, labels)",
}


def excerpt(place: Place, before: int, after: int) -> list[tuple[int, str]]:
    """The lines of the one source file that is at hand."""
    if not place.file.endswith("vision/train.py") or place.line != 88:
        return []
    return [(n, text) for n, text in SOURCE.items() if 88 - before <= n <= 88 + after]


def log(line: int, text: str = "", name: str = "run.log") -> Anchor:
    """An anchor in a log; its byte offsets do not show."""
    return Anchor(name, line * 100, line * 100 + len(text), line, text)


OOM_TEXT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.80 GiB "
    "of which 19.29 GiB is free. Including non-PyTorch memory, this process has 120.51 GiB memory in use. Of the "
    "allocated memory 120.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
)
OOM = Finding(
    rule="OOM005",
    name="device-out-of-memory",
    severity=Severity.FATAL,
    message="CUDA ran out of memory on GPU 0: 20.00 GiB were requested with 19.29 GiB free, so the step stopped here.",
    anchor=log(412, OOM_TEXT),
    code=(Place(f"{PROJECT}/train.py", 88, function="training_step", text="logits = model(images)"),),
    facts={
        "requested_bytes": 20 << 30,
        "free_bytes": 20712521236,
        "capacity_bytes": 150109093888,
        "gpu": 0,
        "pid": 41234,
    },
    fixes=(
        Fix("Halve the batch size or accumulate gradients over two smaller ones.", "code"),
        Fix(
            "Let the allocator grow its segments, if fragmentation is the cause:",
            "env",
            command="export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
    ),
    related=(Related(log(398, "step 1200 loss 0.412 mem 119.8 GiB"), "last step before it"),),
    ranks=(0,),
)
MISSING = [
    NotEvaluated("MEM001", "copies", "a profiler trace (prof.export_chrome_trace)"),
    NotEvaluated("MEM002", "copies", "a profiler trace (prof.export_chrome_trace)"),
    NotEvaluated("KRN001", "kernels", "a profiler trace (prof.export_chrome_trace)"),
    NotEvaluated("CMP001", "graph_breaks", 'a log with TORCH_LOGS="graph_breaks,recompiles"'),
    NotEvaluated("TRT001", "trt_layers", "the build log of trtexec --verbose"),
]


def simple() -> Report:
    """One crash with its source at hand."""
    return Report(
        "0.1", [InputRow("run.log", "log", "a Python traceback at line 406", 1_234_567, 12_345)], [OOM], MISSING
    )


def cascades() -> Report:
    """Rank 3 fails and takes 200 others along, in five ways and a few more."""
    root = replace(
        OOM,
        rule="DAT001",
        name="bad-sample",
        message="Rank 3 raised ValueError for a bad sample, which ended the job for all ranks.",
        anchor=log(90, 'ValueError: bad sample in shard "00017.tar"'),
        facts={},
        related=(),
        fixes=(Fix("Check the shard, or skip samples that do not decode.", "code"),),
        code=(Place(f"{PROJECT}/data/shards.py", 41, function="decode", text="raise ValueError(message)"),),
        ranks=(3,),
    )
    peers = [
        Finding(
            rule="DST001",
            severity=Severity.ERROR,
            role=Role.CASCADE,
            message=f"Rank {rank} waited for a peer that was gone and gave up in all_reduce.",
            anchor=log(100 + rank),
            code=(Place(f"{PROJECT}/train.py", 120 + rank % 7, function="reduce_metrics"),),
            ranks=(rank,),
            explained_by=root.fingerprint,
        )
        for rank in range(201)
        if rank != 3
    ]
    launcher = Finding(
        rule="CRS015",
        severity=Severity.NOTE,
        role=Role.SYMPTOM,
        message="The launcher reported the failed ranks and ended with exit code 1.",
        anchor=log(950),
    )
    rows = [InputRow(f"logs/rank{n}.log", "log", "", 40_000, 400) for n in range(201)]
    return Report(
        "0.1", rows, [root, *peers, launcher], [], [], [Run("attempt 0", tuple(range(201)), "exit code 1 on rank 3")]
    )


def two_roots() -> Report:
    """A crash, a costly habit that is only likely, and a note."""
    item = Finding(
        rule="SYN001",
        name="sync-in-loop",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        message="Each step waits for the GPU because a loss is read with .item(), which leaves the GPU idle.",
        anchor=log(7, "aten::item", "trace.json"),
        code=(Place(f"{PROJECT}/train.py", 97, function="log_step", text="", exactness="function"),),
        cost=Cost(12_400_000, 0.31, "measured"),
        facts={
            "calls": 1200,
            "gpu_idle_share": 0.31,
            "steps": [3, 4, 5, 9],
            "profiled": True,
            "reads": ["97: loss.item()", "98: float(loss)"],
        },
        fixes=(Fix("Keep the loss on the GPU and read it every 50 steps."), Fix("Log from a hook.")),
        count=1200,
    )
    note = Finding(
        rule="CMP020",
        severity=Severity.NOTE,
        message="TF32 is off for matrix products, which costs time on this GPU.",
        anchor=log(3),
    )
    issues = Issues()
    issues.add("text/long-line", "run.log", count=3, first=log(77))
    issues.add("source/truncated", "trace.json.gz", detail="the gzip stream has no end")
    issues.add("text/repeats-folded", "run.log", count=40)
    rows = [*simple().inputs, InputRow("trace.json.gz", "kineto", "", 9_000_000, 80_000)]
    return Report("0.1", rows, [OOM, item, note], MISSING, issues.rows())


def undetermined() -> Report:
    """The run died, and what is at hand shows consequences only."""
    died = Finding(
        rule="CRS015",
        name="peer-died",
        severity=Severity.FATAL,
        confidence=Confidence.POSSIBLE,
        role=Role.CASCADE,
        message="Rank 0 lost the connection to a peer, whose own log is not among the inputs.",
        anchor=log(18, "RuntimeError: Connection closed by peer [192.0.2.7]:65244"),
        code=(Place(f"{PROJECT}/train.py", 141, function="reduce_metrics", text="dist.all_reduce(loss)"),),
        fixes=(Fix("Add the logs of the other ranks:", "command", command="necropsy analyze logs/"),),
        ranks=(0,),
    )
    killed = replace(
        died, rule="CRS016", message="The launcher sent SIGTERM to the remaining workers.", code=(), ranks=()
    )
    return Report("0.1", [InputRow("rank0.log", "log", "", 2_000, 31)], [died, killed])


def nothing() -> Report:
    """A healthy log, and an input that broke off."""
    issues = Issues()
    issues.add("source/truncated", "run.log.gz")
    gaps = [
        *MISSING,
        NotEvaluated("OOM006", "memory", "a memory snapshot"),
        NotEvaluated("QNT001", "calibration", "a calibration cache"),
    ]
    return Report("0.1", [InputRow("run.log.gz", "log", "", 1_234_567, 12_345)], [], gaps, issues.rows())


def long_lines() -> Report:
    """Paths and lines that fit no screen."""
    deep = "/home/trainer/projects/perception-research/experiments/2031-04-ablation/models/decoder/heads/detail_head.py"
    command = (
        "torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint 192.0.2.1:29400 train.py "
        "--config configs/large.yaml"
    )
    library = (
        "/srv/train/.venv/lib/python3.12/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py"
    )
    root = replace(
        OOM,
        message=f"The kernel {'triton_red_fused_native_layer_norm_' * 4}7 failed at {deep}:131, which ended the run.",
        anchor=log(
            99_000, "x" * 900, "/mnt/scratch/jobs/2031-04-01/cluster-a/node-3/attempt-2/stdout/rank-00017/worker.log"
        ),
        code=(
            Place(
                deep, 131, function="forward_with_auxiliary_losses", text="out = self.blend(" + "features, " * 30 + ")"
            ),
            Place(library, 362, function="wrapper"),
        ),
        fixes=(Fix("Run it again on all nodes:", "command", command=command),),
    )
    follower = replace(
        root, role=Role.CASCADE, severity=Severity.ERROR, explained_by=root.fingerprint, code=root.code[:1]
    )
    return Report("0.1", [InputRow(root.anchor.input, "log", "", 5, 1)], [root, follower])


def hostile() -> Report:
    """Wide characters, escapes, bidirectional overrides and markup of three kinds."""
    evil = "\x1b[2J\x1b]0;owned\x07\x9b31mred\x08\x08 \u202edrow\u202c [bold]x[/bold] `a` <b>&amp;</b> \ud800 \x00"
    root = replace(
        OOM,
        message=f"数据加载器在第三个分片上失败，因此训练在这一步停止。{evil}",
        anchor=log(5, f"错误：{'无法读取样本' * 30}{evil}", "日志\x1b[31m.log"),
        code=(
            Place(
                "/home/trainer/projects/видео/загрузка\u202e.py",
                7,
                function="читать\r\n",
                text=f"\tобразец = 读取({evil!r})",
            ),
        ),
        facts={"loss": math.nan, "shard\x1b[0m": evil},
        fixes=(Fix(f"Fix it.{evil}", command="echo one\x1b[0m\n  echo two"),),
        related=(Related(log(6, evil), evil),),
    )
    return Report("0.1", [InputRow("日志.log", "log", evil, 100, 2)], [root])


REPORTS = {f.__name__: f for f in (simple, cascades, two_roots, undetermined, nothing, long_lines, hostile, slow_ranks)}
SGR = re.compile(r"\x1b\[[0-9;]*m")


def render(name: str, report: Report, width: int = 80, colour: bool = False, ascii: bool = False) -> str:
    """The report as the user of a terminal that is `width` wide sees it."""
    return renderers()[name].render(report, View(width, colour, ascii, PROJECT, excerpt))


def check_snapshot(name: str, text: str) -> None:
    """Compare with the stored text, or store it."""
    path = SNAPSHOTS / name
    if os.environ.get("NECROPSY_UPDATE") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{name} differs: NECROPSY_UPDATE=1 rewrites it"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", REPORTS)
def test_text_snapshot(name: str, width: int) -> None:
    check_snapshot(f"{name}-{width}.txt", render("text", REPORTS[name](), width))


@pytest.mark.parametrize("name", ["two_roots", "undetermined", "nothing", "hostile", "slow_ranks"])
def test_markdown_snapshot(name: str) -> None:
    check_snapshot(f"{name}.md", render("md", REPORTS[name]()))


def test_every_snapshot_is_checked() -> None:
    known = {f"{name}-{width}.txt" for name in REPORTS for width in (80, 120)}
    assert {p.name for p in SNAPSHOTS.glob("*.txt")} == known


@pytest.mark.parametrize("name", REPORTS)
def test_json_is_strict_and_complete(name: str) -> None:
    report = REPORTS[name]()

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is no JSON")

    data = json.loads(render("json", report), parse_constant=refuse)
    assert [f["fingerprint"] for f in data["findings"]] == [f.fingerprint for f in report.findings]
    assert len(data["not_evaluated"]) == len(report.not_evaluated)
    assert [i["kind"] for i in data["issues"]] == [i.kind for i in report.issues]


def test_json_spells_out_what_is_no_number() -> None:
    facts = json.loads(render("json", hostile()))["findings"][0]["facts"]
    assert facts["loss"] == "nan"


@pytest.mark.parametrize("format", ["text", "md", "json"])
@pytest.mark.parametrize("name", REPORTS)
def test_nothing_moves_the_cursor(name: str, format: str) -> None:
    lines = render(format, REPORTS[name]()).split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert lines[-1] == ""
    assert lines[-2] != ""


@pytest.mark.parametrize("name", REPORTS)
def test_an_ascii_terminal_gets_ascii(name: str) -> None:
    assert render("text", REPORTS[name](), ascii=True).isascii()


@pytest.mark.parametrize("name", REPORTS)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    coloured = render("text", REPORTS[name](), colour=True)
    assert SGR.search(coloured)
    assert SGR.sub("", coloured) == render("text", REPORTS[name]())


def test_the_environment_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [render("text", simple(), colour=colour) for colour in (False, True)]
    for name, value in {"NO_COLOR": "1", "COLUMNS": "44", "TERM": "dumb", "TTY_COMPATIBLE": "1"}.items():
        monkeypatch.setenv(name, value)
    assert [render("text", simple(), colour=colour) for colour in (False, True)] == both


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
@pytest.mark.parametrize("name", REPORTS)
def test_lines_fit_unless_they_hold_something_whole(name: str, width: int) -> None:
    report = REPORTS[name]()
    whole = [fix.command for f in report.findings for fix in f.fixes if fix.command]
    for line in render("text", report, width).splitlines():
        cells = cell_len(line)
        long = any(cell_len(word) > width - 20 for word in line.split()) or any(c in line for c in whole)
        assert cells <= width or long or re.search(r"\.(py|log|json):\d+", line), line


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", REPORTS)
def test_places_and_commands_stay_whole(name: str, width: int) -> None:
    report = REPORTS[name]()
    lines = render("text", report, width).splitlines()
    first = next(iter(report.roots() or report.findings), None)
    if first is None:
        assert lines[0].startswith("No failure found")
        return
    place = printable(f"{first.code[0].file.rpartition('/')[2]}:{first.code[0].line}")
    assert any(place in line for line in lines[:7])
    assert any(f"{printable(first.anchor.input)}:{first.anchor.line}" in line for line in lines)
    for command in (line for fix in first.fixes for line in fix.command.splitlines()):
        assert any(line.strip() == printable(command).strip() for line in lines)


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_is_short(name: str) -> None:
    assert len(render("text", REPORTS[name]()).splitlines()) <= 60


def test_the_cause_leads_and_the_rest_is_counted() -> None:
    text = render("text", cascades())
    assert text.startswith("FATAL DAT001  data/shards.py:41 in decode\n")
    assert "And 200 more that follow from it:" in text
    assert "\n  +56 more\n" in text  # five of the seven places are shown


def test_a_quote_cannot_leave_its_fence() -> None:
    report = simple()
    report.findings[0] = replace(OOM, message="see <img src=x> [a](b) # c", anchor=log(1, "a ``` b ```` c"))
    text = render("md", report)
    assert "\n`````text\na ``` b ```` c\n`````\n" in text
    assert "<img" not in re.sub(r"\\<", "", text)
    assert "[a]" not in text


def test_where_nothing_was_read_the_reason_and_what_to_do_come_first(tmp_path: Path) -> None:
    (tmp_path / "kernels.ncu-rep").write_bytes(b"NVR\0\2\0\0\0")
    report = analyze([str(tmp_path / "kernels.ncu-rep")])
    view = View(width=100, colour=False, ascii=False, base=str(tmp_path))
    text = renderers()["text"].render(report, view)
    assert text.startswith("Nothing was read from kernels.ncu-rep")
    assert "Not evaluated" not in text
    assert "Copy the report again, or collect it again." in " ".join(text.split())
    assert renderers()["md"].render(report, view).startswith("**Nothing was read** from")


def test_a_job_that_said_nothing_wrong_was_read(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("epoch 1 loss 0.5\n")
    text = renderers()["text"].render(analyze([str(tmp_path / "run.log")]), View(width=100, colour=False, ascii=False))
    assert text.startswith("No failure found in")
    assert "Not evaluated" in text
