"""Damaged and odd traces: the other events are kept, the loss is counted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.tracing import TraceBuilder

from necropsy_parsers.formats import kineto
from necropsy_parsers.issues import Issues, ParseIssue
from necropsy_parsers.source import open_sources
from necropsy_parsers.trace.model import Trace

KERNEL = (
    '{"ph": "X", "cat": "kernel", "name": "k%d", "pid": 0, "tid": 7, "ts": %s, "dur": 2.5, '
    '"args": {"correlation": %d%s}}'
)


def document(*events: str, head: str = '"schemaVersion": 1, ', tail: str = "") -> bytes:
    return (f'{{{head}"traceEvents": [\n  ' + ",\n  ".join(events) + f"\n  ]{tail}\n}}\n").encode()


def kernel(n: int, ts: str | None = None, more: str = "") -> str:
    return KERNEL % (n, ts or f"{100 + 10 * n}.125", n, more)


def read(data: bytes, tmp_path: Path, name: str = "trace.json") -> tuple[Trace, list[ParseIssue]]:
    path = tmp_path / name
    path.write_bytes(data)
    issues = Issues()
    (source,) = open_sources([str(path)], issues)
    assert kineto.sniff(source.head(), source.name)
    (trace,) = kineto.parse(source, issues, 0)
    assert isinstance(trace, Trace)
    return trace, issues.rows()


def kernels(trace: Trace) -> list[str]:
    rows = trace.kinds.get("kernel")
    return [trace.names[n] for n in rows["name"]] if rows is not None else []


def counts(issues: list[ParseIssue]) -> dict[str, int]:
    return {i.kind: i.count for i in issues}


ARGUMENTS = {
    "NaN": ', "memory bandwidth (GB/s)": NaN',
    "Infinity": ', "memory bandwidth (GB/s)": Infinity',
    "inf as C++ prints it": ', "memory bandwidth (GB/s)": inf',
    "minus nan": ', "memory bandwidth (GB/s)": -nan',
    "a bare N/A": ', "blocks per SM": N/A',
    "an empty value": ', "blocks per SM": ',
    "a trailing comma": ', "blocks per SM": 1,',
    "a bad escape": r', "kernel_file": "C:\dev\kernels\a.py"',
    "a lone surrogate": r', "kernel_file": "\ud83d"',
    "a line feed in a string": ', "kernel_file": "a\nb"',
    "quotes in a string": ', "kernel_file": "a "quoted" b"',
}


@pytest.mark.parametrize("more", ARGUMENTS.values(), ids=ARGUMENTS)
def test_one_bad_argument_costs_nothing_else(more: str, tmp_path: Path) -> None:
    trace, issues = read(document(kernel(0), kernel(1, more=more), kernel(2)), tmp_path)
    assert kernels(trace) == ["k0", "k1", "k2"]
    assert trace.kinds["kernel"]["correlation"].tolist() == [0, 1, 2]
    assert "trace/dropped" not in counts(issues)


NAMES = {
    "quotes": ('{"device": "cpu", "dtype": "float32"}(12): run', '{"device": "cpu", "dtype": "float32"}(12): run'),
    "control characters": ("f\x07\x1b[31m", "f  [31m"),
    "a NUL": ("a\x00b", "a b"),
    "a tab": ("a\tb", "a b"),
    "backslashes": ("C:\\dir\\train.py(3): f", "C:\\dir\\train.py(3): f"),
    "what looks like a boundary": ('x"}, {"name": "y', None),
}


@pytest.mark.parametrize(("written", "shown"), NAMES.values(), ids=NAMES)
def test_names_that_are_no_json_strings(written: str, shown: str | None, tmp_path: Path) -> None:
    bad = kernel(1).replace("k1", written)
    trace, issues = read(document(kernel(0), bad, kernel(2)), tmp_path)
    found = kernels(trace)
    assert found[0] == "k0"
    assert found[-1] == "k2"
    if shown is not None:
        assert found[1].replace("\t", " ").replace("\x00", " ").replace("\x07", " ").replace("\x1b", " ") == shown
        assert counts(issues) == {"trace/repaired": 1}


def test_invalid_utf8(tmp_path: Path) -> None:
    data = document(kernel(0), kernel(1).replace("k1", "kXX"), kernel(2)).replace(b"XX", b"\xff\xfe")
    trace, issues = read(data, tmp_path)
    assert kernels(trace) == ["k0", "k\ufffd\ufffd", "k2"]
    assert counts(issues) == {"trace/repaired": 1}


def test_a_trailing_comma_after_the_last_event(tmp_path: Path) -> None:
    trace, issues = read(document(kernel(0), kernel(1)).replace(b"\n  ]", b",\n  ]"), tmp_path)
    assert kernels(trace) == ["k0", "k1"]
    assert issues == []


def test_duplicate_keys_the_last_counts(tmp_path: Path) -> None:
    trace, _ = read(document(kernel(0).replace('"ts": ', '"ts": 1, "ts": ')), tmp_path)
    assert trace.kinds["kernel"]["start"].tolist() == [100_125]


def test_decimal_commas(tmp_path: Path) -> None:
    comma = kernel(1, ts="110,125").replace('"dur": 2.5', '"dur": 2,500')
    trace, _ = read(document(kernel(0), comma), tmp_path)
    assert trace.kinds["kernel"]["start"].tolist() == [100_125, 110_125]
    assert trace.kinds["kernel"]["end"].tolist() == [102_625, 112_625]


def test_a_byte_order_mark_and_pids_that_are_strings(tmp_path: Path) -> None:
    odd = kernel(1).replace('"pid": 0', '"pid": "GPU 0"').replace('"tid": 7', '"tid": "stream 7"')
    trace, _ = read(b"\xef\xbb\xbf" + document(kernel(0), odd), tmp_path)
    assert kernels(trace) == ["k0", "k1"]
    assert [trace.processes[i] for i in trace.kinds["kernel"]["process"]] == [0, "GPU 0"]


@pytest.mark.parametrize("value", ['"stream 7"', "7.0", '"7"', '"0x7"'])
def test_numbers_in_other_forms(value: str, tmp_path: Path) -> None:
    trace, _ = read(document(kernel(0, more=f', "stream": {value}')), tmp_path)
    assert trace.kinds["kernel"]["stream"].tolist() == [7]


@pytest.mark.parametrize("value", ["18446744073709551615", "28446744073709551615", "null", "true", '"x"', "[1]"])
def test_numbers_that_do_not_fit(value: str, tmp_path: Path) -> None:
    trace, _ = read(document(kernel(0, more=f', "stream": {value}'), kernel(1)), tmp_path)
    assert kernels(trace) == ["k0", "k1"]
    assert trace.kinds["kernel"]["correlation"].tolist() == [0, 1]


@pytest.mark.parametrize("args", ['""', "[]", "null", "7"])
def test_arguments_of_another_type(args: str, tmp_path: Path) -> None:
    bad = kernel(1).partition('"args"')[0] + f'"args": {args}}}'
    trace, _ = read(document(kernel(0), bad, kernel(2)), tmp_path)
    assert kernels(trace) == ["k0", "k1", "k2"]


class TestTimes:
    def test_absolute_ones_are_exact(self, tmp_path: Path) -> None:
        """A double is off by up to 125 ns at 1.7e15 us."""
        written = [f"1712195495505582.{n:03}" for n in range(0, 1000, 7)]
        trace, _ = read(document(*(kernel(n, ts=t) for n, t in enumerate(written))), tmp_path)
        assert trace.kinds["kernel"]["start"].tolist() == [int(t.replace(".", "")) for t in written]

    def test_relative_ones_are_exact(self, tmp_path: Path) -> None:
        written = [f"{5_097_945_356_340 + n}.{n:03}" for n in range(1000)]
        trace, _ = read(document(*(kernel(n, ts=t) for n, t in enumerate(written))), tmp_path)
        assert trace.kinds["kernel"]["start"].tolist() == [int(t.replace(".", "")) for t in written]

    def test_strings(self, tmp_path: Path) -> None:
        trace, _ = read(document(kernel(0, ts='"1747100000123542.380"'), kernel(1, ts='"1747100000123543"')), tmp_path)
        assert trace.kinds["kernel"]["start"].tolist() == [1747100000123542380, 1747100000123543000]

    @pytest.mark.parametrize("ts", ['"soon"', "1e400", "1e200", "9" * 40])
    def test_what_is_no_time(self, ts: str, tmp_path: Path) -> None:
        trace, issues = read(document(kernel(0, ts=ts), kernel(1)), tmp_path)
        assert kernels(trace) == ["k1"]
        assert counts(issues)["trace/times"] == 1

    def test_an_event_of_a_year(self, tmp_path: Path) -> None:
        trace, issues = read(document(kernel(0).replace('"dur": 2.5', '"dur": 31536000000000'), kernel(1)), tmp_path)
        assert kernels(trace) == ["k1"]
        assert counts(issues) == {"trace/times": 1}

    def test_the_base_may_stand_behind_the_events(self, tmp_path: Path) -> None:
        tail = ', "displayTimeUnit": "ms", "baseTimeNanoseconds": 1711964646000000000'
        assert read(document(kernel(0), tail=tail), tmp_path)[0].meta.base == 1711964646000000000
        head = '"baseTimeNanoseconds": 17, '
        assert read(document(kernel(0), head=head), tmp_path)[0].meta.base == 17


class TestCut:
    whole = document(*(kernel(n) for n in range(40)), tail=', "traceName": "x"')

    def test_at_every_byte_of_some_events(self, tmp_path: Path) -> None:
        first = self.whole.index(b'"k20"')
        for end in range(first, first + 200, 3):
            trace, issues = read(self.whole[:end], tmp_path)
            complete = self.whole[:end].count(b"}}")
            assert len(kernels(trace)) == complete, end
            assert counts(issues) == {"trace/cut": 1}

    def test_a_gzip_that_ends_early(self, tmp_path: Path) -> None:
        noise = [kernel(n, more=f', "block": [{n * 7919 % 1009}, {n * 104729 % 997}, 1]') for n in range(4000)]
        data = gzip.compress(document(*noise))
        trace, issues = read(data[: len(data) // 2], tmp_path, "trace.json.gz")
        assert 1000 < len(kernels(trace)) < 3000
        assert {"trace/cut", "source/truncated"} <= set(counts(issues))

    def test_only_the_closing_brackets_are_missing(self, tmp_path: Path) -> None:
        trace, issues = read(self.whole[: self.whole.rindex(b"\n  ]")], tmp_path)
        assert len(kernels(trace)) == 40
        assert counts(issues) == {"trace/cut": 1}

    def test_a_hole_in_the_middle(self, tmp_path: Path) -> None:
        a, b = self.whole.index(b'"k10"'), self.whole.index(b'"k12"') + 40
        trace, issues = read(self.whole[:a] + self.whole[b:], tmp_path)
        assert len(kernels(trace)) in (37, 38)
        assert "trace/cut" not in counts(issues)


@pytest.mark.parametrize(
    "text", [b'{"traceEvents": []}', b'{"traceEvents": [\n]}', b'{"schemaVersion": 1, "traceEvents": [ ], "a": 1}']
)
def test_no_events(text: bytes, tmp_path: Path) -> None:
    trace, issues = read(text, tmp_path)
    assert trace.events == 0
    assert issues == []


def test_the_array_form_of_older_releases(tmp_path: Path) -> None:
    rows = [
        {"name": "aten::add", "ph": "X", "ts": 12.3, "dur": 4.5, "tid": 1, "pid": "CPU functions", "args": {}},
        {"name": "vectorized_elementwise_kernel", "ph": "X", "ts": 20.5, "dur": 3, "tid": 0, "pid": "CUDA functions"},
        {"name": "aten::add", "ph": "s", "ts": 12.3, "tid": 1, "pid": "CPU functions", "id": 0, "cat": "cpu_to_cuda"},
    ]
    trace, issues = read(json.dumps(rows).encode(), tmp_path)
    assert kernels(trace) == ["vectorized_elementwise_kernel"]
    assert len(trace.kinds["op"]) == 1
    assert issues == []


def test_categories_of_torch_1_8(tmp_path: Path) -> None:
    old: dict[str, Any] = {
        "ph": "X",
        "name": "Memcpy HtoD (Pageable -> Device)",
        "pid": 0,
        "tid": "stream 7",
        "ts": 1,
        "dur": 0,
    }
    rows = [
        {**old, "cat": "Memcpy", "args": {"stream": 7, "correlation": 3, "external id": 9, "bytes": 200}},
        {**old, "cat": "Kernel", "name": "volta_sgemm"},
        {**old, "cat": "Operator", "name": "aten::mm", "pid": 9, "tid": 9, "args": {"Input dims": [[2, 3]]}},
        {**old, "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9},
    ]
    trace, _ = read(document(*map(json.dumps, rows)), tmp_path)
    assert {k: len(v) for k, v in trace.kinds.items()} == {"copy": 1, "kernel": 1, "op": 1, "call": 1}
    assert trace.kinds["copy"]["external"].tolist() == [9]
    assert trace.text(int(trace.kinds["op"]["dims"][0])) == [[2, 3]]


def test_many_pieces_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = TraceBuilder(rank=3, world=8)
    for n in range(200):
        with t.step(n), t.frame("train.py(4): main"), t.op("aten::mm", dims=[[8, 8], [8, 8]]):
            t.launch(f'void k<{n % 9}>(char const*, "x")', 11.5)
    data = t.text().encode()
    whole, _ = read(data, tmp_path)
    for size in (200, 1000, 4096):
        monkeypatch.setattr("necropsy_parsers.trace.pieces.PIECE", size)
        cut, issues = read(data, tmp_path)
        assert issues == []
        assert cut.names == whole.names
        for kind, columns in whole.kinds.items():
            for name, array in columns.arrays.items():
                assert array.tolist() == cut.kinds[kind][name].tolist(), (size, kind, name)
    assert whole.origin.rank == 3
    assert whole.meta.world == 8


def test_spilled_columns_give_what_kept_ones_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = document(*(kernel(n, more=', "grid": [1, 2, 3]') for n in range(3000)))
    kept, _ = read(data, tmp_path)
    monkeypatch.setattr("necropsy_parsers.trace.pieces.PIECE", 4096)
    monkeypatch.setattr("necropsy_parsers.trace.columns.SPILL_BEYOND", 1000)
    monkeypatch.setattr("necropsy_parsers.trace.columns.Store.__init__.__defaults__", (1000,))
    spilled, _ = read(data, tmp_path)
    for name, array in kept.kinds["kernel"].arrays.items():
        assert array.tolist() == spilled.kinds["kernel"][name].tolist()


@pytest.mark.parametrize("deep", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000])
def test_nesting_without_end(deep: str, tmp_path: Path) -> None:
    trace, issues = read(document(kernel(0), kernel(1, more=f', "blocks": {deep}'), kernel(2)), tmp_path)
    assert {"k0", "k2"} <= set(kernels(trace))
    assert issues


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.json", 3),
        ("trace_rank-12.json.gz", 12),
        ("rank_7.1712.pt.trace.json", 7),
        ("host_4411.pt.trace.json", None),
    ],
)
def test_a_rank_in_the_name(name: str, rank: int | None, tmp_path: Path) -> None:
    data = document(kernel(0))
    trace, _ = read(gzip.compress(data) if name.endswith("gz") else data, tmp_path, name)
    assert trace.origin.rank == rank


def test_distributed_info_and_devices(tmp_path: Path) -> None:
    head = (
        '"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Tesla T4", "totalGlobalMem": 15642329088, '
        '"computeMajor": 7, "computeMinor": 5, "numSms": 40}], "distributedInfo": {"backend": "nccl", "rank": 1, '
        '"world_size": 2, "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "ranks": "[0, 1]"}]}, '
        '"with_stack": 1, '
    )
    trace, _ = read(document(kernel(0), head=head), tmp_path)
    assert (trace.meta.rank, trace.meta.world, trace.meta.backend) == (1, 2, "nccl")
    assert trace.meta.groups[0].ranks == (0, 1)
    assert (trace.meta.devices[0].name, trace.meta.devices[0].units) == ("Tesla T4", 40)
    assert trace.meta.options == {"with_stack"}
