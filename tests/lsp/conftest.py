"""A project folder with a stored report, made by the engine's own report type."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import client_capabilities
from pytest_lsp.client import register_lsp_features

from necropsy_parsers.records import Anchor

from necropsy.finding import Finding, Place, Severity
from necropsy.report import Report

SOURCE = """\
import torch

def train(loader):
    for batch in loader:
        loss = step(batch); log("🔥", loss.item())
        total = total + loss
"""


@pytest.fixture
def make_finding() -> Callable[..., Finding]:
    """Builds a finding on line 5 of `SOURCE`; `file`, `line`, `text` and `end_line` change its place."""

    def make(**changes: Any) -> Finding:
        text = 'loss = step(batch); log("🔥", loss.item())'
        place: dict[str, Any] = {
            "file": "/home/trainer/projects/vision/train.py",
            "line": 5,
            "function": "train",
            "text": text,
        }
        place |= {name: changes.pop(name) for name in ("file", "line", "text", "end_line") if name in changes}
        finding: dict[str, Any] = {
            "message": "Each step waits for the GPU.",
            "anchor": Anchor("run.log", 6, 25, 2, "RuntimeError: boom"),
            "severity": Severity.ERROR,
            "rule": "SYN001",
            "name": "item-in-loop",
            "code": (Place(**place),),
        }
        return Finding(**finding | changes)

    return make


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A workspace folder with `vision/train.py` and the log that findings quote."""
    folder = tmp_path / "my project"
    (folder / "vision").mkdir(parents=True)
    (folder / "vision" / "train.py").write_text(SOURCE, encoding="utf-8")
    (folder / "run.log").write_text("first\nRuntimeError: boom\n", encoding="utf-8")
    return folder


@pytest.fixture
def store(project: Path) -> Callable[..., Path]:
    """`store(*findings, name=...)` writes a report under the project's `.necropsy/`."""

    def write(*findings: Finding, name: str = "report.json") -> Path:
        path = project / ".necropsy" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(Report("0", findings=list(findings)).to_json()), encoding="utf-8")
        return path

    return write


ANSWER_S = 60  # far above any answer: a server that says nothing fails the test instead of hanging it


class Client(pytest_lsp.LanguageClient):
    """A client of pytest-lsp that also answers registrations, and waits."""

    def __init__(self) -> None:
        super().__init__(converter_factory=default_converter)
        self.watched: list[str] = []
        register_lsp_features(self)

        @self.feature(types.CLIENT_REGISTER_CAPABILITY)  # type: ignore[untyped-decorator]
        def register(params: types.RegistrationParams) -> None:
            for entry in params.registrations:
                if entry.method == types.WORKSPACE_DID_CHANGE_WATCHED_FILES:
                    options: Any = entry.register_options
                    watchers = options["watchers"] if isinstance(options, dict) else options.watchers
                    globs = [watcher["globPattern"] for watcher in watchers]
                    self.watched = [glob if isinstance(glob, str) else glob["pattern"] for glob in globs]

        @self.feature(types.CLIENT_UNREGISTER_CAPABILITY)  # type: ignore[untyped-decorator]
        def unregister(params: types.UnregistrationParams) -> None:
            self.watched = []

    def open(self, path: Path | str, language: str, text: str | None = None) -> str:
        """Open a file, or a document with this text; returns its URI."""
        uri = path.as_uri() if isinstance(path, Path) else path
        if text is None:
            assert isinstance(path, Path)
            text = path.read_bytes().decode()
        self.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, language, 1, text)))
        return uri

    def replace(self, uri: str, version: int, text: str) -> None:
        """Change the whole text of an open document."""
        document = types.VersionedTextDocumentIdentifier(version, uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def wrote(self, *paths: Path) -> None:
        """Tell the server that files changed on disk."""
        events = [types.FileEvent(path.as_uri(), types.FileChangeType.Changed) for path in paths]
        self.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(events))

    async def command(self, name: str, *arguments: Any) -> Any:
        """The answer to `workspace/executeCommand`."""
        return await asyncio.wait_for(
            self.workspace_execute_command_async(types.ExecuteCommandParams(name, list(arguments))), ANSWER_S
        )

    async def until(self, true: Callable[[], Any]) -> Any:
        """Wait until something holds, and return it."""
        async with asyncio.timeout(ANSWER_S):
            while not (value := true()):
                await asyncio.sleep(0.02)
        return value


@asynccontextmanager
async def _connect(*folders: Path, watch: bool = False, name: str = "visual_studio_code", **settings: Any) -> Any:
    client = Client()
    await client.start_io(sys.executable, "-P", "-m", "necropsy_lsp")
    capabilities = client_capabilities(name)
    assert capabilities.workspace is not None
    capabilities.workspace.did_change_watched_files = types.DidChangeWatchedFilesClientCapabilities(watch, watch)
    assert capabilities.text_document is not None
    capabilities.text_document.diagnostic = None  # pushed ones are what `client.diagnostics` holds
    await client.initialize_session(
        types.InitializeParams(
            capabilities,
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders],
            initialization_options=settings,
        )
    )
    try:
        yield client
        await asyncio.wait_for(client.shutdown_session(), ANSWER_S)
    finally:
        if client._server is not None and client._server.returncode is None:
            client._server.kill()
        await client.stop()  # type: ignore[no-untyped-call]


@pytest.fixture
def connect() -> Callable[..., Any]:
    """Starts a server process and a client on it, to be used with `async with`; settings are keywords."""
    return _connect
