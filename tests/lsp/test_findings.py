"""`necropsy.findings`, `necropsy.report`, `necropsy.rules` and the notification, through a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from necropsy.finding import Cost, Finding, Severity

Connect = Callable[..., Any]
Make = Callable[..., Finding]


def ask(project: Path, connect: Connect, command: str, *arguments: Any) -> Any:
    async def talk() -> Any:
        async with connect(project) as client:
            return await client.command(command, *arguments)

    return asyncio.run(talk())


def test_every_finding_with_its_place_its_cost_and_its_evidence(
    project: Path, store: Callable[..., Path], make_finding: Make, connect: Connect
) -> None:
    store(make_finding(cost=Cost(12_000_000, 0.25, "measured"), ranks=(1,)))
    (entry,) = ask(project, connect, "necropsy.findings")
    assert (entry["rule"], entry["severity"], entry["role"], entry["stale"]) == ("SYN001", "error", "root", False)
    assert entry["uri"] == (project / "vision" / "train.py").as_uri()
    assert entry["line"] == 4
    assert (entry["ns"], entry["share"], entry["ranks"]) == (12_000_000, 0.25, [1])
    assert "12" in entry["price"]
    (evidence,) = entry["evidence"]
    assert evidence == {
        "label": "RuntimeError: boom",
        "input": "run.log",
        "uri": f"file://{project}/run.log".replace(" ", "%20"),
        "line": 1,
    }


def test_the_line_moves_with_the_open_text_and_goes_stale(
    project: Path, store: Callable[..., Path], make_finding: Make, connect: Connect
) -> None:
    store(make_finding())
    train = project / "vision" / "train.py"

    async def talk() -> tuple[Any, Any]:
        async with connect(project) as client:
            uri = client.open(train, "python")
            client.replace(uri, 2, "# one line more\n" + train.read_text(encoding="utf-8"))
            (moved,) = await client.command("necropsy.findings")
            client.replace(uri, 3, "# one line more\n" + train.read_text(encoding="utf-8").replace("loss.item()", "0"))
            (stale,) = await client.command("necropsy.findings")
            return moved, stale

    moved, stale = asyncio.run(talk())
    assert (moved["line"], moved["stale"]) == (5, False)
    assert (stale["line"], stale["stale"]) == (5, True)


def test_worst_first_and_what_has_no_local_file_without_place(
    project: Path, store: Callable[..., Path], make_finding: Make, connect: Connect
) -> None:
    store(
        make_finding(rule="CMP001", severity=Severity.NOTE),
        make_finding(rule="OOM005", severity=Severity.FATAL, file="/elsewhere/other.py"),
        make_finding(rule="CRS001", severity=Severity.WARNING, code=()),
    )
    found = ask(project, connect, "necropsy.findings")
    assert [entry["rule"] for entry in found] == ["OOM005", "CRS001", "CMP001"]
    assert [entry["uri"] != "" for entry in found] == [False, False, True]
    assert found[0]["file"] == "/elsewhere/other.py"


def test_what_a_comment_silences_is_not_listed(
    project: Path, store: Callable[..., Path], make_finding: Make, connect: Connect
) -> None:
    store(make_finding())
    train = project / "vision" / "train.py"
    train.write_text(train.read_text(encoding="utf-8").replace("loss.item())", "loss.item())  # necropsy: ignore"))
    assert ask(project, connect, "necropsy.findings") == []


def test_the_report_tells_each_finding_once(
    project: Path, store: Callable[..., Path], make_finding: Make, connect: Connect
) -> None:
    store(make_finding(), name="one.json")
    store(make_finding(code=(), rule="CRS001"), make_finding(), name="two.json")
    text = ask(project, connect, "necropsy.report")
    assert text.count("Each step waits for the GPU") == 2
    assert "`/home/trainer/projects/vision/train.py:5`" in text
    assert ask(project.parent / "my project" / "vision", connect, "necropsy.report").startswith("# Necropsy")


def test_every_rule_is_listed(project: Path, connect: Connect) -> None:
    rules = ask(project, connect, "necropsy.rules")
    codes = [rule["code"] for rule in rules]
    assert codes == sorted(set(codes))
    assert {"CMP001", "OOM005", "SYN001"} <= set(codes)
    assert all(rule["title"] for rule in rules)
