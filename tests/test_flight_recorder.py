"""Flight-recorder dumps to records: every version and form, cut, damaged and hostile, and those of real ranks."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import textwrap
import time
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.cases import FIXTURES, brief
from tests.support.flight import dump, entry, torch_pickle
from tests.support.flight_folders import blamed, hang, write

from necropsy_parsers.flight import RETIRED, STATES, FlightDump
from necropsy_parsers.formats import flight_recorder
from necropsy_parsers.formats.flight_recorder import sniff
from necropsy_parsers.issues import Issues
from necropsy_parsers.sniff import sniff as claim_of
from necropsy_parsers.source import open_sources

from necropsy.api import analyze
from necropsy.evidence.flight_entries import user_frame

FORMATS: Final = sorted(p for p in (FIXTURES / "formats" / "flight_recorder").iterdir() if p.is_dir())
WORLD: Final = {"0": ("default_pg", [0, 1, 2, 3])}


def read(path: Path) -> tuple[list[FlightDump], list[str]]:
    """The dumps in a file or folder, and the kinds of issues."""
    issues = Issues()
    found: list[FlightDump] = []
    for source in open_sources([str(path)], issues):
        found += [r for r in flight_recorder.parse(source, issues, 0) if isinstance(r, FlightDump)]
    return found, [i.kind for i in issues.rows()]


# -- the format -------------------------------------------------------------------


@pytest.mark.parametrize("folder", FORMATS, ids=lambda p: p.name)
def test_records(folder: Path) -> None:
    expect = tomllib.loads((folder / "expect.toml").read_text(encoding="utf-8"))
    (path,) = folder.glob("nccl_trace_*")
    assert sniff(path.read_bytes()[:65536], path.name) == expect["reason"]
    dumps, issues = read(path)
    assert issues == expect.get("issues", [])
    if "rank" not in expect:
        assert dumps == []
        return
    (found,) = dumps
    e = found.entries
    calls = [found.calls[c] for c in e.call]
    stacks = [user_frame(found, i) for i in range(len(e))]
    assert {
        "rank": found.rank,
        "version": found.version,
        "groups": [str(g) for g in found.groups],
        "ops": [c.op for c in calls],
        "sequences": list(e.sequence),
        "types": [(c.input_types or ("",))[0] for c in calls],
        "sizes": [[list(s) for s in c.input_sizes] for c in calls],
        "states": ["retired" if s & RETIRED else STATES[s] for s in e.state],
        "lines": [f.line for f in stacks if f is not None],
    } == {k: v for k, v in expect.items() if k not in ("reason", "issues")}


class TestSniffing:
    def test_other_pickles_are_not_claimed(self) -> None:
        others: list[Any] = [{"state_dict": {"weight": [1.0]}, "version": 1}, [1, 2], {"entries": [1]}, {"epoch": 3}]
        for value in others:
            for protocol in range(2, 6):
                assert sniff(pickle.dumps(value, protocol), "model_3") is None
        assert claim_of(pickle.dumps({"weight": [1.0]}), "model_3") is None

    def test_other_json_is_not_claimed(self) -> None:
        trace = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "pg_config": [{"pg_name": "0"}]}}
        others: list[Any] = [trace, {"entries": [], "version": "2"}, [{"name": "x"}], {"traceEvents": []}]
        for value in others:
            assert sniff(json.dumps(value).encode(), "rank_0.json") is None

    @pytest.mark.parametrize("protocol", range(2, 6))
    def test_dumps_of_any_protocol_are(self, protocol: int) -> None:
        assert sniff(pickle.dumps(hang()[0], protocol), "x") == "pickle with the key pg_config"

    def test_without_entries(self) -> None:
        assert sniff(torch_pickle(dump([], WORLD)), "x")
        assert sniff(json.dumps(dump([], WORLD)).encode(), "x")

    def test_torch22(self) -> None:
        assert sniff(torch_pickle([{"pg_id": 0, "seq_id": 1, "profiling_name": "nccl:all_reduce"}]), "x")


class TestRank:
    @pytest.mark.parametrize(
        "name",
        ["nccl_trace_rank_3", "_dump_3", "comm_lib_trace_rank_3", "trace3", "node-7_nccl_trace_rank_3", "dump_3.json",
         "dump_3.pkl", "rank_3_of_16_trace", "host-1/rank3/trace"],
    )  # fmt: skip
    def test_from_the_name(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(torch_pickle(dump([entry(0, "all_reduce", 1)], {"0": ("default_pg", range(16))})))
        assert [d.rank for d in read(path)[0]] == [3]

    def test_a_send_tells_it(self, tmp_path: Path) -> None:
        groups = {"7": ("pp", [2, 6, 10, 14])}
        sends = [entry(0, "send 2->3", 1, is_p2p=True, p2p_seq_id=1, process_group=("7", "pp"))]
        receives = [entry(0, "recv 3<-2", 1, is_p2p=True, p2p_seq_id=1, process_group=("7", "pp"))]
        write(tmp_path, {0: dump(sends, groups), 1: dump(receives, groups)}, "local_{}")
        assert [d.rank for d in read(tmp_path)[0]] == [10, 14]

    def test_groups_tell_it(self, tmp_path: Path) -> None:
        groups = {"0": ("default_pg", range(8)), "1": ("tp", [4, 5]), "2": ("dp", [1, 5])}
        write(tmp_path, {0: dump([entry(0, "all_reduce", 1)], groups)}, "local_{}")
        assert [d.rank for d in read(tmp_path)[0]] == [5]

    def test_a_number_that_is_no_rank(self, tmp_path: Path) -> None:
        write(tmp_path, {20250611: dump([entry(0, "all_reduce", 1)], {"0": ("default_pg", range(8))})}, "dump_{}")
        dumps, issues = read(tmp_path)
        assert [d.rank for d in dumps] == [None]
        assert issues == ["flight/no-rank"]


class TestDamage:
    """Whatever a dump holds: issues, never an exception."""

    def test_cut_json(self, tmp_path: Path) -> None:
        text = json.dumps(dict(sorted(hang()[0].items(), reverse=True))).encode()
        most = 0
        for end in range(2, len(text), 7):
            path = tmp_path / "trace_0"
            path.write_bytes(text[:end])
            dumps, issues = read(path)
            assert "flight/cut" in issues
            most = max([most, *(len(d.entries) for d in dumps)])
        assert most == 5

    def test_cut_dumps_blame_nobody_else(self, tmp_path: Path) -> None:
        """A rank whose newest entries are lost is not absent because they are."""
        whole = hang(missing=(2,), done=30)
        data = {r: torch_pickle(d) for r, d in whole.items()}
        for share in (0.3, 0.6, 0.9):
            changed = data | {1: data[1][: int(len(data[1]) * share)]}
            report = analyze(write(tmp_path / str(share), changed))
            assert blamed(report) == [2], brief(report.findings)
            assert {i.kind for i in report.issues} >= {"flight/cut"}

    @pytest.mark.parametrize("seed", range(6))
    def test_anything_anywhere(self, seed: int, tmp_path: Path) -> None:
        chance = random.Random(seed)
        odd: list[Any] = [None, True, -1, 2**63, 1.5, "", "\x1b[31mred", "9" * 5000, [], {}, [[]], ["a", "b"],
               [[["x"]]], {"ranks": "0"}, [None] * 3, ("0", "1")]  # fmt: skip
        for i in range(60):
            value: Any = hang()[0]
            value["pg_status"] = {"0": {"last_enqueued_collective": 5}}
            for _ in range(chance.randint(1, 4)):
                spot = chance.choice([value, value["pg_config"], chance.choice(value["entries"])])
                if isinstance(spot, dict) and spot:
                    spot[chance.choice(list(spot))] = deepcopy(chance.choice(odd))
                if not (
                    isinstance(value["pg_config"], dict) and isinstance(value["entries"], list) and value["entries"]
                ):
                    break
            write(tmp_path / str(i), {**hang(), 0: pickle.dumps(value, 4), 1: json.dumps(value, default=list).encode()})
            json.dumps(analyze(str(tmp_path / str(i))).to_json()).encode("utf-8")

    def test_a_refused_dump_is_an_issue(self) -> None:
        report = analyze(str(FIXTURES / "formats" / "flight_recorder" / "hostile" / "nccl_trace_rank_0"))
        assert [(i.kind, i.level) for i in report.issues] == [("pickle/refused", "error")]
        assert "DST025" in {n.rule for n in report.not_evaluated}
        assert not Path("made-by-a-dump").exists()

    def test_very_many_references(self, tmp_path: Path) -> None:
        """An entry that stands in the list a million times, with shapes that stand in it thousands of times."""
        shape = b"](" + b"K\x01" * 500 + b"eq\xf0"
        one = torch_pickle(entry(0, "all_reduce", 1))[2:-1] + b"q\xf1"
        key = b"X\x07\x00\x00\x00entries"
        data = b"\x80\x02}(X\x09\x00\x00\x00pg_config}" + key + b"](" + shape + one + b"h\xf1" * 1_000_000 + b"eu."
        (tmp_path / "trace_0").write_bytes(data)
        dumps, issues = read(tmp_path / "trace_0")
        assert len(dumps[0].entries) == 200_000
        assert "flight/entry" in issues


# -- real jobs --------------------------------------------------------------------

SCRIPT: Final = """
    import os, time
    import torch, torch.distributed as dist
    from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

    def sync(value):
        return dist.all_reduce(value, async_op=True)  # waits here

    rank, world, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["TRACE_DIR"]
    meeting = "file://" + os.path.join(folder, "meeting")
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    for step in range(3):
        sync(torch.ones(4)).wait()
    works = [] if rank == 1 else [sync(torch.ones(4))]
    time.sleep(1)
    for name, dump in (("pickle/trace_rank_", _dump_fr_trace), ("json/trace_rank_", _dump_fr_trace_json)):
        with open(os.path.join(folder, name + str(rank)), "wb") as file:
            file.write(dump())
    open(os.path.join(folder, f"done_{rank}"), "w").close()
    while len([n for n in os.listdir(folder) if n.startswith("done_")]) < world:
        time.sleep(0.05)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dumps of three real ranks, of which one skipped a collective."""
    folder = tmp_path_factory.mktemp("live")
    for form in ("pickle", "json"):
        (folder / form).mkdir()
    script = folder / "train.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    base = os.environ | {"WORLD_SIZE": "3", "TRACE_DIR": str(folder), "TORCH_FR_BUFFER_SIZE": "100"}
    ranks = [
        subprocess.Popen([sys.executable, str(script)], env=base | {"RANK": str(r)}, stderr=subprocess.PIPE)
        for r in range(3)
    ]
    end = time.monotonic() + 120
    for process in ranks:
        _, errors = process.communicate(timeout=max(1, end - time.monotonic()))
        assert process.returncode == 0, errors.decode("utf-8", "replace")
    return folder


@pytest.mark.xdist_group("live-flight-recorder")
class TestLive:
    @pytest.mark.parametrize("form", ["pickle", "json"])
    def test_the_rank_that_skipped(self, live: Path, form: str) -> None:
        report = analyze(str(live / form))
        assert [i.format for i in report.inputs] == ["flight_recorder"] * 3
        assert blamed(report) == [1], brief(report.findings)
        assert report.issues == []

    def test_its_line(self, live: Path) -> None:
        (found,) = analyze(str(live / "pickle")).roots()
        line = next(n for n, text in enumerate(textwrap.dedent(SCRIPT).splitlines(), 1) if "# waits here" in text)
        assert (Path(found.code[0].file).name, found.code[0].line, found.code[0].function) == ("train.py", line, "sync")

    def test_both_forms_say_the_same(self, live: Path) -> None:
        pickles, _ = read(live / "pickle")
        texts, _ = read(live / "json")
        for a, b in zip(pickles, texts, strict=True):
            assert (a.rank, a.version, a.groups, a.calls, a.status) == (b.rank, b.version, b.groups, b.calls, b.status)
            for column in ("record", "group", "sequence", "p2p", "state", "created", "completed"):
                assert getattr(a.entries, column) == getattr(b.entries, column)

    def test_torch_reads_the_same(self, live: Path) -> None:
        for path in (live / "pickle").iterdir():
            (found,), _ = read(path)
            theirs = pickle.loads(path.read_bytes())["entries"]
            assert [e["record_id"] for e in theirs] == list(found.entries.record)
            assert [e["profiling_name"].partition(":")[2] for e in theirs] == [
                found.calls[c].op for c in found.entries.call
            ]
