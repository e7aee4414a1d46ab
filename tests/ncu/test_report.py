"""Reports that are whole, cut, damaged, hostile, and too much for the library; and without the library."""

from __future__ import annotations

import lzma
import os
import platform
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from necropsy_parsers.formats import ncu_report
from necropsy_parsers.issues import Issues
from necropsy_parsers.ncu import container, decode
from necropsy_parsers.ncu.records import Launch
from necropsy_parsers.source import open_sources

import necropsy
from necropsy.api import analyze
from necropsy.evidence.ncu_kernels import TUNING, NcuKernels

REPORT = Path(__file__).resolve().parents[2] / "fixtures/formats/ncu_report/h200/report.ncu-rep.xz"
# Where the extra of pyproject.toml installs it, it must be there.
HAS_WHEEL = (sys.platform, platform.machine()) in {("linux", "x86_64"), ("win32", "AMD64"), ("darwin", "arm64")}
WHOLE = lzma.decompress(REPORT.read_bytes())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.ncu-rep"
    path.write_bytes(WHOLE)
    return path


def read(path: Path) -> tuple[list[Launch], Issues]:
    issues = Issues()
    (source,) = open_sources([str(path)], issues)
    found = [r for r in ncu_report.parse(source, issues, 0) if isinstance(r, Launch)]
    return found, issues


def kinds(issues: Issues) -> list[str]:
    return [row.kind for row in issues.rows()]


def worker_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Stands a program of ours in for NVIDIA's library."""
    (tmp_path / "ncu_report.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setattr(decode, "available", lambda: True)


FAKE = """
import os, time
class Action:
    NameBase_DEMANGLED = NameBase_FUNCTION = 1
    def __init__(self, n): self.n = n
    def name(self, base): {trouble}; return "elementwise_kernel"
    def metric_names(self): return ()
    def sections(self): return ()
    def rule_results_as_dicts(self): return ()
    def nvtx_state(self): return None
    def metric_by_name(self, name): return None
class Range:
    def num_actions(self): return 7
    def action_by_idx(self, n): return Action(n)
class Report:
    def num_ranges(self): return 1
    def range_by_idx(self, n): return Range()
def load_report(path): return Report()
"""


class TestFrames:
    """What is read without the library."""

    def test_launches_with_their_process_and_stack(self) -> None:
        found = container.read(WHOLE)
        assert not found.cut
        assert [(s.function[:12], s.process, s.program) for s in found.launches[:2]] == [
            ("elementwise_", 1131, "python3.12"),
            ("Kernel2", 1131, "python3.12"),
        ]
        assert [(f.line, f.function) for f in found.launches[1].stack] == [
            (56, "<module>"),
            (47, "main"),
            (15, "small_matmul"),
        ]
        assert found.launches[1].grid == (2, 1, 64)

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
    def test_a_cut_report_has_what_stands_before(self, share: float) -> None:
        found = container.read(WHOLE[: int(share * len(WHOLE))])
        assert found.cut
        assert found.launches == container.read(WHOLE).launches[: len(found.launches)]

    @pytest.mark.parametrize("step", range(0, 4000, 37))
    def test_damage_is_damage(self, step: int) -> None:
        """No byte of the head makes the reader fail otherwise, or run away."""
        data = bytearray(WHOLE[:120_000])
        data[step] ^= 0xFF
        with suppress(container.Damage):
            container.read(bytes(data))

    def test_lengths_that_never_end(self) -> None:
        endless = container.MAGIC + struct.pack("<I", 2) + b"\x08\x07" + b"\0\0\0\0" * 100_000
        assert container.read(endless).launches == []


@pytest.mark.skipif(not HAS_WHEEL, reason="no wheel of ncu-report for this platform")
class TestDecoded:
    """What the library decodes."""

    def test_lines_and_roles(self, plain: Path) -> None:
        table = necropsy.load(str(plain)).get(NcuKernels)
        assert [r.place and (r.place.line, r.place.exactness) for r in table.own] == [
            (11, "line"), (15, "line"), (19, "line"), (23, "line"), (27, "line"),
        ]  # fmt: skip
        assert [r.function[:10] for r in table if r.role == TUNING] == ["triton_red", "vectorized"]
        assert {r.device_name for r in table} == {"NVIDIA H200"}

    def test_compressed_is_the_same(self, plain: Path) -> None:
        one, other = read(plain)[0], read(REPORT)[0]
        assert [(r.kernel, r.metrics, r.rules) for r in one] == [(r.kernel, r.metrics, r.rules) for r in other]

    def test_words_of_rules_are_plain(self, plain: Path) -> None:
        rules = [rule for launch in read(plain)[0] for rule in launch.rules]
        assert rules
        assert not any("@section" in r.message or "@url" in r.message for r in rules)
        assert {r.scope for r in rules} >= {"", "global", "local"}

    @pytest.mark.parametrize("share", [0.3, 0.7, 0.999])
    def test_a_cut_report_says_so_and_tells_what_stands_before(self, tmp_path: Path, share: float) -> None:
        path = tmp_path / "cut.ncu-rep"
        path.write_bytes(WHOLE[: int(share * len(WHOLE))])
        found, issues = read(path)
        assert kinds(issues) == ["ncu/cut"]
        before = container.read(path.read_bytes()).launches
        assert len(found) == len(before) > 0
        assert [r.kernel for r in found] == [r.kernel for r in read(REPORT)[0][: len(found)]]
        assert any(f.rule == "INP002" for f in analyze(str(path)).findings)

    def test_a_report_that_ends_in_a_large_block(self, tmp_path: Path) -> None:
        """The library itself finds no launch in such a file."""
        path = tmp_path / "cut.ncu-rep"
        path.write_bytes(WHOLE + struct.pack("<I", 8) + b"\x08\x01\x10\x00\x28\x80\x80\x40" + bytes(1000))
        found, issues = read(path)
        assert kinds(issues) == ["ncu/cut"]
        assert len(found) == len(read(REPORT)[0])

    def test_what_is_no_report_behind_the_magic(self, tmp_path: Path) -> None:
        path = tmp_path / "not.ncu-rep"
        path.write_bytes(container.MAGIC + bytes(range(256)) * 40)
        found, issues = read(path)
        assert found == []
        assert {"ncu/damaged", "ncu/undecodable"} & set(kinds(issues))
        assert any(f.rule == "INP001" for f in analyze(str(path)).findings)


class TestTrouble:
    """Of the library, which is native code in another process."""

    def test_without_it_one_line_says_what_to_install(self, plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(decode, "available", lambda: False)
        report = analyze(str(plain))
        (finding,) = (f for f in report.findings if f.rule == "INP001")
        assert "extra ncu" in finding.message
        assert finding.fixes[0].command == "pip install 'necropsy[ncu]'"

    def test_a_crash_costs_one_launch(self, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        worker_that(tmp_path, monkeypatch, FAKE.format(trouble="os.abort() if self.n == 2 else None"))
        found, issues = read(plain)
        assert [r.number for r in found] == [0, 1, 3, 4, 5, 6]
        (row,) = issues.rows()
        assert (row.kind, row.count, row.unit) == ("ncu/lost", 1, "launches")
        assert "signal" in row.detail

    def test_a_hang_is_ended(self, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        worker_that(tmp_path, monkeypatch, FAKE.format(trouble="time.sleep(60) if self.n == 6 else None"))
        monkeypatch.setattr(decode, "PATIENCE", 3)
        found, issues = read(plain)
        assert [r.number for r in found] == [0, 1, 2, 3, 4, 5]
        assert "no answer" in issues.rows()[0].detail

    def test_a_crash_when_opened_is_told(self, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        worker_that(tmp_path, monkeypatch, "def load_report(path): raise RuntimeError('unknown version 99')")
        found, issues = read(plain)
        assert found == []
        assert issues.rows()[0].kind == "ncu/undecodable"
        assert "unknown version 99" in issues.rows()[0].detail

    def test_what_it_prints_is_no_message(self, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        worker_that(tmp_path, monkeypatch, FAKE.format(trouble="os.write(1, b'noise\\n'); print('more')"))
        assert len(read(plain)[0]) == 7


def test_nothing_of_it_is_imported_at_a_cold_start() -> None:
    program = (
        "import sys, necropsy.api, necropsy_parsers.formats as f; f.all_formats(); print('ncu_report' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
