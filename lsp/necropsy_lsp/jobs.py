"""Analyses under way: one for each source, the newest wins, shown as progress that can be cancelled.

A *source* is the key under which a `Session` publishes findings, such as `input:/p/run.log`.
Everything here runs on the server's loop and waits for worker processes, never for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec
from lsprotocol import types
from pygls.capabilities import get_capability

from necropsy_lsp.analysis import AnalysisFailed, Request, WholeReport, analyze
from necropsy_lsp.stored import Anchor

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

AT_ONCE: Final = 2  # worker processes, of which the background has one: a command need not queue behind it
SOON_S: Final = 1.0  # in the background, what is over before this shows no progress
PATIENCE_S: Final = 5  # for the client's answer to a progress token
_numbers = itertools.count(1)
_log = logging.getLogger(__name__)


class Bar:
    """One `$/progress` of the client, if it shows such; `cancelled` is called when the user ends it."""

    def __init__(self, server: NecropsyServer, title: str, cancelled: Callable[[], object], delay: float) -> None:
        self._server = server
        self._title = title
        self._cancelled = cancelled
        self._token = f"necropsy-{next(_numbers)}"
        self._percent = -1
        self._shown = False
        self._opening: asyncio.Task[None] | None = None
        if get_capability(server.client_capabilities, "window.work_done_progress", False):
            self._opening = asyncio.ensure_future(self._open(delay))

    async def _open(self, delay: float) -> None:
        await asyncio.sleep(delay)
        progress = self._server.work_done_progress
        try:
            await asyncio.wait_for(progress.create_async(self._token), PATIENCE_S)
        except Exception as error:  # whatever the client refuses it with, the analysis goes on
            _log.info("no progress shown for %s: %s", self._title, error)
            return
        loop = asyncio.get_running_loop()
        token = progress.tokens[self._token]
        token.add_done_callback(lambda f: loop.call_soon_threadsafe(self._cancelled) if f.cancelled() else None)
        progress.begin(self._token, types.WorkDoneProgressBegin(title=self._title, cancellable=True))
        self._shown = True

    def report(self, read: int, size: int | None) -> None:
        """Show how much of the input is read."""
        percent = min(99, 100 * read // size) if size else -1
        if self._shown and percent > self._percent:
            self._percent = percent
            message = f"{read / 1e6:,.1f} of {size / 1e6:,.1f} MB" if size else ""
            report = types.WorkDoneProgressReport(cancellable=True, message=message, percentage=percent)
            self._server.work_done_progress.report(self._token, report)

    def close(self, message: str) -> None:
        """End it with what came out."""
        if self._opening is not None:
            self._opening.cancel()
        if self._shown:
            self._server.work_done_progress.end(self._token, types.WorkDoneProgressEnd(message=message))
        self._server.work_done_progress.tokens.pop(self._token, None)


class Jobs:
    """The analyses of one server."""

    def __init__(self, server: NecropsyServer) -> None:
        self._server = server
        self._running: dict[str, asyncio.Task[Any]] = {}
        self.withdrawn: list[Callable[[str], None]] = []
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._background = asyncio.Semaphore(AT_ONCE - 1)
        self._complaints: dict[str, str] = {}
        self._published: set[str] = set()

    def start(self, source: str, work: Callable[[], Coroutine[Any, Any, None]], delay: float = 0) -> None:
        """Do `work` after `delay` seconds; it replaces what is waiting or running for the source."""

        async def later() -> None:
            await asyncio.sleep(delay)
            await work()

        self.cancel(source)
        task = asyncio.ensure_future(later())
        self._running[source] = task
        task.add_done_callback(lambda t: self._over(source, t))

    def cancel(self, source: str) -> bool:
        """End what is waiting or running for a source; False if there is nothing."""
        task = self._running.pop(source, None)
        return task is not None and task.cancel()

    def cancel_all(self) -> None:
        """End everything: the server is about to leave."""
        for source in list(self._running):
            self.cancel(source)

    def running(self, source: str) -> asyncio.Task[Any] | None:
        """What is waiting or running for a source."""
        return self._running.get(source)

    async def show(self, source: str, request: Request, name: str, *, background: bool = False) -> WholeReport:
        """Analyze once a worker is free and publish the findings; the newest request of a source wins.

        `name` is what findings call the input of a request with text. What nobody waits for is
        done in the `background`. Raises `AnalysisFailed`,
        or `CancelledError` where a newer request, the user or the server's end came first.
        """
        self._take(source)
        async with self._background if background else contextlib.nullcontext(), self._turns:
            report = await self._report(name, request, SOON_S if background else 0)
        if request.text is not None:
            report = named(report, name)
        self._complaints.pop(source, None)
        self._published.add(source)
        self._server.session.publish(source, request.folder, report.findings)
        return report

    def withdraw(self, source: str) -> bool:
        """End what is running for a source and forget what it said; False if there was nothing."""
        cancelled = self.cancel(source)
        known = source in self._published
        self._published.discard(source)
        self._complaints.pop(source, None)
        if known:
            self._server.session.withdraw(source)
        for callback in self.withdrawn:
            callback(source)
        return cancelled or known

    def withdraw_all(self) -> int:
        """Forget all that was analyzed here; returns how many sources there were."""
        return sum(self.withdraw(source) for source in self._published | set(self._running))

    def sources(self) -> set[str]:
        """The sources that are published or under way."""
        return self._published | set(self._running)

    def _take(self, source: str) -> None:
        """Make the current task the one of a source."""
        task = asyncio.current_task()
        assert task is not None
        if self._running.get(source) is not task:
            self.cancel(source)
            self._running[source] = task
            task.add_done_callback(lambda t: self._over(source, t))

    async def _report(self, name: str, request: Request, delay: float) -> WholeReport:
        task = asyncio.current_task()
        assert task is not None
        bar = Bar(self._server, f"Necropsy: {name}", task.cancel, delay)
        said = "cancelled"
        try:
            report = await analyze(request, bar.report)
            said = summary(report)
            return report
        except AnalysisFailed as error:
            said = f"failed: {error}"
            raise
        finally:
            bar.close(said)

    def _over(self, source: str, task: asyncio.Task[Any]) -> None:
        if self._running.get(source) is task:
            del self._running[source]
        if task.cancelled():
            return
        if (error := task.exception()) is not None and not isinstance(error, AnalysisFailed):
            _log.error("analysis of %s", source, exc_info=error)

    def failed(self, source: str, name: str, error: AnalysisFailed) -> None:
        """Say it in the editor, once for the same reason; what the worker printed goes to the log."""
        message = f"{name} was not analyzed: {error}. Findings shown for it may be older."
        if self._complaints.get(source) == message:
            return
        self._complaints[source] = message
        self._server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, message))
        if error.said:
            log = types.LogMessageParams(types.MessageType.Log, f"The worker for {name} printed:\n{error.said}")
            self._server.window_log_message(log)


def named(report: WholeReport, name: str) -> WholeReport:
    """The report of a document's text, which the worker knows as `-`, with the document's name."""

    def anchor(old: Anchor) -> Anchor:
        return msgspec.structs.replace(old, input=name) if old.input == "-" else old

    findings = [
        msgspec.structs.replace(f, anchor=anchor(f.anchor), related=[anchor(a) for a in f.related])
        for f in report.findings
    ]
    inputs = [msgspec.structs.replace(i, path=name) if i.path == "-" else i for i in report.inputs]
    return msgspec.structs.replace(report, findings=findings, inputs=inputs)


def summary(report: WholeReport) -> str:
    """`3 findings`, for the end of a progress bar."""
    count = len(report.findings)
    return "nothing found" if not count else "1 finding" if count == 1 else f"{count} findings"
