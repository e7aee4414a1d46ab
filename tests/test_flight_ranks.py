"""The dumps of a job together: which rank is to blame, on hand-made dumps, simulated jobs and those of others."""

from __future__ import annotations

import json
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.cases import brief, loud
from tests.support.flight import T0, Fault, Simulation, dump, entry, frame
from tests.support.flight_folders import blamed, hang, write
from tests.support.flight_programs import Layout, Programs, fsdp, megatron

import necropsy
from necropsy.api import analyze
from necropsy.report import Report

WORLD: Final = {"0": ("default_pg", [0, 1, 2, 3])}

# -- jobs -------------------------------------------------------------------------


class TestJobs:
    def test_two_runs_in_one_folder(self, tmp_path: Path) -> None:
        write(tmp_path / "first", hang(missing=(1,)))
        write(tmp_path / "second", hang(missing=(3,)))
        assert blamed(analyze(str(tmp_path))) == [1, 3]

    def test_a_folder_for_each_host(self, tmp_path: Path) -> None:
        for rank, value in hang(missing=(3,)).items():
            write(tmp_path / f"host-{rank // 2}", {rank: value})
        assert blamed(analyze(str(tmp_path))) == [3]

    def test_a_folder_for_each_rank(self, tmp_path: Path) -> None:
        for rank, value in hang(missing=(3,)).items():
            write(tmp_path / f"rank{rank}", {rank: value}, "flight_recorder")
        assert blamed(analyze(str(tmp_path))) == [3]

    def test_in_an_archive(self, tmp_path: Path) -> None:
        write(tmp_path / "run", hang())
        with tarfile.open(tmp_path / "dumps.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "run", "run")
        assert blamed(analyze(str(tmp_path / "dumps.tar.gz"))) == [2]

    def test_groups_of_the_same_name(self, tmp_path: Path) -> None:
        """Split groups can share a name: each pair counts for itself."""
        pairs = {r: {"0": ("default_pg", range(4)), "7": ("split", [0, 1] if r < 2 else [2, 3])} for r in range(4)}
        ahead = [entry(i, "all_reduce", i + 1, process_group=("7", "split")) for i in range(9)]
        dumps = {r: dump(ahead if r < 2 else ahead[:3], pairs[r]) for r in range(4)}
        assert loud(analyze(write(tmp_path, dumps))) == []

    def test_counters_of_old_versions_count_sends_too(self, tmp_path: Path) -> None:
        """Before PyTorch 2.4 ranks of one group send differently often, and their numbers do not compare."""
        dumps = {}
        for r in range(3):
            rows = [{"pg_id": 0, "seq_id": i, "profiling_name": "nccl:send 0->1" if i > 3 else "nccl:all_reduce",
                     "time_created_us": i, "state": "completed" if i < 5 + r else "scheduled", "retired": False}
                    for i in range(6 + r)]  # fmt: skip
            dumps[r] = rows
        report = analyze(write(tmp_path, dumps))
        assert not [f for f in loud(report) if "#" in f.message], brief(report.findings)

    def test_table(self, tmp_path: Path) -> None:
        table = necropsy.load(write(tmp_path, hang())).flight_entries
        assert len(table) == 19
        assert list(table[table["state"] != "completed"]["rank"]) == [0, 1, 3]
        assert set(table["op"]) == {"all_reduce"}
        assert table["started"].isna().all()


class TestWindows:
    def test_what_is_older_than_a_window_is_not_missing(self, tmp_path: Path) -> None:
        entries = [entry(i, "all_reduce", i + 1) for i in range(30)]
        dumps = {r: dump(entries[-n:], WORLD) for r, n in enumerate((30, 20, 7, 1))}
        assert loud(analyze(write(tmp_path, dumps))) == []

    def test_outstanding_work_can_push_older_work_out(self, tmp_path: Path) -> None:
        """Rank 3's window holds only outstanding entries of another group: it may have entered this one before."""
        groups = {"0": ("default_pg", range(4)), "1": ("side", range(4))}
        side = [entry(50 + i, "all_reduce", i + 1, process_group=("1", "side"), state="scheduled") for i in range(4)]
        main = [entry(48, "all_reduce", 9, state="completed"), entry(49, "all_reduce", 10, state="scheduled")]
        dumps = {r: dump(main + side, groups) for r in range(3)} | {3: dump(side, groups)}
        assert 3 not in {r for f in analyze(write(tmp_path, dumps)).roots() if len(f.ranks) == 1 for r in f.ranks}

    def test_a_broadcast_that_its_root_has_left(self, tmp_path: Path) -> None:
        """The root of a broadcast goes on while the others wait for older work."""
        late = [entry(0, "all_reduce", 1), entry(1, "all_reduce", 2, state="scheduled"),
                entry(2, "broadcast", 3, state="scheduled")]  # fmt: skip
        groups = {"0": ("default_pg", range(3))}
        dumps = {0: dump(late, groups), 1: dump(late, groups), 2: dump(late[:1], groups)}
        report = analyze(write(tmp_path, dumps))
        assert blamed(report) == [2]

    def test_watchdog_counters_are_not_compared(self, tmp_path: Path) -> None:
        dumps = {r: dump([entry(i, "all_reduce", i + 1) for i in range(3)], WORLD) for r in range(4)}
        for r, value in dumps.items():
            value["pg_status"] = {"0": {"last_enqueued_collective": 100 * r, "last_completed_collective": 3}}
        assert loud(analyze(write(tmp_path, dumps))) == []


class TestSends:
    """Sends and receives, which have no numbers that two ranks share."""

    def chain(self, stop: int) -> dict[int, Any]:
        """A pipeline of four: stage `stop` does not pass the second batch on."""
        groups = {"0": ("default_pg", range(4))}
        dumps = {}
        for r in range(4):
            rows: list[dict[str, Any]] = []
            for batch in range(3):
                for kind, peer in (("recv", r - 1), ("send", r + 1)):
                    if 0 <= peer < 4 and not (r == stop and batch and kind == "send") and not (r == stop and batch > 1):
                        passed = batch == 0 or (batch == 1 and (r < stop or (r == stop and kind == "recv")))
                        if passed or kind == "recv" or batch == 0 or r < stop:
                            arrow = f"{r}->{peer}" if kind == "send" else f"{r}<-{peer}"
                            done = passed and not (kind == "send" and r == stop - 1 and batch > 1)
                            rows.append(entry(len(rows), f"{kind} {arrow}", 0, p2p_seq_id=len(rows), is_p2p=True,
                                              state="completed" if done else "scheduled"))  # fmt: skip
            dumps[r] = dump(rows, groups)
        return dumps

    @pytest.mark.parametrize("stop", [1, 2])
    def test_a_stage_that_does_not_pass_on(self, stop: int, tmp_path: Path) -> None:
        report = analyze(write(tmp_path, self.chain(stop)))
        assert blamed(report) == [stop], brief(report.findings)


# -- simulated jobs ---------------------------------------------------------------

LAYOUTS: Final[dict[str, Callable[[], Programs]]] = {
    "t2 p2 d2 e4": lambda: megatron(Layout(2, 2, 2, 4)),
    "t2 p4 d2 e4": lambda: megatron(Layout(2, 4, 2, 4)),
    "t4 p2 d2 e8": lambda: megatron(Layout(4, 2, 2, 8)),
    "p4 d2": lambda: megatron(Layout(1, 4, 2)),
    "t8 d2": lambda: megatron(Layout(8, 1, 2)),
    "p4": lambda: megatron(Layout(1, 4, 1)),
    "fsdp 8": lambda: fsdp(8),
}


def simulated(
    layout: str, kind: str, seed: int, faults: int, active_only: bool, folder: Path
) -> tuple[list[int], Report]:
    """The ranks that were struck, and the report on the dumps that are left."""
    chance = random.Random(f"{layout} {kind} {seed} {faults}")
    programs, groups = LAYOUTS[layout]()
    simulation = Simulation(programs, groups, chance)
    struck = sorted(chance.sample(range(len(programs)), faults))
    moment = chance.randrange(30, max(map(len, programs)))
    simulation.run({r: Fault(kind, moment) for r in struck})
    # A watchdog looks every 100 ms, in which some sixty operations end: of those it does not know when the GPU fails.
    dumps = {r: simulation.dump_of(r, active_only=active_only, unseen=60) for r in range(len(programs))}
    return struck, analyze(write(folder, {r: d for r, d in dumps.items() if kind != "kill" or r not in struck}))


@pytest.mark.parametrize("active_only", [True, False], ids=["active", "whole"])
@pytest.mark.parametrize("kind", ["host", "kill"])
@pytest.mark.parametrize("layout", LAYOUTS)
class TestStrickenHosts:
    """Hosts that stop (a lock, an exception, a long detour) and processes that are gone."""

    def test_one_rank(self, layout: str, kind: str, active_only: bool, tmp_path: Path) -> None:
        for seed in range(3):
            struck, report = simulated(layout, kind, seed, 1, active_only, tmp_path / str(seed))
            assert blamed(report) == struck, brief(report.findings)

    def test_several_ranks(self, layout: str, kind: str, active_only: bool, tmp_path: Path) -> None:
        """Never an innocent rank; and one of the struck at least, since one can hide behind another."""
        exact = 0
        for seed in range(4):
            struck, report = simulated(layout, kind, seed, 2 + seed % 2, active_only, tmp_path / str(seed))
            left = len(report.inputs)
            assert blamed(report) or left < len(struck), brief(report.findings)
            assert set(blamed(report)) <= set(struck), brief(report.findings)
            exact += blamed(report) == struck
        assert exact >= 1 or layout in ("p4", "p4 d2", "t2 p4 d2 e4")


@pytest.mark.parametrize("active_only", [True, False], ids=["active", "whole"])
@pytest.mark.parametrize("layout", LAYOUTS)
class TestStrickenGpus:
    def test_errors(self, layout: str, active_only: bool, tmp_path: Path) -> None:
        """A GPU that fails: its rank knows of nothing that completed lately."""
        exact = 0
        for seed in range(4):
            struck, report = simulated(layout, "error", seed, 1 + seed % 3, active_only, tmp_path / str(seed))
            sure = [f for f in report.roots() if f.confidence != "possible"]
            assert {r for f in sure for r in f.ranks} <= set(struck), brief(report.findings)
            exact += blamed(report) == struck
        assert exact >= 2

    def test_endless_kernels(self, layout: str, active_only: bool, tmp_path: Path) -> None:
        """All have entered, nobody completes: said to be undetermined, with the struck rank among the suspects."""
        for seed in range(3):
            struck, report = simulated(layout, "sleep", seed, 1, active_only, tmp_path / str(seed))
            for f in report.roots():
                assert set(struck) <= set(f.ranks) or f.confidence == "possible", brief(report.findings)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_jobs_that_end_well(layout: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    programs, groups = LAYOUTS[layout]()
    simulation = Simulation(programs, groups, chance)
    simulation.run({})
    for active_only, window in ((False, 2000), (False, 25), (True, 2000)):
        dumps = {
            r: simulation.dump_of(r, active_only=active_only, window=window + r) for r in range(len(programs))
        }  # fmt: skip
        assert loud(analyze(write(tmp_path / f"{active_only}-{window}", dumps))) == []


@pytest.mark.parametrize("layout", LAYOUTS)
class TestJobsThatRun:
    """Dumps of jobs in flight: ranks are on their way, nobody hangs."""

    def test_all_ranks_at_one_moment(self, layout: str, tmp_path: Path) -> None:
        """The files' times show that nobody has waited for long."""
        for seed in range(3):
            chance = random.Random(f"{layout} {seed}")
            programs, groups = LAYOUTS[layout]()
            simulation = Simulation(programs, groups, chance)
            simulation.run({}, most=chance.randrange(20, 90))
            dumps = {r: simulation.dump_of(r, active_only=False) for r in range(len(programs))}
            folder = write(tmp_path / str(seed), dumps)
            now = T0 + simulation.step * 1_000_000 + 50_000_000
            for path in Path(folder).iterdir():
                os.utime(path, ns=(now, now))
            report = analyze(folder)
            assert loud(report) == [], brief(report.findings)

    def test_one_rank_after_the_other(self, layout: str, tmp_path: Path) -> None:
        """What a rank completed, another has not entered in its older dump; the files' times are lost."""
        chance = random.Random(layout)
        programs, groups = LAYOUTS[layout]()
        simulation = Simulation(programs, groups, chance)
        dumps = {}
        for r in range(len(programs)):
            simulation.run({}, most=25 + 20 * r)
            dumps[r] = simulation.dump_of(r, active_only=False)
        report = analyze(write(tmp_path, dumps))
        assert loud(report) == [], brief(report.findings)

    def test_a_wait_of_seconds_is_a_hang(self, layout: str, tmp_path: Path) -> None:
        chance = random.Random(layout)
        programs, groups = LAYOUTS[layout]()
        simulation = Simulation(programs, groups, chance)
        simulation.run({0: Fault("host", 30)})
        folder = write(tmp_path, {r: simulation.dump_of(r, active_only=False) for r in range(len(programs))})
        late = T0 + simulation.step * 1_000_000 + 5_000_000_000
        for path in Path(folder).iterdir():
            os.utime(path, ns=(late, late))
        assert blamed(analyze(folder)) == [0]


# -- what others left behind --------------------------------------------------------


@pytest.mark.parametrize("name", ["gpu_error_1st", "lock_gil_1st"])
def test_injected_faults(name: str, shared: Path) -> None:
    """Sixteen ranks of a Megatron job with faults injected into some (see the folder's README for their source)."""
    folder = shared / "external" / "nvrx" / name
    if not folder.is_dir():
        pytest.skip("the dumps of other projects are not at hand")
    truth = (folder / "fault_injection.log").read_text(encoding="utf-8").splitlines()[0]
    report = analyze(str(folder))
    assert sorted({r for f in report.roots() for r in f.ranks}) == json.loads(truth.partition(":")[2])


def test_frames_of_cpp_are_passed_over(tmp_path: Path) -> None:
    stack = [frame("c10d::work", "ProcessGroupNCCL.cpp", 3000), frame("??", "??", 0),
             frame("all_reduce", "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 1),
             frame("sync", "/home/trainer/projects/lm/train.py", 44)]  # fmt: skip
    dumps = hang()
    for value in dumps.values():
        for e in value["entries"]:
            e["frames"] = stack
    (found,) = analyze(write(tmp_path, dumps)).roots()
    assert (found.code[0].line, found.code[0].function) == (44, "sync")
