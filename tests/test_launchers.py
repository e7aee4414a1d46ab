"""What launchers, schedulers and drivers say when a job of many ranks dies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import FIXTURES
from tests.support.reading import read, report_on

from necropsy_parsers.messages.elastic_failure import ElasticFailure
from necropsy_parsers.messages.process_exit import ProcessExit
from necropsy_parsers.messages.worker_group import WorkerGroupEvent
from necropsy_parsers.sniff import sniff
from necropsy_parsers.text.attempt import AttemptCounter

import necropsy
from necropsy.api import analyze
from necropsy.evidence.elastic_failures import ElasticFailures
from necropsy.finding import Finding, Role, Severity
from necropsy.report import Report

HEAD = "loading\nready\nthe first epoch begins\n"


def attempts(*lines: str) -> list[int]:
    """The attempt that a record of each line would get."""
    counter = AttemptCounter()
    out = []
    for line in lines:
        counter.see(line)
        out.append(counter.current)
    return out


def root(report: Report) -> Finding:
    """The finding that leads the report."""
    first = report.findings[0]
    assert first.role is Role.ROOT
    return first


# -- attempts -------------------------------------------------------------------

START = ("[default] Rendezvous'ing worker group", "[default] Starting worker group")
FAILED = "[default] Worker group FAILED. {}/3 attempts left; will restart worker group"
WORK = tuple(f"step {i} loss 1.0" for i in range(4))


class TestAttempts:
    """A restart counts once, whoever tells of it."""

    def test_a_first_start_is_none(self) -> None:
        assert set(attempts("[default] starting workers for entrypoint: python", *START, *WORK)) == {0}

    def test_the_announcement_belongs_to_the_attempt_it_ends(self) -> None:
        assert attempts(*START, *WORK, FAILED.format(3), "next")[-2:] == [0, 1]

    def test_eight_launchers_announce_one_restart(self) -> None:
        joined = "[default] Detected 1 new nodes from group_rank={}; will restart worker group"
        said = [FAILED.format(3), *(joined.format(n) for n in range(1, 8)), *["[default] Stopping worker group"] * 8]
        assert attempts(*START, *WORK, *said, *START * 8, *WORK)[-1] == 1

    def test_restarts_in_quick_succession(self) -> None:
        lines = [
            line for left in (3, 2, 1) for line in (*START, FAILED.format(left), "[default] Stopping worker group")
        ]
        assert attempts(*lines, *START, "work")[-1] == 3

    def test_restarts_without_a_start_between_them_differ_by_number(self) -> None:
        assert attempts(*WORK, FAILED.format(3), FAILED.format(2), FAILED.format(1), "work")[-1] == 3

    def test_ranks_that_echo_one_command_are_one(self) -> None:
        assert attempts(*WORK, *["+ python train.py"] * 8, *WORK)[-1] == 1

    def test_the_same_command_after_a_failure_is_another(self) -> None:
        lines = ("$ python train.py", "Traceback (most recent call last):", "ValueError: no", "$ python train.py")
        assert attempts(*WORK, *lines)[-1] == 2

    def test_requeue_notices_of_a_job_and_its_steps_are_one(self) -> None:
        notice = "slurmstepd: error: *** {} ON node-3 CANCELLED AT 2026-11-29T01:00:00 DUE TO JOB REQUEUE ***"
        assert attempts(*WORK, notice.format("JOB 5"), notice.format("STEP 5.0"), "work")[-3:] == [0, 1, 1]

    @pytest.mark.parametrize(
        "line",
        [
            "Retrying download of shard 7 (attempt 2 of 5)",
            "#SBATCH --requeue",
            "SLURM auto-requeueing enabled. Setting signal handlers.",
            "Restart count: 0",
            "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.",
        ],
    )
    def test_other_words_are_no_attempt(self, line: str) -> None:
        assert attempts(*WORK, line, *WORK)[-1] == 0

    def test_a_real_restart(self) -> None:
        text = (FIXTURES / "rules/CRS024/silent-restarted-once/input.log").read_text()
        exits = {
            (e.attempt, e.origin.local_rank) for e in read(text).of(ProcessExit) if e.origin.local_rank is not None
        }
        assert exits == {(0, 1), (1, 0)}
        events = read(text).of(WorkerGroupEvent)
        assert [(e.kind, e.left, e.limit) for e in events] == [("limit", None, 1), ("failed", 1, 1)]


# -- torchrun's summary ------------------------------------------------------------


def workers(path: Path) -> list[ElasticFailure]:
    """The rows of the table of torchrun's failed workers."""
    return necropsy.load(str(path)).get(ElasticFailures).rows


class TestSummary:
    """torchrun's summary of failed workers."""

    def test_one_row_a_worker(self) -> None:
        rows = workers(FIXTURES / "rules/CRS014/fires-exit-code-only/input.log")
        assert [(r.rank, r.local_rank, r.code, r.signal, r.first) for r in rows] == [
            (0, 0, -15, "SIGTERM", False),
            (1, 1, -15, "SIGTERM", False),
            (2, 2, 3, "", True),
        ]
        assert {r.host for r in rows} == {"localhost"}
        assert [r.pid for r in rows] == [17834, 17835, 17836]
        assert rows[0].time.startswith("2026-11-29_")

    def test_error_files_bring_exception_and_stack(self) -> None:
        rows = workers(FIXTURES / "rules/CRS024/fires-torchrun/input.log")
        assert [r.message.split(":")[0] for r in rows] == ["RuntimeError", "ValueError"]
        assert (rows[1].frames[-1].line, rows[1].frames[-1].function) == (8, "load_shard")
        assert rows[1].error_file.endswith("/attempt_0/1/error.json")

    def test_a_summary_alone_tells_the_exception(self, tmp_path: Path) -> None:
        text = (FIXTURES / "rules/CRS024/fires-torchrun/input.log").read_text()
        summary = text[text.index("torch.distributed.elastic.multiprocessing.errors.ChildFailedError") :]
        finding = root(report_on(HEAD + summary, tmp_path))
        assert (finding.rule, finding.code[0].line, finding.process) == ("CRS006", 8, "local rank 1")
        assert "shard 1 holds no samples" in finding.message

    def test_first_observed_does_not_outrank_an_earlier_exception(self, tmp_path: Path) -> None:
        text = (FIXTURES / "rules/CRS024/fires-torchrun/input.log").read_text()
        swapped = text.replace("rank      : 1 (local_rank: 1)", "rank      : 7 (local_rank: 7)")
        swapped = swapped.replace("rank      : 0 (local_rank: 0)", "rank      : 1 (local_rank: 1)")
        finding = root(report_on(swapped.replace(": 7 (local_rank: 7)", ": 0 (local_rank: 0)"), tmp_path))
        assert (finding.rule, finding.ranks) == ("CRS006", (1,))

    @pytest.mark.parametrize(
        "case", ["fires-torchrun-kill-of-one-rank", "fires-exit-code-only", "fires-torchrun-sigsegv"]
    )
    def test_stopped_ranks_are_no_roots(self, case: str) -> None:
        path = FIXTURES / "rules/CRS014" / case / "input.log"
        report = analyze([str(path)])
        stopped = {r.rank for r in workers(path) if r.signal == "SIGTERM"}
        assert stopped or case == "fires-torchrun-sigsegv"
        roots = {r for f in report.roots() if f.severity > Severity.NOTE for r in f.ranks}
        assert not roots & stopped


# -- several inputs, and error files ---------------------------------------------------------


def test_a_kernel_log_of_its_own_explains_the_rank_that_it_names(tmp_path: Path) -> None:
    text = (FIXTURES / "rules/CRS001/fires-off-the-bus-after-traceback/input.log").read_text()
    job, kernel = text.split("--- journalctl")
    (tmp_path / "job.log").write_text(job)
    (tmp_path / "kernel.log").write_text(kernel.split("\n", 1)[1])
    finding = root(analyze([str(tmp_path / "job.log"), str(tmp_path / "kernel.log")]))
    assert (finding.rule, finding.ranks) == ("CRS001", (3,))


ERROR_FILE = {
    "message": {
        "message": "ValueError: shard 1 holds no samples",
        "extraInfo": {
            "py_callstack": "Traceback (most recent call last):\n"
            '  File "/home/trainer/projects/asr/train.py", line 8, in load_shard\n'
            '    raise ValueError(f"shard {rank} holds no samples")\n'
            "ValueError: shard 1 holds no samples\n",
            "timestamp": "1795967607",
        },
    }
}


def test_an_error_file_is_read_beside_a_log(tmp_path: Path) -> None:
    folder = tmp_path / "none_x1" / "attempt_0" / "1"
    folder.mkdir(parents=True)
    (folder / "error.json").write_text(json.dumps(ERROR_FILE))
    (folder / "stdout.log").write_text("step 0 loss 1.0\n")
    report = analyze([str(tmp_path)])
    assert {i.format for i in report.inputs} == {"elastic_error_file", "log"}
    finding = root(report)
    assert (finding.rule, finding.ranks, finding.code[0].line) == ("CRS006", (1,), 8)


def test_other_json_is_no_error_file() -> None:
    others: list[Any] = [{"message": "hello"}, {"message": {"extraInfo": {}}}, [ERROR_FILE]]
    for value in others:
        claim = sniff(json.dumps(value).encode(), "error.json")
        assert claim is None or claim.format.name != "elastic_error_file"


def test_a_cut_error_file_is_an_issue(tmp_path: Path) -> None:
    (tmp_path / "error.json").write_text(json.dumps(ERROR_FILE)[:-40])
    assert [i.kind for i in analyze([str(tmp_path / "error.json")]).issues] == ["source/corrupt"]
