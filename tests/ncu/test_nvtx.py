"""NVTX ranges as ncu 2022.3 prints them in text and CSV: domains, payloads, colours, quotes, renamed kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy_parsers.ncu.records import NvtxRange

import necropsy
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels

PUSH = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
START = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
NONE = ":none" * 6
PAGE = """\
[77] python3.12@127.0.0.1
  {kernel} (64, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0

    NVTX Start/End Ranges:
      loader
        <11,prefetch>
      <default domain>
        <12,whole run>

    NVTX Push/Pop Stack for Thread 4410:
     <default domain>
        <0,epoch 3>
        <1,src/net.py:41>
     ops, fused
        <0,gelu>
          Int64: 42
          RGB: 0xff00ff00
          ASCII: gelu
        <1,a <b, c> d>
          REGISTERED: a <b, c> d
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Duration                         us        12.48
    ----------------------- ----------- ------------
"""
RANGES = {
    NvtxRange("loader", "prefetch", "start"),
    NvtxRange("", "whole run", "start"),
    NvtxRange("", "epoch 3", "push"),
    NvtxRange("", "src/net.py:41", "push"),
    NvtxRange("ops, fused", "gelu", "push"),
    NvtxRange("ops, fused", "a <b, c> d", "push"),
}


def rows(path: Path) -> list[NcuKernel]:
    return necropsy.load(str(path)).get(NcuKernels).rows


def csv_of(push: str, start: str, kernel: str = "add_kernel(float *, int)", more: str = "") -> str:
    return (
        f'"ID","Process ID","Process Name","Host Name","{PUSH}","{START}","Kernel Name","gpu__time_duration.sum"\n'
        '"","","","","","","","us"\n'
        f'"0","77","python3.12","127.0.0.1","{push}","{start}","{kernel}","12.48"\n{more}'
    )


@pytest.mark.parametrize("kernel", ["add_kernel(float *, int)", "src/net.py:41/add_kernel(float *, int)"])
def test_stacks_of_a_page(tmp_path: Path, kernel: str) -> None:
    path = tmp_path / "page.txt"
    path.write_text(PAGE.format(kernel=kernel))
    (row,) = rows(path)
    assert set(row.ranges) == RANGES
    assert (row.kernel, row.function, row.ns) == ("add_kernel(float *, int)", "add_kernel", 12480)
    assert row.place is not None
    assert (row.place.file, row.place.line) == ("src/net.py", 41)


def test_cells_of_a_csv_tell_the_same(tmp_path: Path) -> None:
    push = (
        f'4410  ""<default domain>:epoch 3{NONE}""  ""<default domain>:src/net.py:41{NONE}""'
        '  ""ops, fused:gelu:Int64:42:RGB:0xff00ff00:ASCII:gelu""'
        '  ""ops, fused:a <b, c> d:none:none:none:none:REGISTERED:a <b, c> d"" '
    )
    start = f' ""11:loader:prefetch{NONE}""  ""12:<default domain>:whole run{NONE}"" '
    path = tmp_path / "raw.csv"
    path.write_text(csv_of(push, start, "src/net.py:41/add_kernel(float *, int)"))
    (row,) = rows(path)
    assert set(row.ranges) == RANGES
    assert row.kernel == "add_kernel(float *, int)"


@pytest.mark.parametrize("name", ['load "train"', 'the 5" one', "a, b", '","'])
def test_quotes_within_a_name_cost_no_row(tmp_path: Path, name: str) -> None:
    """Ncu does not double them, so that the row is no CSV."""
    path = tmp_path / "raw.csv"
    more = '"1","77","python3.12","127.0.0.1","","","mul_kernel(int)","3.00"\n'
    path.write_text(csv_of(f'4410  ""<default domain>:{name}{NONE}"" ', "", more=more))
    found = rows(path)
    assert [r.function for r in found][-1] == "mul_kernel"
    if name != '","':  # this one cannot be told from the end of a cell
        assert [r.ns for r in found] == [12480, 3000]
        assert [r.name for r in found[0].ranges] == [name]
