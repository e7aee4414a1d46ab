"""Traces read by several processes: the same report as one process gives, whatever becomes of a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.support.tracing import TraceBuilder

from necropsy_parsers.formats import kineto

import necropsy.workers
from necropsy.api import Loaded, analyze
from necropsy.config import Config
from necropsy.evidence.traces import Traces
from necropsy.render import View, renderers


def folder_of_ranks(place: Path, ranks: int = 3) -> Path:
    """A folder with a trace a rank, a damaged one and a log among them."""
    for rank in range(ranks):
        t = TraceBuilder(rank=rank, world=ranks)
        with t.frame("train_tagger.py(61): main"):
            for n in range(4):
                with t.step(n), t.op("aten::mm"):
                    t.launch("nvjet_tst_128x256", us=2000)
        t.write(place / f"rank{rank}.json")
    whole = (place / "rank0.json").read_bytes()
    (place / "rank9.json").write_bytes(whole[: len(whole) // 2])
    (place / "run.log").write_text("step 1 loss 0.5\n")
    return place


def told(place: Path, jobs: int) -> str:
    report = analyze(str(place), config=Config(jobs=jobs))
    return renderers()["json"].render(report, View())


def test_several_processes_tell_the_same(tmp_path: Path) -> None:
    place = folder_of_ranks(tmp_path)
    assert told(place, 3) == told(place, 1)
    assert "trace/cut" in told(place, 3)


def test_columns_arrive_as_they_were(tmp_path: Path) -> None:
    place = folder_of_ranks(tmp_path)
    alone, together = (Loaded([str(place)], Config(jobs=n)).evidence.get(Traces).traces for n in (1, 2))
    for a, b in zip(alone, together, strict=True):
        assert a.meta == b.meta and a.names == b.names and a.texts == b.texts and a.losses == b.losses
        assert list(a.kinds) == list(b.kinds)
        for kind, columns in a.kinds.items():
            assert len(columns) == len(b.kinds[kind])
            for name, array in columns.arrays.items():
                assert np.array_equal(array, b.kinds[kind][name]) and array.dtype == b.kinds[kind][name].dtype


def test_a_worker_that_dies_costs_its_own_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder_of_ranks(tmp_path)

    parse = kineto.parse

    def deadly(source, issues, seq):  # type: ignore[no-untyped-def]
        if source.name.endswith("rank1.json"):
            os.kill(os.getpid(), signal.SIGKILL)
        return parse(source, issues, seq)

    monkeypatch.setattr(kineto, "parse", deadly)
    # Forked workers have the patch; where a test runner has threads, they would be spawned without it.
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    report = analyze(str(place), config=Config(jobs=2))
    lost = [i.input for i in report.issues if i.kind == "trace/worker"]
    assert [Path(p).name for p in lost] == ["rank1.json"]
    assert sum(row.records for row in report.inputs if row.format == "kineto") == 3


INTERRUPTED = """
import sys, time
from necropsy.api import analyze
from necropsy.config import Config
from necropsy_parsers.formats import kineto

def parse(source, issues, seq):
    print("reading", flush=True)
    time.sleep(40)

kineto.parse = parse
try:
    analyze(sys.argv[1], config=Config(jobs=2))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_ends_the_workers(tmp_path: Path) -> None:
    place = folder_of_ranks(tmp_path / "ranks")
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    with subprocess.Popen([sys.executable, str(script), str(place)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("reading")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()  # ends when the last worker closes it
        assert rest.endswith("interrupted\n")
        assert time.monotonic() - began < 20
    assert process.returncode == 0


def test_small_folders_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(necropsy.workers, "pool", None)
    assert json.loads(told(folder_of_ranks(tmp_path), 0))["inputs"]
