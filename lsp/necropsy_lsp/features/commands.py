"""`workspace/executeCommand`: analyze a file, a folder or the open document; forget what was analyzed.

Each answers with a small object: `{"ok": true, "source": ..., "findings": 3, ...}` or
`{"ok": false, "error": "..."}`. The findings themselves appear as those of any other source.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pygls.uris import to_fs_path

from necropsy_lsp.analysis import AnalysisFailed, WholeReport
from necropsy_lsp.feature import Feature
from necropsy_lsp.targets import Target, open_document, path_target, text_target

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

ANALYZE_FILE: Final = "necropsy.analyzeFile"
ANALYZE_FOLDER: Final = "necropsy.analyzeFolder"
ANALYZE_DOCUMENT: Final = "necropsy.analyzeDocument"
CLEAR: Final = "necropsy.clear"

Answer = dict[str, Any]


class Refused(Exception):
    """A command that cannot be carried out; the text says why and what to give instead."""


class Commands(Feature):
    """Registers the commands."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)

        @server.command(ANALYZE_FILE)
        async def analyze_file(*arguments: Any) -> Answer:
            return await self._answer(lambda: self._on_disk(arguments, folder=False))

        @server.command(ANALYZE_FOLDER)
        async def analyze_folder(*arguments: Any) -> Answer:
            return await self._answer(lambda: self._on_disk(arguments, folder=True))

        @server.command(ANALYZE_DOCUMENT)
        async def analyze_document(*arguments: Any) -> Answer:
            return await self._answer(lambda: self._document(arguments))

        @server.command(CLEAR)
        def clear(*arguments: Any) -> Answer:
            return self._clear(arguments)

    def stopping(self) -> None:
        """End the requests that wait for an answer: pygls 2.1 fails on them, it walks a dict that they leave."""
        protocol = self.server.protocol
        pending: dict[Any, Any] = getattr(protocol, "_request_futures", {})
        for number, future in list(pending.items()):
            if number != protocol.msg_id and not future.done():
                future.cancel()

    async def _answer(self, target_of: Callable[[], Target]) -> Answer:
        began = time.monotonic()
        try:
            target = target_of()
        except Refused as error:
            return {"ok": False, "error": str(error)}
        self._end_with_request()
        try:
            report = await self.server.jobs.show(target.source, target.request, target.called)
        except AnalysisFailed as error:
            self.server.jobs.failed(target.source, target.called, error)
            return {"ok": False, "source": target.source, "error": str(error)}
        except asyncio.CancelledError:
            # Not passed on: pygls would leave the request without an answer.
            return {"ok": False, "source": target.source, "error": "cancelled"}
        return {"ok": True, "source": target.source, **summary(report), "seconds": round(time.monotonic() - began, 3)}

    def _end_with_request(self) -> None:
        """Let `$/cancelRequest` end the current task: pygls only cancels the answer of a command."""
        task, protocol = asyncio.current_task(), self.server.protocol
        answer = getattr(protocol, "_request_futures", {}).get(protocol.msg_id)

        def end(future: Any) -> None:
            if future.cancelled() and task is not None:
                task.cancel()

        if answer is not None:
            answer.add_done_callback(end)

    def _on_disk(self, arguments: tuple[Any, ...], *, folder: bool) -> Target:
        what = "a folder" if folder else "a file"
        path = self._path(arguments, what)
        if not os.path.exists(path):
            raise Refused(f"{path} does not exist. Give the URI or path of {what}.")
        if os.path.isdir(path) != folder:
            raise Refused(f"{path} is not {what}. Use necropsy.{'analyzeFile' if folder else 'analyzeFolder'} for it.")
        if not folder and not os.path.isfile(path):
            raise Refused(f"{path} is neither a file nor a folder. Give the URI or path of a file.")
        return path_target(path, self.server)

    def _path(self, arguments: tuple[Any, ...], what: str) -> Path:
        text = text_of(arguments)
        if not text:
            raise Refused(f"Nothing to analyze was named. Give the URI or path of {what}.")
        found = to_fs_path(text) if "://" in text or text.startswith("file:") else text
        if found is None or "\0" in found or found.startswith(("//", "\\\\")):
            raise Refused(f"{text!r} is not on this machine. Give the URI or path of {what}.")
        folders = self.server.folders()
        return Path(os.path.abspath(folders[0] / found if folders else found))

    def _document(self, arguments: tuple[Any, ...]) -> Target:
        uri = text_of(arguments)
        document = open_document(self.server, uri)
        if document is None:
            raise Refused("That document is not open. Give the URI of an open document.")
        return text_target(document, self.server)

    def _clear(self, arguments: tuple[Any, ...]) -> Answer:
        """Forget one source, or the sources of one document or file, or without arguments all."""
        jobs, text = self.server.jobs, text_of(arguments)
        if not text:
            return {"ok": True, "cleared": jobs.withdraw_all()}
        path, document = to_fs_path(text) if "://" in text else text, open_document(self.server, text)
        meant = {text, f"open:{document.uri if document is not None else text}", f"input:{path}"}
        return {"ok": True, "cleared": sum(jobs.withdraw(source) for source in meant & jobs.sources())}


def text_of(arguments: tuple[Any, ...]) -> str:
    """The URI or path in the first argument: a string, or an object with `uri`, `path` or `textDocument`."""
    first = arguments[0] if arguments else ""
    if isinstance(first, dict):
        first = first.get("textDocument", first)
        first = first.get("uri") or first.get("path") if isinstance(first, dict) else first
    return first if isinstance(first, str) else str(getattr(first, "uri", "") or "")


def summary(report: WholeReport) -> Answer:
    """What came out, in small: the editor's message after a command."""
    roots = [finding for finding in report.findings if finding.role == "root"]
    severities: dict[str, int] = {}
    for finding in report.findings:
        severities[finding.severity] = severities.get(finding.severity, 0) + 1
    return {
        "inputs": [{"path": i.path, "format": i.format} for i in report.inputs[:20]],
        "findings": len(report.findings),
        "roots": len(roots),
        "severities": severities,
        "first": f"{roots[0].rule}: {roots[0].message}" if roots else "",
        "issues": [": ".join(filter(None, (i.input, i.meaning, i.detail))) for i in report.issues[:20]],
    }
