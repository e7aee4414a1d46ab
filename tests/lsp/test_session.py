"""What a session says of a document: sources merged, files confirmed, nothing on a twin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from lsprotocol import types

from necropsy.finding import Finding
from necropsy.report import finding_to_json
from necropsy_lsp.session import Session
from necropsy_lsp.stored import StoredFinding
from necropsy_lsp.text import Document

Make = Callable[..., Finding]
Store = Callable[..., Path]


def read(*findings: Finding) -> list[StoredFinding]:
    return [msgspec.json.decode(json.dumps(finding_to_json(f)), type=StoredFinding) for f in findings]


@pytest.fixture
def session(project: Path) -> Session:
    session = Session()
    session.configure([project])
    return session


def opened(session: Session, path: Path) -> Document:
    document = Document(path.as_uri(), path.read_text(encoding="utf-8"), 1, "python")
    session.opened(document)
    session.refresh()
    return document


def edited(session: Session, document: Document, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
    where = types.Range(types.Position(*start), types.Position(*end))
    document.apply_change(types.TextDocumentContentChangePartial(where, text))
    session.edited(document, document.take_edits())


def said(session: Session, document: Document) -> list[tuple[str, str, int, bool]]:
    return [(s.finding.rule, s.source, s.line + 1, s.stale) for s in session.findings(document)]


def test_several_sources_tell_a_finding_once(session: Session, project: Path, store: Store, make_finding: Make) -> None:
    store(make_finding(), name="a.json")
    document = opened(session, project / "vision" / "train.py")
    told: list[int] = []
    session.changed.append(lambda: told.append(1))
    session.publish("input:run.log", project, read(make_finding(), make_finding(rule="OOM005")))
    assert said(session, document) == [
        ("SYN001", "input:run.log", 5, False),
        ("OOM005", "input:run.log", 5, False),
    ]
    session.withdraw("input:run.log")
    session.withdraw("input:run.log")
    assert said(session, document) == [("SYN001", "stored:.necropsy/a.json", 5, False)]
    assert len(told) == 2
    assert session.findings(document) is session.findings(document)  # asked by every feature, made once


def test_an_older_run_of_the_same_line_is_not_told_again(session: Session, project: Path, make_finding: Make) -> None:
    document = opened(session, project / "vision" / "train.py")
    session.publish("input:old.log", project, read(make_finding(line=3)))
    session.publish("input:new.log", project, read(make_finding(line=5)))
    assert said(session, document) == [("SYN001", "input:new.log", 5, False)]


def test_other_news_does_not_move_a_deleted_line_to_its_twin(
    session: Session, project: Path, make_finding: Make
) -> None:
    path = project / "vision" / "train.py"
    path.write_text("a = x.item()\nb = 1\na = x.item()\n", encoding="utf-8")
    document = opened(session, path)
    session.publish("input:a.log", project, read(make_finding(line=1, text="a = x.item()")))
    edited(session, document, (0, 0), (1, 0), "")
    session.publish("input:b.log", project, read(make_finding(line=2, text="b = 1", rule="OOM005")))
    assert said(session, document) == [("OOM005", "input:b.log", 1, False)]
    session.publish("input:a.log", project, read(make_finding(line=2, text="a = x.item()")))  # run again
    assert said(session, document)[1:] == [("SYN001", "input:a.log", 2, False)]


def test_a_file_of_the_same_name_needs_a_line_that_was_quoted(
    session: Session, project: Path, make_finding: Make
) -> None:
    document = opened(session, project / "vision" / "train.py")
    close = make_finding(file="/job/train.py", text='loss = step(batch); log("🔥", loss)')
    session.publish("input:a.log", project, read(close))
    assert said(session, document) == []
    session.publish("input:a.log", project, read(close, make_finding(file="/job/train.py", rule="OOM005")))
    assert [(rule, stale) for rule, _, _, stale in said(session, document)] == [("SYN001", True), ("OOM005", False)]
    exact = make_finding(file=str(project / "vision" / "train.py"), text='loss = step(batch); log("🔥", loss)')
    session.publish("input:a.log", project, read(exact))
    assert [(rule, stale) for rule, _, _, stale in said(session, document)] == [("SYN001", True)]


def test_a_listener_that_fails_is_told_and_the_others_go_on(
    session: Session, project: Path, make_finding: Make
) -> None:
    told: list[str] = []
    session.say = lambda text, loud: told.append(text)
    session.changed += [lambda: told.append(str(1 // 0)), lambda: told.append("second")]
    session.publish("input:a.log", project, read(make_finding()))
    assert [text.partition("(")[0] for text in told] == ["showing what changed failed ", "second"]


def test_a_document_that_is_not_open_is_read_from_disk(
    session: Session, project: Path, store: Store, make_finding: Make
) -> None:
    store(make_finding())
    session.refresh()
    path = project / "vision" / "train.py"
    assert said(session, Document(path.as_uri()))[0][2:] == (5, False)
    path.write_text("#\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert said(session, Document(path.as_uri()))[0][2:] == (6, False)
    assert session.reported_sources() == [path]
