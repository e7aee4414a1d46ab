"""`workspace/executeCommand` through a real server: answers, findings, progress, cancelling, a worker that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

LOG = """\
Traceback (most recent call last):
  File "/home/trainer/projects/vision/train.py", line 5, in train
    loss = step(batch); log("🔥", loss.item())
RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0
"""
# Minutes of work for the analysis; it is always cancelled.
ENDLESS = "".join(f"[rank{n % 8}]: RuntimeError: no {n}\n" for n in range(1_000_000))

Connect = Callable[..., Any]


@pytest.fixture
def failed(project: Path) -> Path:
    """The project with a log of a failed run."""
    (project / "run.log").write_text(LOG, encoding="utf-8")
    return project


def lines(client: Any, path: Path) -> list[int]:
    return [d.range.start.line for d in client.diagnostics.get(path.as_uri(), [])]


def workers(server: int) -> list[int]:
    """The processes that the server started."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return [int(child) for child in children]


def test_analyze_file_puts_the_findings_on_the_script(failed: Path, connect: Connect) -> None:
    train = failed / "vision" / "train.py"

    async def talk() -> tuple[Any, Any]:
        async with connect(failed) as client:
            client.open(train, "python")
            answer = await client.command("necropsy.analyzeFile", (failed / "run.log").as_uri())
            await client.until(lambda: lines(client, train) == [4])
            cleared = await client.command("necropsy.clear")
            await client.until(lambda: lines(client, train) == [])
            return answer, cleared

    answer, cleared = asyncio.run(talk())
    assert answer.pop("seconds") > 0
    assert answer.pop("first").startswith("CRS")
    assert answer == {
        "ok": True,
        "source": f"input:{failed / 'run.log'}",
        "inputs": [{"path": "run.log", "format": "log"}],
        "findings": 1,
        "roots": 1,
        "severities": {"fatal": 1},
        "issues": [],
    }
    assert cleared == {"ok": True, "cleared": 1}


def test_analyze_folder_reads_its_files_as_one_job(failed: Path, connect: Connect) -> None:
    logs = failed / "logs"
    logs.mkdir()
    for rank in range(2):
        (logs / f"rank{rank}.log").write_text(LOG, encoding="utf-8")

    async def talk() -> Any:
        async with connect(failed) as client:
            return await client.command("necropsy.analyzeFolder", {"uri": logs.as_uri()})

    answer = asyncio.run(talk())
    assert [i["path"] for i in answer["inputs"]] == ["logs/rank0.log", "logs/rank1.log"]
    assert answer["findings"] == 1


def alive(process: int) -> bool:
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())  # empty for a zombie
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("uri", ["", "untitled:Untitled-1"])
def test_analyze_document_reads_what_is_not_saved(failed: Path, connect: Connect, uri: str) -> None:
    train, log = failed / "vision" / "train.py", failed / "run.log"
    log.write_text("nothing\n", encoding="utf-8")

    async def talk() -> Any:
        async with connect(failed) as client:
            client.open(train, "python")
            opened = client.open(uri or log, "markdown", LOG)
            answer = await client.command("necropsy.analyzeDocument", opened)
            await client.until(lambda: lines(client, train) == [4])
            return answer

    answer = asyncio.run(talk())
    assert (answer["ok"], answer["findings"]) == (True, 1)
    assert answer["inputs"][0]["path"] == (uri or "run.log")


@pytest.mark.parametrize(
    ("command", "argument", "says"),
    [
        ("analyzeFile", None, "Nothing to analyze was named"),
        ("analyzeFile", 3, "Nothing to analyze was named"),
        ("analyzeFile", "gone.log", "does not exist"),
        ("analyzeFile", "vision", "is not a file"),
        ("analyzeFile", "a\0b", "is not on this machine"),
        ("analyzeFile", "//server/share/run.log", "is not on this machine"),
        ("analyzeFile", "https://example.org/run.log", "is not on this machine"),
        ("analyzeFolder", "run.log", "is not a folder"),
        ("analyzeDocument", "file:///gone.log", "is not open"),
    ],
)
def test_what_cannot_be_analyzed(failed: Path, connect: Connect, command: str, argument: Any, says: str) -> None:
    async def talk() -> Any:
        async with connect(failed) as client:
            return await client.command(f"necropsy.{command}", *([] if argument is None else [argument]))

    answer = asyncio.run(talk())
    assert answer["ok"] is False
    assert says in answer["error"]


def test_progress_begins_and_ends(failed: Path, connect: Connect) -> None:
    async def talk() -> Any:
        async with connect(failed) as client:
            await client.command("necropsy.analyzeFile", str(failed / "run.log"))
            await client.until(lambda: [r for r in client.progress_reports.values() if r and r[-1].kind == "end"])
            return list(client.progress_reports.values())

    ((begin, *_, end),) = asyncio.run(talk())
    assert (begin.title, begin.cancellable) == ("Necropsy: run.log", True)
    assert end.message == "1 finding"


@pytest.mark.parametrize("way", ["progress", "request", "newer"])
def test_a_long_analysis_can_be_ended(failed: Path, connect: Connect, way: str) -> None:
    (failed / "run.log").write_text(ENDLESS, encoding="utf-8")
    train = failed / "vision" / "train.py"

    async def talk() -> Any:
        async with connect(failed) as client:
            request = types.ExecuteCommandParams("necropsy.analyzeFile", [str(failed / "run.log")])
            running = asyncio.ensure_future(
                client.protocol.send_request_async(types.WORKSPACE_EXECUTE_COMMAND, request, msg_id="slow")
            )
            await client.until(lambda: any(client.progress_reports.values()))
            client.open(train, "python")  # meanwhile the server answers
            await client.until(lambda: train.as_uri() in client.diagnostics)
            if way == "progress":
                (token,) = client.progress_reports
                client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
            elif way == "request":
                client.cancel_request(types.CancelParams("slow"))
                with pytest.raises(Exception, match="cancel"):
                    await asyncio.wait_for(running, 60)
            else:
                (failed / "run.log").write_text(LOG, encoding="utf-8")
                await client.command("necropsy.analyzeFile", str(failed / "run.log"))
            answer = await asyncio.wait_for(running, 60) if way != "request" else None
            if sys.platform == "linux":
                await client.until(lambda: not workers(client._server.pid))
            return answer

    answer = asyncio.run(talk())
    if answer is not None:
        assert (answer["ok"], answer["error"]) == (False, "cancelled")


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the process in /proc")
def test_a_worker_that_is_killed_is_a_message(failed: Path, connect: Connect) -> None:
    (failed / "run.log").write_text(ENDLESS, encoding="utf-8")

    async def talk() -> Any:
        async with connect(failed) as client:
            running = asyncio.ensure_future(client.command("necropsy.analyzeFile", str(failed / "run.log")))
            (worker,) = await client.until(lambda: workers(client._server.pid))
            os.kill(worker, signal.SIGKILL)
            answer = await running
            (failed / "run.log").write_text(LOG, encoding="utf-8")
            again = await client.command("necropsy.analyzeFile", str(failed / "run.log"))
            return answer, again, [m.message for m in client.messages]

    answer, again, messages = asyncio.run(talk())
    assert answer["error"] == "the worker ended without an answer (killed by SIGKILL)"
    assert [m for m in messages if m.startswith("run.log was not analyzed: the worker ended")]
    assert again["findings"] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the process in /proc")
def test_the_worker_ends_with_the_server(failed: Path, connect: Connect) -> None:
    (failed / "run.log").write_text(ENDLESS, encoding="utf-8")

    async def talk() -> None:
        async with connect(failed) as client:
            running = asyncio.ensure_future(client.command("necropsy.analyzeFile", str(failed / "run.log")))
            (worker,) = await client.until(lambda: workers(client._server.pid))
            client._server.kill()
            await client.until(lambda: not alive(worker))
            running.cancel()
            client.error = RuntimeError("killed on purpose")  # nobody to say goodbye to

    asyncio.run(talk())


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the process in /proc")
def test_leaving_ends_the_worker(failed: Path, connect: Connect) -> None:
    (failed / "run.log").write_text(ENDLESS, encoding="utf-8")

    async def talk() -> int:
        async with connect(failed) as client:
            running = asyncio.ensure_future(client.command("necropsy.analyzeFile", str(failed / "run.log")))
            (worker,) = await client.until(lambda: workers(client._server.pid))
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
        await client.until(lambda: not alive(worker))
        running.cancel()
        return int(client._server.returncode)

    assert asyncio.run(talk()) == 0
