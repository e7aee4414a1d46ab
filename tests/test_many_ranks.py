"""Jobs whose ranks write files of their own: the culprit among hundreds, clocks, names, attempts."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Final

import pytest
from tests.support.cases import brief, place_of
from tests.support.fleet import FAILURE, LOST, WAITED, fleet, progress, text_of

from necropsy.api import analyze
from necropsy.finding import Finding, Role, Severity
from necropsy.render import View
from necropsy.render.text import render
from necropsy.report import Report

RANKS: Final = 512
CULPRIT: Final = 257


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report on a job of 512 ranks, one of which failed."""
    return analyze([str(fleet(tmp_path_factory.mktemp("many") / "job", RANKS, CULPRIT))])


def write(folder: Path, files: dict[str, str]) -> Report:
    """The report on files of these names and texts."""
    for name, text in files.items():
        path = folder / "job" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return analyze([str(folder / "job")])


def roots(report: Report) -> list[Finding]:
    """The roots above a note, in the order of the report."""
    return [f for f in report.roots() if f.severity > Severity.NOTE]


def failure(rank: int, *, labelled: bool = True) -> str:
    """The traceback of a rank that fails, with or without its label."""
    text = FAILURE.format(rank=rank)
    return text if labelled else text.replace(f"[rank{rank}]: ", "")


def other(rank: int, *, labelled: bool = True) -> str:
    """The traceback of another failure, at another line."""
    text = failure(rank, labelled=labelled).replace("line 34, in collate", "line 58, in resume")
    text = text.replace("ids[i, : len(row)] = torch.tensor(row)", 'start = state["offset"]')
    return text.replace("~~~^^^^^^^^^^^^^^^", "        ~~~~~^^^^^^^^^^").replace(
        "ValueError: row 4711 is longer than 4096", "KeyError: 'offset'"
    )


def at(clock: str, text: str = "step 10 loss 4.2") -> str:
    """A line of Python's logging."""
    return f"2026-06-03 {clock},120 INFO train: {text}\n"


class TestManyFiles:
    """512 files: one culprit in the middle, 511 victims."""

    def test_the_culprit_comes_first_with_its_line(self, report: Report) -> None:
        first = report.findings[0]
        assert (first.rule, first.ranks, place_of(first)) == (
            "CRS006", (CULPRIT,), "/home/trainer/projects/lm/data.py:34",
        )  # fmt: skip
        assert first.code[0].exactness == "line"

    def test_it_is_the_only_root(self, report: Report) -> None:
        assert [f.ranks for f in roots(report)] == [(CULPRIT,)]

    def test_the_victims_are_folded(self, report: Report) -> None:
        assert len(report.findings) <= 6, brief(report.findings)

    def test_every_file_was_read(self, report: Report) -> None:
        assert len(report.inputs) == RANKS
        assert {row.format for row in report.inputs} == {"log"}
        assert all(row.bytes == Path(row.path).stat().st_size for row in report.inputs)

    def test_the_page_is_short(self, report: Report) -> None:
        assert len(render(report, View()).splitlines()) <= 60


@pytest.mark.parametrize("culprit", [0, 2, 10, 23])
@pytest.mark.parametrize("name", ["rank_{rank}.log", "node-{node}/rank{rank}/stderr.txt", "{rank:02d}.err"])
def test_the_place_of_the_culprits_file_does_not_matter(tmp_path: Path, culprit: int, name: str) -> None:
    found = analyze([str(fleet(tmp_path / "job", 24, culprit, name))])
    assert [f.ranks for f in roots(found)] == [(culprit,)], brief(found.findings)
    assert found.findings[0].rule == "CRS006"


class TestMemory:
    """What is kept must not grow with healthy lines, and not faster than the number of files."""

    @staticmethod
    def peak(folder: Path) -> int:
        gc.collect()
        tracemalloc.start()
        analyze([str(folder)])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    @pytest.fixture(autouse=True)
    def warm(self, tmp_path: Path) -> None:
        """Loads all modules, so that they do not count."""
        analyze([str(fleet(tmp_path / "warm", 2, 1))])

    def test_with_the_number_of_files(self, tmp_path: Path) -> None:
        few, many = fleet(tmp_path / "few", 16, 9), fleet(tmp_path / "many", 64, 33)
        assert self.peak(many) <= 6 * self.peak(few)

    def test_with_healthy_lines(self, tmp_path: Path) -> None:
        short, long = fleet(tmp_path / "short", 8, 5), tmp_path / "long"
        long.mkdir()
        for rank in range(8):
            (long / f"rank_{rank}.log").write_text(progress(rank, 1680) + text_of(rank, 5))
        assert self.peak(long) <= 3 * self.peak(short)


class TestClocks:
    """What came first, across files."""

    @pytest.mark.parametrize(("early", "late"), [("a.log", "b.log"), ("b.log", "a.log")])
    def test_of_two_failures_the_earlier_comes_first(self, tmp_path: Path, early: str, late: str) -> None:
        found = write(
            tmp_path,
            {
                early: at("09:50:02") + failure(0, labelled=False),
                late: at("10:00:07") + other(1, labelled=False),
            },
        )
        assert "row 4711" in found.findings[0].message, brief(found.findings)

    @pytest.mark.parametrize(("early", "late"), [("rank0.log", "rank1.log"), ("rank1.log", "rank0.log")])
    def test_of_copies_the_earliest_is_quoted(self, tmp_path: Path, early: str, late: str) -> None:
        found = write(
            tmp_path,
            {
                early: at("09:50:02") + failure(0, labelled=False),
                late: at("10:00:07") + failure(0, labelled=False),
            },
        )
        first = found.findings[0]
        assert (first.count, Path(first.anchor.input).name) == (2, early), brief(found.findings)

    @pytest.mark.parametrize("culprit", [0, 3])
    def test_a_failure_before_the_timeouts_is_their_cause(self, tmp_path: Path, culprit: int) -> None:
        files = {f"rank{r}.log": at("09:42:01") + WAITED.format(rank=r, s=2) for r in range(4)}
        files[f"rank{culprit}.log"] = at("09:32:01") + failure(culprit)
        found = write(tmp_path, files)
        assert [(f.rule, f.ranks) for f in roots(found)] == [("CRS006", (culprit,))], brief(found.findings)

    def test_a_failure_long_after_the_timeouts_is_not(self, tmp_path: Path) -> None:
        """The late rank worked all the time, by the same clocks; it failed when nobody was left."""
        files = {f"rank{r}.log": progress(r) + WAITED.format(rank=r, s=2) for r in range(1, 4)}
        alone = "".join(at(f"{9 + m // 60:02d}:{m % 60:02d}:01", f"evaluated {m} of 90 batches") for m in range(30, 90))
        files["rank0.log"] = progress(0) + alone + failure(0)
        found = write(tmp_path, files)
        assert found.findings[0].rule == "CRS017", brief(found.findings)
        assert found.findings[0].role is Role.ROOT

    def test_a_second_decides_nothing(self, tmp_path: Path) -> None:
        """A peer notices a death at once, and two hosts' clocks differ by more than that."""
        files = {f"rank{r}.log": at("09:32:11") + LOST.format(rank=r, s=1, peer=9, port=r) for r in (0, 1)}
        files["rank2.log"] = at("09:32:12") + failure(2)
        found = write(tmp_path, files)
        assert [(f.rule, f.ranks) for f in roots(found)] == [("CRS006", (2,))], brief(found.findings)

    def test_without_clocks_a_failure_of_its_own_explains_a_noticed_one(self, tmp_path: Path) -> None:
        files = {f"rank{r}.log": WAITED.format(rank=r, s=2).replace("[E603 09:42:12.", "[E ") for r in (0, 1)}
        files["rank2.log"] = failure(2)
        found = write(tmp_path, files)
        assert [(f.rule, f.ranks) for f in roots(found)] == [("CRS006", (2,))], brief(found.findings)


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("rank_7.log", (7,)),
        ("train-rank7.out", (7,)),
        ("rank7/stderr.txt", (7,)),
        ("worker.rank-07.log", (7,)),
        ("none_5k2x9c1q/attempt_0/7/stderr.log", (7,)),
        ("train.log", ()),
        ("lora_rank_16/train.log", ()),
        ("lora-rank16.log", ()),
        ("local_rank_7.log", ()),
        ("ranking_3.log", ()),
    ],
)
def test_the_rank_in_a_files_name(tmp_path: Path, name: str, ranks: tuple[int, ...]) -> None:
    found = write(tmp_path, {name: progress(1, 3) + failure(1, labelled=False)})
    assert (found.findings[0].rule, found.findings[0].ranks) == ("CRS006", ranks)


def test_a_label_in_the_text_beats_the_name(tmp_path: Path) -> None:
    found = write(tmp_path, {"none_5k2x9c1q/attempt_0/1/stderr.log": failure(9)})
    assert found.findings[0].ranks == (9,)


def test_local_ranks_of_two_nodes_are_two_processes(tmp_path: Path) -> None:
    """One of them failing does not make what the other printed a consequence."""
    files = {
        "node-1/local_rank_0.log": at("09:00:00") + failure(0, labelled=False),
        "node-2/local_rank_0.log": at("09:30:00") + other(0, labelled=False),
    }
    found = write(tmp_path, files)
    assert [f.role for f in found.findings] == [Role.ROOT, Role.ROOT], brief(found.findings)


class TestStreamsApart:
    """stdout and stderr of one process in two files."""

    @pytest.mark.parametrize(
        ("err", "out"),
        [
            ("job-7714.err", "job-7714.out"),
            ("none_5k2x9c1q/attempt_0/0/stderr.log", "none_5k2x9c1q/attempt_0/0/stdout.log"),
            ("rank3/a.txt", "rank3/b.txt"),
        ],
    )
    def test_steps_in_the_other_file_do_not_mean_that_it_went_on(self, tmp_path: Path, err: str, out: str) -> None:
        found = write(tmp_path, {err: failure(0, labelled=False), out: progress(0, 60)})
        assert found.findings[0].severity is Severity.FATAL, brief(found.findings)


class TestAttempts:
    """Attempts in the names of folders."""

    @pytest.mark.parametrize("name", ["run/attempt_{n}/1/stderr.log", "restart_{n}/rank1.log"])
    def test_the_same_failure_in_each_is_one_finding(self, tmp_path: Path, name: str) -> None:
        found = write(tmp_path, {name.format(n=n): failure(1) for n in range(3)})
        first = found.findings[0]
        assert (first.ranks, first.attempts, first.count) == ((1,), (0, 1, 2), 3)
        assert len(roots(found)) == 1

    def test_another_failure_in_a_later_one_is_another_root(self, tmp_path: Path) -> None:
        files = {
            "run/attempt_0/1/stderr.log": failure(1),
            "run/attempt_1/1/stderr.log": other(1),
        }
        found = write(tmp_path, files)
        assert [f.attempts for f in roots(found)] == [(0,), (1,)], brief(found.findings)
        assert "row 4711" in found.findings[0].message

    def test_what_torchrun_copies_to_its_own_output_is_told_once(self, tmp_path: Path) -> None:
        copy = "".join(f"[default1]:{line}" for line in failure(1).splitlines(keepends=True))
        found = write(tmp_path, {"agent.log": copy, "run/attempt_0/1/stderr.log": failure(1)})
        assert [(f.rule, f.ranks) for f in found.findings] == [("CRS006", (1,))], brief(found.findings)
