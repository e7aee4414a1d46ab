"""Summaries of ncu (`--print-summary per-kernel` and `per-gpu`): one row a kernel, with means and how many launches."""

from __future__ import annotations

from pathlib import Path

import pytest

import necropsy
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels

TABLE = """\
    Section: {section}
    Metric Name                                            Metric Unit Minimum  Maximum  Average
    ------------------------------------------------------ ----------- -------- -------- --------
    {metric} {unit:11} {low:8} {high:8} {mean:8}

"""
OLD = "  add_kernel(float *, int), Block Size 128, Grid Size 64, Device 0, 12 invocations \n"
NEW = "  add_kernel(float *, int) (64, 1, 1)x(128, 1, 1), Device 0, CC 9.0, Invocations 12\n"
PER_GPU = "    add_kernel(float *, int), Block Size 128, Grid Size 64, 12 invocations \n"
COLUMNS = '"Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"'


def rows(path: Path) -> list[NcuKernel]:
    return necropsy.load(str(path)).get(NcuKernels).rows


def page(head: str, first: str = "") -> str:
    time = f"{'gpu__time_duration.sum':54}"
    peak = f"{'sm__throughput.avg.pct_of_peak_sustained_elapsed':54}"
    return (
        "[77] python3.12@127.0.0.1\n" + first
        + head + TABLE.format(section="GPU Speed Of Light Throughput", metric=time, unit="usecond", low="1.00",
                              high="9.00", mean="2.50")
        + head + TABLE.format(section="Occupancy", metric=peak, unit="%", low="10.00", high="30.00", mean="21.00")
    )  # fmt: skip


@pytest.mark.parametrize(("head", "first"), [(OLD, ""), (NEW, ""), (PER_GPU, "  Device 0\n")])
def test_a_kernel_of_a_text_is_one_row_of_means(tmp_path: Path, head: str, first: str) -> None:
    path = tmp_path / "summary.txt"
    path.write_text(page(head, first))
    (row,) = rows(path)
    assert (row.function, row.runs, row.blocks, row.threads, row.process) == ("add_kernel", 12, 64, 128, 77)
    assert (row.ns, row.pct("sm")) == (2500, 21)
    assert {"SpeedOfLight", "Occupancy"} <= set(row.sections)


def test_a_text_in_the_middle_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("epoch 1 loss 0.31\n" * 3 + page(OLD) + "==PROF== Disconnected from process 77\n")
    (row,) = rows(path)
    assert (row.function, row.runs, row.ns, row.anchor.line) == ("add_kernel", 12, 2500, 5)


@pytest.mark.parametrize(
    ("columns", "cells"),
    [
        ('"Kernel Name","Block Size","Grid Size","Device Id","Invocations"', '"add_kernel(int)","128","64","0","12"'),
        (
            '"Kernel Name","Block Size","Grid Size","Device","CC","Invocations"',
            '"add_kernel(int)","(128, 1, 1)","(64, 1, 1)","0","9.0","12"',
        ),
        ('"Device Id","Kernel Name","Block Size","Grid Size","Invocations"', '"0","add_kernel(int)","128","64","12"'),
    ],
)
def test_a_kernel_of_a_csv_is_one_row_of_means(tmp_path: Path, columns: str, cells: str) -> None:
    who = '"77","python3.12","127.0.0.1"'
    path = tmp_path / "summary.csv"
    path.write_text(
        f'"Process ID","Process Name","Host Name",{columns},{COLUMNS}\n'
        f'{who},{cells},"GPU Speed Of Light Throughput","Duration","us","1.00","9.00","2.50"\n'
        f'{who},{cells},"GPU Speed Of Light Throughput","Compute (SM) Throughput","%","10.00","30.00","21.00"\n'
        f'{who},{cells.replace("add", "mul")},"GPU Speed Of Light Throughput","Duration","us","1.00","9.00","3.50"\n'
    )
    add, mul = rows(path)
    assert (add.function, add.runs, add.blocks, add.threads, add.device) == ("add_kernel", 12, 64, 128, 0)
    assert (add.ns, add.pct("sm"), mul.function, mul.ns) == (2500, 21, "mul_kernel", 3500)


def test_launches_without_numbers_but_other_grids_are_apart(tmp_path: Path) -> None:
    path = tmp_path / "summary.csv"
    head = f'"Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","Invocations",{COLUMNS}\n'
    row = '"77","python3.12","127.0.0.1","add_kernel(int)","128","{}","2","","Duration","us","1.00","9.00","2.50"\n'
    path.write_text(head + row.format(64) + row.format(32))
    assert [r.blocks for r in rows(path)] == [64, 32]
