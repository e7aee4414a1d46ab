"""Jobs of several ranks, run for real under torchrun: which rank, which line, which rule.

The jobs run a few at a time, once for all tests of this module; each takes some seconds and
none needs a GPU. DETAIL is not used together with DistributedDataParallel: over gloo that
combination crashes in torch 2.13.0 itself.
"""

from __future__ import annotations

import pytest
from tests.support.cases import brief, loud
from tests.support.ranks import Job, Ran, run_all

from necropsy.api import analyze
from necropsy.finding import Finding, Severity
from necropsy.report import Report

# Under pytest-xdist with `--dist loadgroup` one worker runs the jobs, and only once.
pytestmark = pytest.mark.xdist_group("live-ranks")

ALONE = """
if rank == 1:
    for shard in range(60):
        print(f"rank 1 evaluates shard {shard} of 60", flush=True)
        time.sleep(1)
else:
    dist.all_reduce(ones)  # here
"""
RAISES = """
def load(shard):
    if shard == 2:
        raise ValueError(f"shard {shard} is short")  # here
    return ones

dist.all_reduce(load(rank))
"""
UNUSED = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare_head = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.used(x)

model = DistributedDataParallel(Net())
for step in range(3):
    loss = model(torch.randn(4, 8)).sum()  # here
    loss.backward()
"""
DISAGREE = """
rows = torch.ones(6 if rank == 1 else 8)
dist.all_reduce(rows)  # here
"""
KILLED = """
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(ones)
"""
CRASHES = """
def decode():
    os.kill(os.getpid(), signal.SIGSEGV)  # here

if rank == 1:
    decode()
dist.all_reduce(ones)
"""
ABSENT = """
if rank == 3:
    time.sleep(60)
dist.monitored_barrier(timeout=datetime.timedelta(seconds=4))  # here
"""
# Without a process group: over gloo the ranks of a second attempt do not always find each other.
RESTARTED = """
import os, time

print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
if os.environ["RANK"] == "1":
    raise KeyError("offset")  # here
time.sleep(60)
"""
HEALTHY = """
for step in range(3, 40):
    dist.all_reduce(ones)
    print(f"rank {rank} step {step} loss {1 / (step + 1):.3f}", flush=True)
print("done", flush=True)
dist.destroy_process_group()
"""
JOBS = (
    Job("alone", 2, ALONE),
    Job("alone-apart", 2, ALONE, apart=True),
    Job("raises", 4, RAISES),
    Job("raises-apart", 3, RAISES, apart=True),
    Job("unused", 2, UNUSED),
    Job("unused-named", 2, UNUSED, env={"TORCH_DISTRIBUTED_DEBUG": "INFO"}),
    Job("disagree", 2, DISAGREE, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
    Job("killed", 3, KILLED),
    Job("crashes", 2, CRASHES, env={"PYTHONFAULTHANDLER": "1"}),
    Job("crashes-apart", 2, CRASHES, env={"PYTHONFAULTHANDLER": "1"}, apart=True),
    Job("absent", 4, ABSENT),
    Job("restarted-apart", 2, RESTARTED, apart=True, options=("--max-restarts=1",), head=""),
    Job("healthy", 2, HEALTHY),
)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Every job, finished."""
    return run_all(JOBS, tmp_path_factory.mktemp("live"))


def report_of(ran: Ran) -> Report:
    report = analyze(ran.inputs)
    assert report.findings or ran.status == 0, ran.text
    return report


def first_of(ran: Ran) -> Finding:
    return report_of(ran).findings[0]


def at_marked_line(finding: Finding, ran: Ran) -> bool:
    place = finding.code[0] if finding.code else None
    return place is not None and place.file.endswith("train.py") and place.line == ran.job.line


def roots(report: Report) -> list[str]:
    """The rules of the roots above a note."""
    return [f.rule for f in report.roots() if f.severity > Severity.NOTE]


@pytest.mark.parametrize(
    ("name", "rule", "ranks"),
    [
        ("alone-apart", "CRS017", (1,)),
        ("raises", "CRS006", (2,)),
        ("raises-apart", "CRS006", (2,)),
        ("unused", "DST017", (0, 1)),
        ("unused-named", "DST017", (0, 1)),
        ("absent", "CRS017", (3,)),
        ("crashes-apart", "CRS014", (1,)),
        ("restarted-apart", "CRS006", (1,)),
    ],
)
def test_the_rank_and_its_line_come_first(jobs: dict[str, Ran], name: str, rule: str, ranks: tuple[int, ...]) -> None:
    ran = jobs[name]
    first = first_of(ran)
    assert (first.rule, first.ranks, at_marked_line(first, ran)) == (rule, ranks, True), [*brief([first]), ran.text]


@pytest.mark.parametrize(("name", "rule"), [("alone", "CRS017"), ("disagree", "DST019"), ("crashes", "CRS014")])
def test_the_line_comes_first_where_no_label_names_the_rank(jobs: dict[str, Ran], name: str, rule: str) -> None:
    ran = jobs[name]
    first = first_of(ran)
    assert (first.rule, at_marked_line(first, ran)) == (rule, True), [*brief([first]), ran.text]


def test_a_killed_rank_is_the_root_and_no_line_is_claimed_for_it(jobs: dict[str, Ran]) -> None:
    first = first_of(jobs["killed"])
    assert (first.rule, first.ranks) == ("CRS014", (1,)), brief([first])
    assert all(place.exactness not in ("line", "statement") for place in first.code)


def test_unused_parameters_are_named_where_torch_names_them(jobs: dict[str, Ran]) -> None:
    named, unnamed = first_of(jobs["unused-named"]), first_of(jobs["unused"])
    assert "spare_head" in named.message
    assert "2, 3" in unnamed.message


def test_both_calls_of_a_disagreement_are_told(jobs: dict[str, Ran]) -> None:
    message = first_of(jobs["disagree"]).message
    assert "rank 1 ALLREDUCE" in message
    assert "[6]" in message
    assert "[8]" in message


def test_the_restart_that_fails_alike_is_counted(jobs: dict[str, Ran]) -> None:
    first = first_of(jobs["restarted-apart"])
    assert first.attempts == (0, 1), brief([first])


@pytest.mark.parametrize("name", [job.name for job in JOBS if job.name != "healthy"])
def test_one_failure_is_one_story(jobs: dict[str, Ran], name: str) -> None:
    ran = jobs[name]
    report = report_of(ran)
    assert ran.status != 0
    assert len(roots(report)) == 1, [*brief(report.findings), ran.text]


def test_a_healthy_job_has_nothing_to_say(jobs: dict[str, Ran]) -> None:
    ran = jobs["healthy"]
    assert (ran.status, brief(loud(report_of(ran)))) == (0, []), ran.text
