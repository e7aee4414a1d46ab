"""One analysis in a worker process: request -> report, within bounds, or a sentence that says why not.

The worker is this interpreter in isolated mode with the server's own module path: nothing
in the folder it works in, nor a user's `PYTHONPATH` or site folder, can stand in for a
library. Cancelling the call kills the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from necropsy.report import SCHEMA
from necropsy_lsp.stored import StoredFinding

_BOOT: Final = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); import necropsy_lsp.worker as w; w.main()"
_FRAME: Final = 64 << 10  # bytes in one line of the worker's answer, more is none
_SAID: Final = 4 << 10  # last bytes of standard error that are kept

Progress = Callable[[int, int | None], None]


class Limits(Struct, frozen=True):
    """What one analysis may take."""

    seconds: float = 600
    memory: int = 4 << 30  # bytes of address space, where the system can limit it
    report: int = 32 << 20  # bytes of JSON


class Request(Struct, frozen=True):
    """What to analyze: `path` from `folder` on, or `text` (of a document) instead of a file.

    `folder` gives the configuration and is where the user's sources are looked for.
    """

    path: str
    folder: Path
    text: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    limits: Limits = Limits()


class Input(msgspec.Struct, frozen=True):
    """An input as the report lists it."""

    path: str
    format: str = ""
    bytes: int = 0


class Issue(msgspec.Struct, frozen=True):
    """What could not be read, and what that means."""

    kind: str
    input: str = ""
    meaning: str = ""
    detail: str = ""


class Run(msgspec.Struct, frozen=True):
    """One rank of the job: how it ended and with what."""

    name: str
    ranks: list[int] = []
    ended: str = ""
    first_error: str = ""
    last: str = ""


class ReportedFinding(StoredFinding, frozen=True, gc=False):
    """A finding with its place in the story: the fingerprint of its cause."""

    explained_by: str = ""


class WholeReport(msgspec.Struct, frozen=True):
    """A report with what the commands and the outline of a log need beyond what is stored."""

    schema: str
    findings: list[ReportedFinding]
    inputs: list[Input] = msgspec.field(default_factory=list)
    issues: list[Issue] = msgspec.field(default_factory=list)
    runs: list[Run] = msgspec.field(default_factory=list)


class AnalysisFailed(Exception):
    """No report; the text is a clause that says why. `said`: the end of what the worker printed."""

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said


async def analyze(request: Request, progress: Progress | None = None) -> WholeReport:
    """Analyze in a process of its own. Raises `AnalysisFailed`; cancelling kills the process."""
    try:
        process = await _start(request)
    except OSError as error:
        raise AnalysisFailed(f"the worker process cannot be started ({error.strerror or error})") from error
    helpers = [asyncio.ensure_future(_feed(process, request.text)), asyncio.ensure_future(_tail(process))]
    try:
        async with asyncio.timeout(request.limits.seconds):
            return decode(await _answer(process, request.limits, progress or _ignore))
    except TimeoutError as error:
        raise AnalysisFailed(f"it took longer than {request.limits.seconds:g} s") from error
    except _Silent as error:
        status = await process.wait()
        said = await helpers[1]
        raise AnalysisFailed(f"{error}{ending(status)}", said or "") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        for helper in helpers:
            helper.cancel()
        await asyncio.shield(asyncio.gather(process.wait(), *helpers, return_exceptions=True))


def decode(data: bytes) -> WholeReport:
    """The report in the worker's answer. Raises `AnalysisFailed` for anything else."""
    try:
        report = msgspec.json.decode(data, type=WholeReport)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise AnalysisFailed(f"the worker's answer is no report ({error})") from error
    if report.schema != SCHEMA:
        raise AnalysisFailed(f"the worker's report has schema {report.schema[:40]!r}, expected {SCHEMA!r}")
    return report


def module_path() -> list[str]:
    """Where this server finds its modules, without the folder it happened to be started in."""
    here = os.getcwd()
    return [entry for entry in sys.path if entry and (sys.flags.safe_path or os.path.abspath(entry) != here)]


def ending(status: int) -> str:
    """How a process ended, to go behind a reason."""
    if status == 0:
        return ""
    if status > 0:
        return f" (exit status {status})"
    try:
        return f" (killed by {signal.Signals(-status).name})"
    except ValueError:
        return f" (killed by signal {-status})"


class _Silent(Exception):
    """The worker's output ended, or went wrong, before a report."""


async def _start(request: Request) -> Process:
    path = "-" if request.text is not None else request.path
    order: dict[str, Any] = {"path": path, "memory": request.limits.memory}
    order |= {"select": request.select, "ignore": request.ignore}
    # One thread for libraries that would reserve address space for each core.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", _BOOT, json.dumps(module_path()), json.dumps(order)),
        stdin=PIPE if request.text is not None else asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=request.folder,
        env=environment,
        limit=_FRAME,
    )


async def _feed(process: Process, text: str | None) -> None:
    """Write the document's text; a worker that ended early is reported by its silence."""
    if process.stdin is None or text is None:
        return
    with contextlib.suppress(OSError):
        for start in range(0, len(text), _FRAME):
            process.stdin.write(text[start : start + _FRAME].encode("utf-8", "replace"))
            await process.stdin.drain()
    process.stdin.close()


async def _tail(process: Process) -> str:
    """The end of what the worker printed: read on, so that it never waits for us."""
    assert process.stderr is not None
    kept = b""
    while data := await process.stderr.read(_FRAME):
        kept = (kept + data)[-_SAID:]
    return kept.decode("utf-8", "replace")


async def _answer(process: Process, limits: Limits, progress: Progress) -> bytes:
    """The report's bytes. Raises `AnalysisFailed` with the worker's reason, or `_Silent`."""
    assert process.stdout is not None
    while True:
        frame = await _frame(process.stdout)
        match frame:
            case {"read": int(read), "size": int() | None as size}:
                progress(read, size)
            case {"report": int(length)} if 0 <= length <= limits.report:
                try:
                    return await process.stdout.readexactly(length)
                except asyncio.IncompleteReadError as error:
                    raise _Silent("the worker ended within its report") from error
            case {"report": int(length)} if length > 0:
                raise AnalysisFailed(
                    f"its report has {length:,} bytes, more than the {limits.report:,} that an editor takes"
                )
            case {"error": str(why)}:
                raise AnalysisFailed(why)
            case _:
                raise AnalysisFailed("the worker's answer makes no sense")


async def _frame(stream: asyncio.StreamReader) -> object:
    try:
        line = await stream.readline()
    except ValueError as error:  # longer than the limit
        raise AnalysisFailed("the worker's answer makes no sense") from error
    if not line:
        raise _Silent("the worker ended without an answer")
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _ignore(read: int, size: int | None) -> None:
    """Progress that nobody looks at."""
