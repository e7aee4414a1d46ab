"""The language server: pygls events to feature hooks, and the state that features share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from necropsy import __version__
from necropsy_lsp.feature import Feature, all_features
from necropsy_lsp.jobs import Jobs
from necropsy_lsp.session import Session
from necropsy_lsp.settings import Given, of_client
from necropsy_lsp.text import Document, Documents
from necropsy_lsp.watch import Watch

_log = logging.getLogger(__name__)


class NecropsyServer(LanguageServer):
    """A server with every feature of `necropsy_lsp.features` attached."""

    def __init__(self) -> None:
        super().__init__("necropsy-lsp", __version__)
        self.session = Session()
        self.session.say = self.say
        self.jobs = Jobs(self)
        self.watch = Watch(self)
        self._tasks: set[asyncio.Task[None]] = set()
        self.features = [feature(self) for feature in all_features()]
        self.feature(types.INITIALIZE)(_initialize)
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

    def configure(self, given: Given | None = None) -> None:
        """Use new settings of the client, folders and projects as they are now, and tell the features."""
        self.session.configure(self.folders(), given)
        self.session.refresh()
        self.watch.renew()
        self.each("configured")

    def each(self, hook: str, *arguments: Any) -> None:
        """Call a hook of every feature."""
        for feature in self.features:
            self.guarded(feature, hook, getattr(feature, hook), *arguments)

    def guarded(self, feature: Feature, what: str, work: Callable[..., object], *arguments: Any) -> None:
        """Do something for a feature: where it fails that is a message, and the server lives on."""
        try:
            work(*arguments)
        except Exception as error:
            name, why = type(feature).__name__, f"{type(error).__name__}: {error}"
            _log.exception("%s.%s failed", name, what)
            self.say(f"{name} failed ({why}); the rest goes on. Please report this.", True)

    def say(self, text: str, loud: bool) -> None:
        """A sentence for the user: in the client's log, or loudly, as a message."""
        if loud:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, f"Necropsy: {text}"))
        self.window_log_message(types.LogMessageParams(types.MessageType.Warning, text))

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something on the server's loop that waits for the client."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _initialize(server: NecropsyServer, params: types.InitializeParams) -> None:
    old = server.workspace
    folders = list(old.folders.values())
    # pygls makes its own kind here and has no hook for another: see `text` for what is wrong with that.
    server.protocol._workspace = Documents(
        old.root_uri, types.TextDocumentSyncKind.Incremental, folders, old.position_encoding
    )
    server.session.configure(server.folders(), of_client(params.initialization_options))
    server.each("initialized")


def _initialized(server: NecropsyServer, params: types.InitializedParams) -> None:
    server.session.refresh()
    server.watch.start()
    server.each("started")


def _shutdown(server: NecropsyServer, params: None) -> None:
    server.watch.stop()
    server.jobs.cancel_all()
    server.each("stopping")


def _did_change_watched_files(server: NecropsyServer, params: types.DidChangeWatchedFilesParams) -> None:
    server.watch.told(params.changes)


def _did_open(server: NecropsyServer, params: types.DidOpenTextDocumentParams) -> None:
    document = server.workspace.get_text_document(params.text_document.uri)
    server.session.opened(document)
    server.each("opened", document)


def _did_change(server: NecropsyServer, params: types.DidChangeTextDocumentParams) -> None:
    document = server.workspace.get_text_document(params.text_document.uri)
    if isinstance(document, Document):
        server.session.edited(document, document.take_edits())
    server.each("changed", document)


def _did_save(server: NecropsyServer, params: types.DidSaveTextDocumentParams) -> None:
    server.each("saved", server.workspace.get_text_document(params.text_document.uri))


def _did_close(server: NecropsyServer, params: types.DidCloseTextDocumentParams) -> None:
    document = server.workspace.get_text_document(params.text_document.uri)
    server.session.closed(document)
    server.each("closed", document)
