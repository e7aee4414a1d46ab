"""Logs opened in the editor: diagnostics on the log's own lines, its outline, and findings for the open scripts.

The text as it is in the editor, saved or not, goes to a worker process; nothing is parsed
while the user types. A newer text ends the analysis of an older one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from msgspec import Struct, field
from pygls.capabilities import get_capability
from pygls.uris import from_fs_path
from pygls.workspace import TextDocument

from necropsy_lsp.analysis import AnalysisFailed, ReportedFinding, WholeReport
from necropsy_lsp.convert import LEVELS, SEVERITIES, SOURCE
from necropsy_lsp.feature import Feature
from necropsy_lsp.links import LocalFiles
from necropsy_lsp.logview import LogText, Mark, Marks, current, flat, marks_of, outline
from necropsy_lsp.pages import page_uri
from necropsy_lsp.stored import Place
from necropsy_lsp.targets import Target, grounds, open_document, text_target
from necropsy_lsp.text import Document, split_lines

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

LANGUAGES: Final = frozenset({"log", "plaintext", "text", ""})
ENDINGS: Final = frozenset({".log", ".txt", ".out", ".err"})
QUIET_S: Final = 0.7  # without a key stroke, before a changed log is read again
LARGEST: Final = 16 << 20  # characters of a log that an editor's text is analyzed of
PATIENCE_S: Final = 60  # a request for the outline waits so long for the analysis
STEP: Final = 5000  # lines scanned between two looks at the messages
HIERARCHY: Final = "text_document.document_symbol.hierarchical_document_symbol_support"
DESCRIBED: Final = "text_document.publish_diagnostics.code_description_support"
RELATED: Final = "text_document.publish_diagnostics.related_information"


class Log(Struct):
    """An open log: its last report with the text that it speaks of, and what was made of them."""

    report: WholeReport | None = None
    name: str = ""
    text: LogText = field(default_factory=lambda: LogText(""))
    marks: list[Mark] = field(default_factory=list)
    places: Marks = field(default_factory=Marks)
    ready: asyncio.Event = field(default_factory=asyncio.Event)


class Logs(Feature):
    """Analyzes what looks like a log when it is opened and after it changed."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)
        self._logs: dict[str, Log] = {}
        self._grounds: object = None
        server.jobs.withdrawn.append(self._withdrawn)

        @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
        async def symbols(
            params: types.DocumentSymbolParams,
        ) -> list[types.DocumentSymbol] | list[types.SymbolInformation] | None:
            return await self._symbols(params.text_document.uri)

    def started(self) -> None:
        """Remember what analyses rest on."""
        self._grounds = grounds(self.server)

    def opened(self, document: TextDocument) -> None:
        """Analyze the document if it may be a log."""
        if not may_be_log(document):
            return
        if len(document.source) > LARGEST:
            message = (
                f"{PurePath(document.uri).name} is larger than {LARGEST >> 20} MiB and is not analyzed as an open "
                "document. Run the command necropsy.analyzeFile on it."
            )
            self.server.window_log_message(types.LogMessageParams(types.MessageType.Info, message))
            return
        self._logs[document.uri] = Log()
        self._start(document, 0)

    def changed(self, document: TextDocument) -> None:
        """Drop what stands on changed lines, and analyze again when the typing rests."""
        if (log := self._logs.get(document.uri)) is not None:
            self._send(document, current(log.marks, lines_of(document)))
            self._start(document, QUIET_S)

    def closed(self, document: TextDocument) -> None:
        """Forget the log."""
        if self._logs.pop(document.uri, None) is not None:
            self.server.jobs.withdraw(f"open:{document.uri}")
            self._send(document, [])

    def configured(self) -> None:
        """Analyze again, if rules are selected otherwise."""
        if grounds(self.server) == self._grounds:
            return
        self._grounds = grounds(self.server)
        for uri in self._logs:
            self._start(self.server.workspace.get_text_document(uri), QUIET_S)

    def _start(self, document: TextDocument, delay: float) -> None:
        log = self._logs[document.uri]
        log.ready.clear()
        uri, source = document.uri, f"open:{document.uri}"

        async def work() -> None:
            try:
                await self._analyze(uri, log)
            finally:
                if self.server.jobs.running(source) in (None, asyncio.current_task()):  # no newer one took over
                    log.ready.set()

        self.server.jobs.start(source, work, delay)

    def _withdrawn(self, source: str) -> None:
        """Forget a report that was cleared; the log is analyzed again after its next change."""
        uri = source.removeprefix("open:")
        document, log = open_document(self.server, uri), self._logs.get(uri)
        if log is not None and document is not None:
            log.report, log.marks = None, []
            log.ready.set()
            self._send(document, [])

    async def _analyze(self, uri: str, log: Log) -> None:
        document = open_document(self.server, uri)
        if document is None:
            return
        target = text_target(document, self.server)
        text = document.source
        if not await asyncio.to_thread(sniffed, text, target.called):
            return
        try:
            report = await self.server.jobs.show(target.source, target.request, target.called, background=True)
        except AnalysisFailed as error:
            self.server.jobs.failed(target.source, target.called, error)
            return
        log.report, log.name, log.text, log.places = report, target.called, LogText(text), Marks()
        for start in range(0, len(log.text.lines), STEP):
            log.places.scan(log.text.lines, start, start + STEP)
            await asyncio.sleep(0)
        log.marks = self._marks(log, document, target)
        if uri in self._logs:
            now = self.server.workspace.get_text_document(uri)
            self._send(now, current(log.marks, lines_of(now)))

    def _marks(self, log: Log, document: TextDocument, target: Target) -> list[Mark]:
        assert log.report is not None
        settings = self.server.session.settings_for(target.request.folder)
        files = LocalFiles(self.server.folders(), settings.path_mappings)
        related = get_capability(self.server.client_capabilities, RELATED, False)
        described = get_capability(self.server.client_capabilities, DESCRIBED, False)

        def locate(place: Place) -> str | None:
            path = files.find(place.file, place.line, place.text)
            return from_fs_path(str(path)) if path is not None else None

        def convert(
            finding: ReportedFinding, where: types.Range, evidence: list[types.DiagnosticRelatedInformation]
        ) -> types.Diagnostic:
            for item in evidence:
                item.location.uri = item.location.uri or document.uri  # an anchor of this log
            page = page_uri(finding.rule) if described else None
            return types.Diagnostic(
                range=where,
                message=finding.message,
                severity=LEVELS.get(settings.level(finding.rule) or "", SEVERITIES[finding.severity]),
                code=finding.rule,
                code_description=types.CodeDescription(page) if page else None,
                source=SOURCE,
                related_information=evidence or None if related else None,
                data={"fingerprint": finding.fingerprint, "rule": finding.rule},
            )

        shown = [f for f in log.report.findings if settings.shows(f.rule)][: settings.max_findings]
        report = WholeReport(log.report.schema, shown)
        return marks_of(report, log.name, log.text, document.position_codec, locate, convert)

    async def _symbols(self, uri: str) -> list[types.DocumentSymbol] | list[types.SymbolInformation] | None:
        document = open_document(self.server, uri)
        log = self._logs.get(document.uri) if document is not None else None
        if log is None or document is None:
            return None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(log.ready.wait(), PATIENCE_S)
        if log.report is None:
            return None
        tree = outline(log.report, log.name, log.text, log.places, document.position_codec)
        if get_capability(self.server.client_capabilities, HIERARCHY, False):
            return tree
        return list(flat(tree, uri))

    def _send(self, document: TextDocument, diagnostics: list[types.Diagnostic]) -> None:
        self.server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=document.uri, version=document.version, diagnostics=diagnostics)
        )


def lines_of(document: TextDocument) -> Sequence[str]:
    """The lines of a document, without their ends."""
    return document.plain_lines if isinstance(document, Document) else split_lines(document.source)


def may_be_log(document: TextDocument) -> bool:
    """By language and name, which costs nothing; `sniffed` looks at the text."""
    ending = PurePath(document.filename or "").suffix.lower()
    return document.language_id in LANGUAGES or (ending in ENDINGS and document.language_id != "python")


def sniffed(text: str, name: str) -> bool:
    """Whether `necropsy sniff` takes the text for a log. Imports the formats: for a thread, not for the loop."""
    from necropsy_parsers.sniff import HEAD, sniff

    head = text[:HEAD].encode("utf-8", "replace")[:HEAD]
    claim = sniff(head, name) if head else None
    return claim is not None and claim.format.name == "log"
