"""Structured logs (TORCH_TRACE): whole, damaged, cut, woven with strangers' lines, and next to the text log."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest
from tests.support.cases import FIXTURES

from necropsy_parsers.formats.torch_trace import SAMPLES, parse, sniff
from necropsy_parsers.inductor.records import GeneratedCode, GraphLines, KernelNodes, KernelStacks, KernelText
from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Record
from necropsy_parsers.structured import framing
from necropsy_parsers.structured.reading import StructuredReader
from necropsy_parsers.text.decode import text_chunks
from necropsy_parsers.text.naming import named

from necropsy.api import analyze
from necropsy.finding import Severity
from necropsy.report import Report

FOLDER: Final = FIXTURES / "formats" / "torch_trace" / "two-logs"
TRACE: Final = FOLDER / "dedicated_log_torch_trace_k2j4x1.log"
HEAD: Final = "V1129 12:21:29.136000 947 torch/_logging/structured.py:28] "


def read(data: bytes, size: int = 1 << 20, name: str = "t.log") -> tuple[list[Record], Issues]:
    """Records and issues of a structured log, in pieces of a size."""
    issues = Issues()
    chunks: Iterator[bytes] = (data[i : i + size] for i in range(0, len(data), size))
    return list(StructuredReader(name, issues, 0, named(name)).records(chunks)), issues


def told(report: Report) -> list[tuple[object, ...]]:
    """What a report says, and how often, in an order that does not depend on costs."""
    return sorted(
        (f.rule, f.severity, f.fingerprint, f.facts.get("times"), f.facts.get("recompilations"), f.code[0].line)
        for f in report.findings
        if f.severity >= Severity.WARNING
    )


class TestWholeLogs:
    """Logs as torch writes them."""

    def test_breaks_and_recompilations_have_lines(self) -> None:
        found = {(f.rule, f.code[0].line) for f in analyze(str(TRACE)).findings if f.severity >= Severity.WARNING}
        assert found == {("CMP002", 13), ("CMP004", 15), ("CMP009", 12), ("CMP009", 16)}

    def test_both_logs_of_a_run_are_one_story(self) -> None:
        text, trace = analyze(str(FOLDER / "run.log")), analyze(str(TRACE))
        both = analyze([str(FOLDER / "run.log"), str(TRACE)])
        turned = analyze([str(TRACE), str(FOLDER / "run.log")])
        assert told(text) == told(trace) == told(both) == told(turned)
        assert told(trace)

    @pytest.mark.parametrize("size", [1, 7, 64, 4096])
    def test_chunks_do_not_matter(self, size: int) -> None:
        data = TRACE.read_bytes()[:40_000]
        assert read(data, size)[0] == read(data)[0]

    def test_anchors_quote_their_lines(self) -> None:
        data = TRACE.read_bytes()
        lines = data.split(b"\n")
        for record in read(data)[0]:
            a = record.anchor
            assert lines[a.line - 1].decode().strip()[:60] == a.text[:60]
            assert data[a.start :].startswith(lines[a.line - 1])

    def test_files_named_in_another_log_of_the_process(self) -> None:
        report = analyze(str(FIXTURES / "rules/CMP014/fires-draft-export/input.d"))
        assert {f.code[0].line for f in report.findings if f.code} == {26, 33}


class Given:
    """An input in memory; `lasting` tells that it can be read again."""

    def __init__(self, data: bytes, *, lasting: bool) -> None:
        self.name, self.lasting, self._data = "t.log", lasting, data

    def chunks(self, size: int) -> Iterator[bytes]:
        """All of it, in pieces."""
        return (self._data[i : i + size] for i in range(0, len(self._data), size))


class TestKernels:
    """Generated code and graphs are read when somebody asks for kernels."""

    def test_the_same_at_once_and_later(self) -> None:
        data = gzip.decompress((FIXTURES / "kernels" / "h200" / "torch_trace.log.gz").read_bytes())
        once = list(parse(Given(data, lasting=False), Issues(), 0))  # type: ignore[arg-type]
        *first, later = parse(Given(data, lasting=True), Issues(), 0)  # type: ignore[arg-type]
        assert isinstance(later, KernelText)
        kernels = (GeneratedCode, GraphLines, KernelNodes, KernelStacks)
        assert not any(isinstance(r, kernels) for r in first)
        assert [r for r in once if isinstance(r, kernels)] == list(later.read())
        assert [r for r in once if not isinstance(r, kernels)] == first

    def test_a_log_without_them_has_nothing_to_read_later(self) -> None:
        data = (HEAD + '{"str": ["/a.py", 1]}\n').encode()
        assert len(list(parse(Given(data, lasting=True), Issues(), 0))) == 1  # type: ignore[arg-type]


class TestClaims:
    """What is a structured log and what is not."""

    @pytest.mark.parametrize("sample", SAMPLES)
    def test_samples(self, sample: str) -> None:
        assert sniff(sample.encode(), "x.log")

    def test_text_logs_are_none(self) -> None:
        assert sniff((FOLDER / "run.log").read_bytes()[:65536], "run.log") is None
        assert sniff(b"V1129 12:21:29.136000 947 torch/_dynamo/guards.py:28] [0/0] [__guards] {'a': 1}\n", "t") is None

    def test_words_of_a_wrapper_before_the_entries(self) -> None:
        entry = HEAD + '{"dynamo_output_graph": {}, "has_payload": "x"}\n' + "\tclass GraphModule:\n" * 9
        assert sniff(("collecting\n" * 7 + entry).encode(), "t.log")

    def test_line_ends_of_windows(self) -> None:
        data = TRACE.read_bytes()
        issues = Issues()
        chunks = text_chunks([data.replace(b"\n", b"\r\n")], "t.log", issues)
        assert list(StructuredReader("t.log", issues, 0, named("t.log")).records(chunks)) == read(data)[0]

    def test_a_jobs_log_with_an_entry_in_it_is_a_log(self) -> None:
        text = "epoch 1 loss 0.3\n" * 20 + HEAD + '{"str": ["/a.py", 1]}\n' + "epoch 2 loss 0.2\n" * 20
        assert sniff(text.encode(), "run.log") is None


class TestFraming:
    """Entries are found and lines counted in ways that depend on what the bytes look like."""

    @pytest.mark.parametrize("inner", ["V", "VV V" * 40, "x" * 700, "V" * 5000, "x\nV1\n\tV\n" * 9])
    def test_entries_between_payloads_of_any_look(self, inner: str) -> None:
        payload = "".join(f"\t{line}\n" for line in inner.split("\n"))
        entry = HEAD + '{"str": ["/home/trainer/a.py", 1]}\n'
        event = HEAD + '{"artifact": {"name": "unread"}, "has_payload": "x"}\n' + payload
        data = ((event + entry) * 3).encode()
        lines = [n for n, line in enumerate(data.split(b"\n"), 1) if b'"str"' in line]
        for size in (17, 1 << 20):
            assert [r.anchor.line for r in read(data, size)[0]] == lines

    @pytest.mark.parametrize("width", [0, 3, 511, 512, 20_000])
    def test_lines_are_counted_whatever_their_width(self, width: int) -> None:
        data = b"\n".join([b"x" * width, b"", b"y" * 700, b"z" * width]) * 50
        for begin, end in ((0, len(data)), (1, len(data) - 1), (width, width + 1), (width + 1, width + 1)):
            assert framing.line_ends(data, begin, end) == data.count(b"\n", begin, end)

    @pytest.mark.parametrize(
        ("payload", "count"), [("\ta", 0), ("", 0), ("b", 1), ("\ta\nb", 1), ("b\n\ta\nc", 2), ("\ta\n\n\tb", 0)]
    )
    def test_lines_of_others_are_counted(self, payload: str, count: int) -> None:
        assert framing.foreign_lines(f"V1129 {{}}\n{payload}\n".encode()) == count


class TestDamage:
    """Damaged entries are counted, the others kept."""

    def test_a_damaged_head(self) -> None:
        data = TRACE.read_bytes()
        whole, _ = read(data)
        mark = b'{"artifact": {"name": "recompile_reasons"'
        hurt = data.replace(mark, mark.replace(b":", b"", 1), 1)
        records, issues = read(hurt)
        assert [(i.kind, i.count) for i in issues.rows()] == [("structured/entry", 1)]
        assert len(records) == len(whole) - 1

    def test_a_damaged_payload_of_an_event(self) -> None:
        event = HEAD + '{"chromium_event": {}, "has_payload": "x"}\n\t{\n\t"name": "dynamo"\n\t}\n'
        other = HEAD + '{"str": ["/a.py", 1]}\n'
        assert not read((event + other).encode())[1].rows()
        broken = read((event.replace("{\n\t", "") + other).encode())[1].rows()
        assert [(i.kind, i.count) for i in broken] == [("structured/entry", 1)]

    def test_lines_of_strangers(self) -> None:
        data = TRACE.read_bytes()
        at = data.index(b"\nUser", 0) if b"\nUser" in data else data.index(b"\n\tUser code traceback")
        woven = data[:at] + b"\nEpoch 3: loss 0.1" + data[at:]
        _, issues = read(woven)
        assert "structured/foreign" in {i.kind for i in issues.rows()}

    def test_an_entry_without_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(framing, "MAX_ENTRY", 4096)
        event = HEAD + '{"chromium_event": {}, "has_payload": "x"}\n' + "\t1,\n" * 9000
        other = HEAD + '{"str": ["/a.py", 1]}\n'
        records, issues = read((other + event + other).encode(), 512)
        assert [r.anchor.line for r in records] == [1, 9003]
        assert "structured/foreign" in {i.kind for i in issues.rows()}

    def test_cut_anywhere(self) -> None:
        data = TRACE.read_bytes()
        choose = random.Random(7)
        whole = len(read(data)[0])
        for _ in range(60):
            at = choose.randrange(1, len(data))
            records, issues = read(data[:at])
            assert len(records) <= whole + 1
            assert {i.kind for i in issues.rows()} <= {"structured/cut", "structured/foreign"}

    def test_bytes_changed_anywhere(self) -> None:
        data = bytearray(TRACE.read_bytes())
        choose = random.Random(11)
        for _ in range(40):
            hurt = bytearray(data)
            for _ in range(30):
                hurt[choose.randrange(len(hurt))] = choose.randrange(256)
            read(bytes(hurt))

    def test_skipped_cudagraphs(self) -> None:
        reason = "skipping cudagraphs due to cpu device (arg0_1)"
        entry = f'{{"compilation_metrics": {{"cudagraph_skip_reason": "{reason}"}}, "frame_id": 0, "attempt": 0}}'
        kinds = [getattr(r, "kind", "") for r in read(f"{HEAD}{entry}\n".encode())[0]]
        assert "cpu" in kinds

    def test_not_a_number(self) -> None:
        entry = HEAD + '{"compilation_metrics": {"entire_frame_compile_time_s": NaN}, "frame_id": 0, "attempt": 0}\n'
        assert not read(entry.encode())[1].rows()


SCRIPT: Final = dedent(
    """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)
            self.calls = 0

        def forward(self, x):
            h = self.fc(x)
            self.calls += 1  # CMP009
            if h.sum() > 0:  # CMP002
                h = h * 2
            return h

    def strict(x):
        y = x.sin()
        print("seen")  # CMP023
        return y.cos()

    def broken(x):
        return x.view(3, 3) + 1  # CMP011

    def cooled(x, temperature):
        return x.sin() / temperature  # CMP008

    def pooled(frames):
        if frames.shape[1] == 12:  # CMP015
            frames = frames * 2
        return frames.mean(1)

    net = torch.compile(Net(), backend="eager")
    for _ in range(4):
        net(torch.ones(4, 4))
    cool = torch.compile(cooled, backend="eager", dynamic=False)
    for n in range(10):
        cool(torch.ones(3), 1.5 + n)
    pool = torch.compile(pooled, backend="eager", dynamic=True)
    for length in (12, 9):
        pool(torch.ones(4, length))
    for function in (strict, broken):
        try:
            torch.compile(function, backend="eager", fullgraph=True)(torch.ones(4))
        except Exception:
            pass
    """
)


@pytest.mark.xdist_group("live-compile")
def test_a_run_of_the_installed_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "live.py"
    script.write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TORCH")}
    environment["TORCH_TRACE"] = str(tmp_path / "trace")
    subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, check=True, timeout=300)
    report = analyze(str(tmp_path / "trace"))
    found = {(f.rule, f.code[0].line) for f in report.findings if f.severity >= Severity.WARNING and f.code}
    lines = SCRIPT.split("\n")
    wanted = {(line[-6:], n) for n, line in enumerate(lines, 1) if line[-6:-3] == "CMP"}
    assert found == wanted, [f.message for f in report.findings]
    assert not report.issues


class TestShared:
    """Logs that other people's runs left, where they are at hand."""

    def test_every_log_is_read(self, shared: Path) -> None:
        for path in sorted((shared / "external" / "tlparse").glob("*.gz")):
            report = analyze(str(path))
            assert [i.format for i in report.inputs] == ["torch_trace"]
            assert all(f.severity < Severity.WARNING for f in report.findings), path
            assert [i.kind for i in report.issues] == (["structured/entry"] if "corrupt" in path.name else []), path

    def test_captures(self, shared: Path) -> None:
        report = analyze(str(shared / "captures" / "torch_trace" / "vision.log.gz"))
        places = {f.code[0].line for f in report.findings if f.severity >= Severity.WARNING}
        assert {67, 70, 72} <= places
        assert places <= {28, 31, 63, 67, 69, 70, 72, 86, 94}

    def test_gzip_makes_no_difference(self, tmp_path: Path) -> None:
        copy = tmp_path / "t.log.gz"
        copy.write_bytes(gzip.compress(TRACE.read_bytes()))
        assert told(analyze(str(copy))) == told(analyze(str(TRACE)))
