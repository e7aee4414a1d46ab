"""Configured inputs: found, watched by the client or polled, analyzed again when they change."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from necropsy_lsp.watch import input_of, inside, matching

TEXT = """\
Traceback (most recent call last):
  File "/home/trainer/projects/vision/train.py", line 5, in train
    loss = step(batch); log("🔥", loss.item())
RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0
"""

Connect = Callable[..., Any]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.log", {"a.log"}),
        ("logs/*.log", {"logs/b.log"}),
        ("**/*.log", {"a.log", "logs/b.log", "logs/deep/c.log"}),
        ("**/c.log", {"logs/deep/c.log"}),
        ("logs/**", {"logs/b.log", "logs/t.json", "logs/deep/c.log"}),
        ("logs/*.{log,json}", {"logs/b.log", "logs/t.json"}),
        ("logs/?.log", {"logs/b.log"}),
        (".hidden/*.log", {".hidden/h.log"}),
        ("logs/", {"logs"}),
        ("*/deep/", {"logs/deep"}),
        ("./a.log", {"a.log"}),
        ("[", set()),
        ("", set()),
        ("/", set()),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, found: set[str]) -> None:
    names = ("a.log", "logs/b.log", "logs/t.json", "logs/deep/c.log", ".hidden/h.log", "node_modules/n.log")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert {p.relative_to(tmp_path).as_posix() for p in matching(tmp_path, [pattern])} == found
    changed = {input_of(tmp_path / name, tmp_path, pattern) for name in names if pattern.strip("/")} - {None}
    assert {p.relative_to(tmp_path).as_posix() for p in changed if p} == found


def test_patterns_stay_in_their_folder(tmp_path: Path) -> None:
    assert [p for p in ("logs/*.log", "../x.log", "a/../../x", "/etc/*", "") if inside(p)] == ["logs/*.log"]
    assert input_of(tmp_path.parent / "x.log", tmp_path, "*.log") is None


def lines(client: Any, path: Path) -> list[int]:
    return [d.range.start.line for d in client.diagnostics.get(path.as_uri(), [])]


@pytest.mark.parametrize("watch", [True, False], ids=["watched", "polled"])
def test_an_input_from_its_first_to_its_last_day(project: Path, connect: Connect, watch: bool) -> None:
    train, log = project / "vision" / "train.py", project / "logs" / "run.log"
    log.parent.mkdir()
    log.write_text(TEXT, encoding="utf-8")

    async def talk() -> Any:
        async with connect(project, watch=watch, inputs=["logs/*.log"]) as client:

            def tell() -> None:
                if watch:
                    client.wrote(log)

            client.open(train, "python")
            await client.until(lambda: lines(client, train) == [4])
            log.write_text("all is well\n", encoding="utf-8")  # fixed and run again
            tell()
            await client.until(lambda: lines(client, train) == [])
            log.write_text("once more\n" + TEXT, encoding="utf-8")
            tell()
            await client.until(lambda: lines(client, train) == [4])
            log.unlink()
            tell()
            await client.until(lambda: lines(client, train) == [])
            return set(client.watched)

    assert asyncio.run(talk()) == ({".necropsy/*.json", "pyproject.toml", "logs/*.log"} if watch else set())


def test_two_folders_and_a_folder_as_one_input(project: Path, tmp_path: Path, connect: Connect) -> None:
    other = tmp_path / "other"
    scripts = [project / "vision" / "train.py", other / "eval.py"]
    other.mkdir()
    shutil.copy(scripts[0], scripts[1])
    for folder, text in ((project, TEXT), (other, TEXT.replace("train.py", "eval.py"))):
        (folder / "runs" / "last").mkdir(parents=True)
        for rank in range(2):
            (folder / "runs" / "last" / f"rank{rank}.log").write_text(text, encoding="utf-8")

    async def talk() -> Any:
        async with connect(project, other, watch=True, inputs=["runs/*/"]) as client:
            for script in scripts:
                client.open(script, "python")
            await client.until(lambda: all(lines(client, script) == [4] for script in scripts))
            (project / "runs" / "last" / "rank0.log").write_text("", encoding="utf-8")
            (project / "runs" / "last" / "rank1.log").write_text("well\n", encoding="utf-8")
            client.wrote(project / "runs" / "last" / "rank1.log")
            await client.until(lambda: lines(client, scripts[0]) == [])
            return lines(client, scripts[1])

    assert asyncio.run(talk()) == [4]


def test_a_log_that_never_rests_is_read_nevertheless(project: Path, connect: Connect) -> None:
    train, log = project / "vision" / "train.py", project / "run.log"
    log.write_text("begins\n", encoding="utf-8")

    async def talk() -> None:
        async with connect(project, watch=True, inputs=["run.log"]) as client:
            client.open(train, "python")

            async def write() -> None:
                with log.open("a", encoding="utf-8") as file:
                    file.write(TEXT)
                    while True:
                        file.write("step\n")
                        file.flush()
                        client.wrote(log)
                        await asyncio.sleep(0.1)

            writing = asyncio.ensure_future(write())
            await client.until(lambda: lines(client, train) == [4])
            writing.cancel()

    asyncio.run(talk())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
def test_what_cannot_be_read_is_no_trouble(project: Path, connect: Connect) -> None:
    os.mkfifo(project / "pipe.log")
    (project / "binary.log").write_bytes(bytes(range(256)) * 40)
    (project / "run.log").write_text(TEXT, encoding="utf-8")
    train = project / "vision" / "train.py"

    async def talk() -> None:
        async with connect(project, inputs=["*.log"]) as client:
            client.open(train, "python")
            await client.until(lambda: lines(client, train) == [4])

    asyncio.run(talk())
