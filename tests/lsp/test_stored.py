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
    (stored,) = ReportStore().read([project])
    assert [f.fingerprint for f in stored.findings] == [make_finding().fingerprint]
    assert stored.project == project


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


def test_reports_are_read_newest_first(make_finding: Make, store: Store, project: Path) -> None:
    os.utime(store(make_finding(message="old."), name="a.json"), ns=(1, 1))
    os.utime(store(make_finding(message="new."), name="b.json"), ns=(2, 2))
    assert [r.findings[0].message for r in ReportStore().read([project, project])] == ["new.", "old."]


def test_a_changed_report_is_read_again_and_a_removed_one_forgotten(
    make_finding: Make, store: Store, project: Path
) -> None:
    reports = ReportStore()
    path = store(make_finding())
    (first,) = reports.read([project])
    assert reports.read([project]) == [first]  # the same object: nothing was decoded
    store(make_finding(), make_finding(rule="OOM005"))
    assert [len(r.findings) for r in reports.read([project])] == [2]
    path.unlink()
    assert reports.read([project]) == []


@pytest.mark.parametrize(
    ("data", "says", "newer"),
    [
        ({"schema": "other/9", "findings": []}, "other/9", False),
        ({"schema": "necropsy/2", "findings": [{"rule": 7}]}, "necropsy/2", True),
        ({"schema": "necropsy/2", "findings": []}, "necropsy/2", True),
        ({"schema": "necropsy/²", "findings": []}, "necropsy/", False),
        ({"schema": "necropsy/1", "findings": [{"rule": 7}]}, "not a report", False),
    ],
)
def test_an_unusable_report_is_named_once_and_hides_no_other(
    make_finding: Make, store: Store, project: Path, data: object, says: str, newer: bool
) -> None:
    store(make_finding())
    bad = project / ".necropsy" / "bad.json"
    bad.write_text(json.dumps(data), encoding="utf-8")
    reports = ReportStore()
    for _ in range(2):
        assert sorted(len(r.findings) for r in reports.read([project])) == [0, 1]
    ((path, error),) = reports.complaints
    assert (path, error.newer) == (bad, newer)
    assert says in str(error)
