"""The language server: pygls events to feature hooks, and the state that features share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from necropsy import __version__
from necropsy_lsp.feature import all_features
from necropsy_lsp.jobs import Jobs
from necropsy_lsp.session import Session
from necropsy_lsp.stored import ReportStore, Stored
from necropsy_lsp.watch import Watch


class NecropsyServer(LanguageServer):
    """A server with every feature of `necropsy_lsp.features` attached."""

    def __init__(self) -> None:
        super().__init__("necropsy-lsp", __version__)
        self.reports = ReportStore()
        self.session = Session()
        self.jobs = Jobs(self)
        self.watch = Watch(self)
        self.features = [feature(self) for feature in all_features()]
        self.feature(types.INITIALIZED)(_initialized)
        self.feature(types.SHUTDOWN)(_shutdown)
        self.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(_did_change_watched_files)
        self.feature(types.TEXT_DOCUMENT_DID_OPEN)(_did_open)
        self.feature(types.TEXT_DOCUMENT_DID_CHANGE)(_did_change)
        self.feature(types.TEXT_DOCUMENT_DID_SAVE)(_did_save)
        self.feature(types.TEXT_DOCUMENT_DID_CLOSE)(_did_close)

    def folders(self) -> list[Path]:
        """The workspace folders that are on this machine's disk."""
        uris = [folder.uri for folder in self.workspace.folders.values()] or [self.workspace.root_uri]
        paths = [to_fs_path(uri) for uri in uris if uri]
        return [Path(path) for path in paths if path]

    def stored_findings(self, projects: Iterable[Path]) -> list[Stored]:
        """Findings stored in these project folders; reports that are unusable are named in the client's log."""
        found = self.reports.findings(projects)
        for complaint in self.reports.complaints:
            self.window_log_message(types.LogMessageParams(type=types.MessageType.Warning, message=complaint))
        self.reports.complaints.clear()
        return found


def _initialized(server: NecropsyServer, params: types.InitializedParams) -> None:
    server.watch.start()
    for feature in server.features:
        feature.started()


def _shutdown(server: NecropsyServer, params: None) -> None:
    server.watch.stop()
    server.jobs.cancel_all()
    for feature in server.features:
        feature.stopping()


def _did_change_watched_files(server: NecropsyServer, params: types.DidChangeWatchedFilesParams) -> None:
    server.watch.told(params.changes)


def _did_open(server: NecropsyServer, params: types.DidOpenTextDocumentParams) -> None:
    document = server.workspace.get_text_document(params.text_document.uri)
    for feature in server.features:
        feature.opened(document)


def _did_change(server: NecropsyServer, params: types.DidChangeTextDocumentParams) -> None:
    document = server.workspace.get_text_document(params.text_document.uri)
    for feature in server.features:
        feature.changed(document)


def _did_save(server: NecropsyServer, params: types.DidSaveTextDocumentParams) -> None:
    document = server.workspace.get_text_document(params.text_document.uri)
    for feature in server.features:
        feature.saved(document)


def _did_close(server: NecropsyServer, params: types.DidCloseTextDocumentParams) -> None:
    document = server.workspace.get_text_document(params.text_document.uri)
    for feature in server.features:
        feature.closed(document)
