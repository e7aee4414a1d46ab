"""Stored reports: what is read, what is refused, and that one finding is told once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from necropsy.finding import Finding, Severity
from necropsy.report import Report
from necropsy.store import save
from necropsy_lsp.stored import MAX_BYTES, ReportStore, UnusableReport, read_report

Make = Callable[..., Finding]
Store = Callable[..., Path]


def test_the_published_json_is_read(make_finding: Make, store: Store) -> None:
    finding = make_finding(severity=Severity.FATAL)
    (read,) = read_report(store(finding)).findings
    assert (read.rule, read.severity, read.fingerprint) == ("SYN001", "fatal", finding.fingerprint)
    assert (read.code[0].file, read.code[0].line) == (finding.code[0].file, 5)
    assert (read.anchor.input, read.anchor.line) == ("run.log", 2)


def test_what_analyze_saves_is_found(make_finding: Make, project: Path) -> None:
    save(Report("0", findings=[make_finding()]), [str(project / "run.log")], project)
    (stored,) = ReportStore().findings([project])
    assert stored.finding.fingerprint == make_finding().fingerprint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"schema": "other/9", "findings": []}',
        b'{"schema": "necropsy/1", "findings": [{"rule": 3}]}',
        b'{"schema": "necropsy/1\xff", "findings": []}',
        b'{"schema": "necropsy/1", "findings": ' + b"[" * 100_000,
        b"\x00" * 64,
    ],
    ids=["empty", "list", "cut", "schema", "types", "encoding", "deep", "binary"],
)
def test_anything_else_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(UnusableReport):
        read_report(path)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()  # stands for a named pipe too, which would block the server
    with pytest.raises(UnusableReport, match="regular"):
        read_report(tmp_path / "x.json")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(UnusableReport, match="MiB"):
        read_report(path)


def test_reports_add_up_and_repeats_count_once(make_finding: Make, store: Store, project: Path) -> None:
    store(make_finding(), make_finding(rule="OOM005"), name="a.json")
    store(make_finding(), make_finding(line=6), name="b.json")
    found = ReportStore().findings([project])
    assert sorted((s.finding.rule, s.finding.code[0].line) for s in found) == [
        ("OOM005", 5),
        ("SYN001", 5),
        ("SYN001", 6),
    ]
    assert {s.project for s in found} == {project}


def test_the_newest_report_speaks_for_a_repeated_finding(make_finding: Make, store: Store, project: Path) -> None:
    os.utime(store(make_finding(message="new."), name="a.json"), ns=(2, 2))
    os.utime(store(make_finding(message="old."), name="b.json"), ns=(1, 1))
    assert [s.finding.message for s in ReportStore().findings([project])] == ["new."]


def test_a_changed_report_is_read_again_and_a_removed_one_forgotten(
    make_finding: Make, store: Store, project: Path
) -> None:
    reports = ReportStore()
    path = store(make_finding())
    assert len(reports.findings([project])) == 1
    store(make_finding(), make_finding(rule="OOM005"))
    assert len(reports.findings([project])) == 2
    path.unlink()
    assert reports.findings([project]) == []


def test_an_unusable_report_is_named_once_and_hides_no_other(make_finding: Make, store: Store, project: Path) -> None:
    store(make_finding())
    bad = project / ".necropsy" / "bad.json"
    bad.write_text(json.dumps({"schema": "other/9", "findings": []}), encoding="utf-8")
    reports = ReportStore()
    assert len(reports.findings([project])) == 1
    assert len(reports.findings([project])) == 1
    (complaint,) = reports.complaints
    assert complaint.startswith(str(bad))
    assert "other/9" in complaint
