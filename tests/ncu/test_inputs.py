"""The same launches from a report, its raw CSV, its details CSV and its text: the same rows."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from necropsy_parsers.ncu.decode import available

import necropsy
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRules

FORMATS = Path(__file__).resolve().parents[2] / "fixtures" / "formats"
REPORT = FORMATS / "ncu_report" / "h200" / "report.ncu-rep.xz"
RAW = FORMATS / "ncu_csv" / "h200" / "raw.csv.gz"
DETAILS = FORMATS / "ncu_csv" / "h200" / "details.csv.gz"
TEXT = FORMATS / "ncu_page" / "h200" / "details.txt.gz"
SAME = (
    "function",
    "grid",
    "block",
    "device",
    "capability",
    "process",
    "program",
    "context",
    "stream",
    "workload",
)


def rows(path: Path) -> list[NcuKernel]:
    return necropsy.load(str(path)).get(NcuKernels).rows


def differ(a: NcuKernel, b: NcuKernel, tolerance: float) -> list[str]:
    """What two rows of one launch do not agree on."""
    found = [name for name in SAME if getattr(a, name) != getattr(b, name)]
    for name in a.metrics.keys() & b.metrics.keys():
        one, other = a.metrics[name], b.metrics[name]
        if abs(one - other) > tolerance * max(abs(one), abs(other)) + 0.006:
            found.append(f"{name}: {one} {other}")
    return found


def test_report_and_raw_csv_are_the_same_rows() -> None:
    if not available():
        assert not rows(REPORT)  # said as an issue: test_report.py
        return
    report, raw = rows(REPORT), rows(RAW)
    assert [r.number for r in report] == list(range(7))
    assert [len(r.metrics) for r in report] == [len(r.metrics) for r in raw]
    assert [differ(a, b, 1e-5) for a, b in zip(report, raw, strict=True)] == [[]] * 7
    told = {"SpeedOfLight", "LaunchStats", "Occupancy", "SchedulerStats", "WarpStateStats", "ComputeWorkloadAnalysis"}
    assert all(told <= set(r.sections) for r in (*raw, *report))


def test_details_csv_and_text_are_the_same_rows() -> None:
    details, text = rows(DETAILS), rows(TEXT)
    assert len(details) == len(text) == 5
    for a, b in zip(details, text, strict=True):
        assert (a.kernel, a.metrics, a.sections) == (b.kernel, b.metrics, b.sections)
        assert differ(a, b, 0) == []


def test_text_carries_python_stacks_and_csv_does_not() -> None:
    assert [r.place and (r.place.line, r.place.exactness) for r in rows(TEXT)] == [
        (11, "line"), (15, "line"), (19, "line"), (23, "line"), (27, "line"),
    ]  # fmt: skip
    assert [r.place for r in rows(DETAILS)] == [None] * 5


def test_advice_is_the_same_in_csv_and_text() -> None:
    csv_rules = necropsy.load(str(DETAILS)).get(NcuRules).rows
    text_rules = necropsy.load(str(TEXT)).get(NcuRules).rows
    one = [(r.number, r.section, r.kind, r.global_gain, r.local_gain) for r in csv_rules]
    other = [(r.number, r.section, r.kind, r.global_gain, r.local_gain) for r in text_rules]
    numbers = {n: i for i, n in enumerate(dict.fromkeys(n for n, *_ in one))}
    assert [(numbers[n], *rest) for n, *rest in one] == other
    assert {r.rule for r in text_rules} == {""}
    assert any(r.local_gain for r in text_rules)
    assert all(r.global_gain is None or r.local_gain is None for r in text_rules)


def test_times_are_nanoseconds() -> None:
    (gemm,) = (r for r in rows(TEXT) if r.function.startswith("nvjet"))
    assert gemm.ns == pytest.approx(176_030)
    assert gemm.value("dram__bytes.sum.per_second") == pytest.approx(1.0e12)
    assert gemm.value("launch__shared_mem_per_block_dynamic") == pytest.approx(213_190)
    assert gemm.active == pytest.approx(267_243.96 / 285_289)


def test_not_collected_is_not_zero() -> None:
    row = rows(TEXT)[0]
    assert row.value("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed") is None
    assert row.stalls == {}
    assert not row.has("SpeedOfLight", "NoSuchSection")


@pytest.mark.parametrize("what", ["commas", "units"])
def test_pages_in_other_locales_and_old_units_are_the_same_rows(tmp_path: Path, what: str) -> None:
    text = gzip.decompress(TEXT.read_bytes()).decode()
    if what == "commas":  # what ncu of a German locale writes
        swap = str.maketrans(",.", ".,")
        lines = [
            line[:-16] + line[-16:].translate(swap)
            if line.startswith("    ") and line[-1:].isdigit() and "  " in line
            else line
            for line in text.split("\n")
        ]
        text = "\n".join(line for line in lines)
    else:  # what ncu before 2023 writes, in the same columns
        text = text.replace("         us ", "    usecond ")
    path = tmp_path / "page.txt"
    path.write_text(text, encoding="utf-8")
    wanted = rows(TEXT)
    assert [r.metrics for r in rows(path)] == [r.metrics for r in wanted]


def test_a_page_in_the_middle_of_a_log_is_the_same_row(tmp_path: Path) -> None:
    page = gzip.decompress(TEXT.read_bytes()).decode()
    before = "".join(f"step {i} loss {1 / (i + 1):.4f}\n" for i in range(400))
    path = tmp_path / "run.log"
    path.write_text(before + page + "done\n", encoding="utf-8")
    found = rows(path)
    assert [(r.kernel, r.metrics, r.stack) for r in found] == [(r.kernel, r.metrics, r.stack) for r in rows(TEXT)]
    assert found[0].anchor.line == 402


@pytest.mark.parametrize(
    "dressed",
    [
        lambda t: t.replace("\n", "\r\n").encode(),
        lambda t: t.encode("utf-16"),  # PowerShell's `>`
        lambda t: "\n".join(f"    {line}" for line in t.split("\n")).encode(),  # pasted into Markdown
        lambda t: "\n".join(line.rstrip() for line in t.split("\n")).encode(),
        lambda t: "\n".join(line.removeprefix("  ") for line in t.split("\n")).encode(),
        lambda t: "\n".join(f"0: {line}" for line in (30 * "start\n" + t).split("\n")).encode(),  # srun -l
        lambda t: "\n".join(f"[1,0]<stdout>:{line}" for line in t.split("\n")).encode(),  # mpirun
        lambda t: t.replace("Est. Speedup", "Estimated Speedup").encode(),
    ],
    ids=["CRLF", "UTF-16", "Markdown", "trimmed", "unindented", "srun", "mpirun", "2022"],
)
def test_pages_as_people_hand_them_over(tmp_path: Path, dressed: Callable[[str], bytes]) -> None:
    path = tmp_path / "page.txt"
    path.write_bytes(dressed(gzip.decompress(TEXT.read_bytes()).decode()))
    wanted, found = necropsy.load(str(TEXT)), necropsy.load(str(path))
    assert [(r.kernel, r.metrics, r.stack) for r in found.get(NcuKernels)] == [
        (r.kernel, r.metrics, r.stack) for r in wanted.get(NcuKernels)
    ]
    assert [(r.message, r.global_gain) for r in found.get(NcuRules)] == [
        (r.message, r.global_gain) for r in wanted.get(NcuRules)
    ]


def test_summary_pages_are_means(tmp_path: Path) -> None:
    head = "  k(int) (16, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0, Invocations 12\n"
    dashes = "    ---------------------- ----------- ------- ------- -------\n"
    path = tmp_path / "page.txt"
    path.write_text(
        head + "    Section: Command line profiler metrics\n" + dashes
        + "    Metric Name            Metric Unit Minimum Maximum Average\n" + dashes
        + "    gpu__time_duration.sum          us   10.11   14.50   12.25\n"
        + "    sm__inst_executed.sum         inst     n/a     n/a (!) nan\n" + dashes
    )  # fmt: skip
    (row,) = rows(path)
    assert (row.ns, row.runs, dict(row.metrics)) == (12_250, 12, {"gpu__time_duration.sum": 12_250})


def test_a_csv_in_the_middle_of_a_log_is_the_same_row(tmp_path: Path) -> None:
    table = gzip.decompress(RAW.read_bytes()).decode()
    path = tmp_path / "run.log"
    path.write_text("epoch 1\nepoch 2\n" + table + "epoch 3\n", encoding="utf-8")
    assert [r.metrics for r in rows(path)] == [r.metrics for r in rows(RAW)]


@pytest.mark.parametrize("keep", [0.6, 0.77, 0.999])
@pytest.mark.parametrize("source", [RAW, DETAILS, TEXT])
def test_what_is_cut_keeps_what_stands_before(tmp_path: Path, source: Path, keep: float) -> None:
    data = gzip.decompress(source.read_bytes())
    path = tmp_path / source.name.removesuffix(".gz")
    path.write_bytes(data[: int(keep * len(data))])
    whole, cut = rows(source), rows(path)
    assert 0 < len(cut) <= len(whole)
    assert [r.kernel for r in cut] == [r.kernel for r in whole[: len(cut)]]
    assert all(r.metrics.items() <= w.metrics.items() for r, w in list(zip(cut, whole, strict=False))[:-1])


def test_a_spreadsheet_saved_it_with_semicolons(tmp_path: Path) -> None:
    import csv

    table = list(csv.reader(gzip.decompress(RAW.read_bytes()).decode().splitlines()))
    path = tmp_path / "raw.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows(table)
    assert [r.metrics for r in rows(path)] == [r.metrics for r in rows(RAW)]


def test_nvtx_ranges_of_a_csv_name_lines(tmp_path: Path) -> None:
    column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    rest = ":none" * 6
    value = f'77  ""<default domain>:epoch 3{rest}""  ""<default domain>:src/net.py:41{rest}"" '
    path = tmp_path / "raw.csv"
    path.write_text(
        f'"ID","Process ID","Process Name","Host Name","{column}","Kernel Name","gpu__time_duration.sum"\n'
        '"","","","","","","us"\n'
        f'"0","77","python3.12","127.0.0.1","{value}","add_kernel(float *)","3.5"\n'
    )
    (row,) = rows(path)
    assert [r.name for r in row.ranges] == ["epoch 3", "src/net.py:41"]
    assert row.place is not None
    assert (row.place.file, row.place.line, row.place.how) == ("src/net.py", 41, "capture mark")
    assert row.ns == 3500


def test_what_was_not_collected_is_listed_with_its_option(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_text(
        '"ID","Process ID","Process Name","Host Name","Kernel Name","gpu__time_duration.sum"\n'
        '"","","","","","us"\n"0","77","python3.12","127.0.0.1","add_kernel(float *)","3.5"\n'
    )
    lacks = {row.rule: row for row in necropsy.api.analyze(str(path)).not_evaluated}
    assert lacks["KRN002"].missing == "grids of the launches"
    assert "--section LaunchStats" in lacks["KRN002"].supply


@pytest.mark.parametrize("before", ["", "epoch 1 loss 0.31\n"])
def test_a_page_whose_indentation_was_lost_is_the_same(tmp_path: Path, before: str) -> None:
    whole, lost = tmp_path / "whole.txt", tmp_path / "lost.txt"
    text = gzip.decompress(TEXT.read_bytes()).decode()
    whole.write_text(text)
    lost.write_text(before + "\n".join(line.strip() for line in text.splitlines()) + "\n")
    a, b = (necropsy.load(str(path)) for path in (whole, lost))
    assert [(r.function, r.metrics, r.stack) for r in a.get(NcuKernels).rows] == [
        (r.function, r.metrics, r.stack) for r in b.get(NcuKernels).rows
    ]
    assert [r.message for r in a.get(NcuRules).rows] == [r.message for r in b.get(NcuRules).rows]


def test_values_of_instances_stand_behind_the_value(tmp_path: Path) -> None:
    csv_path, page = tmp_path / "raw.csv", tmp_path / "raw.txt"
    name = "memory_l2_theoretical_sectors_global"
    csv_path.write_text(
        f'"ID","Process ID","Process Name","Host Name","Kernel Name","gpu__time_duration.sum","{name}"\n'
        f'"","","","","","us",""\n"0","77","python3.12","127.0.0.1","add_kernel(int)","3.5","96 (32; 64)"\n'
    )
    page.write_text(
        "[77] python3.12@127.0.0.1\n  add_kernel(int) (4, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 9.0\n"
        f"  {'Metric Name':36} Metric Unit Metric Value\n  {'-' * 36} ----------- ------------\n"
        f"  {name:36}              96 (32; 64;\n  {'':36}                  0; 0)\n"
        f"  {'gpu__time_duration.sum':36}          us         3.50\n  {'-' * 36} ----------- ------------\n"
    )
    for path in (csv_path, page):
        (row,) = rows(path)
        assert (row.value(name), row.ns) == (96, 3500), path.name


@pytest.mark.parametrize("label", ["Duration gpu__time_duration.sum", "Duration (gpu__time_duration.sum)"])
def test_labels_with_their_names(tmp_path: Path, label: str) -> None:
    path = tmp_path / "details.csv"
    path.write_text(
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Section Name","Metric Name","Metric Unit",'
        '"Metric Value"\n'
        f'"0","77","python3.12","127.0.0.1","add_kernel(int)","GPU Speed Of Light Throughput","{label}","us","3.5"\n'
    )
    (row,) = rows(path)
    assert row.ns == 3500


def test_a_head_that_is_no_csv_costs_its_table_only(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(
        b'epoch 1\n"ID","Process ID",x\ry,"Kernel Name"\n"0","77","k(int)"\n\nepoch 2\n'
        b'"ID","Process ID","Process Name","Host Name","Kernel Name","gpu__time_duration.sum"\n'
        b'"","","","","","us"\n"0","77","python3.12","127.0.0.1","add_kernel(int)","3.5"\n'
    )
    assert [r.function for r in rows(path)] == ["add_kernel"]
