"""The server as an editor runs it: a process, JSON-RPC over stdio or TCP, real files."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from necropsy_parsers.records import Anchor

from necropsy.finding import Finding, Related, Severity
from necropsy_lsp.__main__ import main, tcp_address

SERVER = ("-P", "-m", "necropsy_lsp")
ANSWER_S = 30  # far above any answer: a server that says nothing fails the test instead of hanging it

Make = Callable[..., Finding]
Store = Callable[..., Path]


class Editor:
    """One open `vision/train.py` and the diagnostics that the server published, in order."""

    def __init__(self, project: Path) -> None:
        self.client: Any = LanguageClient("editor", "1")  # Any: pygls leaves parts of it without types
        self.path = project / "vision" / "train.py"
        self.uri = self.path.as_uri()
        self.project = project
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.logged: list[str] = []

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params)

        @self.client.feature(types.WINDOW_LOG_MESSAGE)  # type: ignore[untyped-decorator]
        def log(params: types.LogMessageParams) -> None:
            self.logged.append(params.message)

    async def initialize(self, *encodings: types.PositionEncodingKind, related: bool = True) -> types.InitializeResult:
        capabilities = types.ClientCapabilities(
            general=types.GeneralClientCapabilities(position_encodings=list(encodings) or None),
            text_document=types.TextDocumentClientCapabilities(
                publish_diagnostics=types.PublishDiagnosticsClientCapabilities(related_information=related)
            ),
        )
        folder = types.WorkspaceFolder(self.project.as_uri(), self.project.name)
        params = types.InitializeParams(capabilities, root_uri=folder.uri, workspace_folders=[folder])
        result: types.InitializeResult = await self.client.initialize_async(params)
        self.client.initialized(types.InitializedParams())
        return result

    async def answer(self) -> list[types.Diagnostic]:
        params = await asyncio.wait_for(self.published.get(), ANSWER_S)
        assert params.uri == self.uri
        return list(params.diagnostics)

    async def open(self) -> list[types.Diagnostic]:
        item = types.TextDocumentItem(self.uri, "python", 1, self.path.read_text(encoding="utf-8"))
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await self.answer()

    async def save(self) -> list[types.Diagnostic]:
        document = types.TextDocumentIdentifier(self.uri)
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))
        return await self.answer()

    async def insert(self, line: int, text: str) -> list[types.Diagnostic]:
        at = types.Position(line, 0)
        change = types.TextDocumentContentChangePartial(types.Range(at, at), text)
        document = types.VersionedTextDocumentIdentifier(2, self.uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        return await self.answer()

    async def close(self) -> list[types.Diagnostic]:
        document = types.TextDocumentIdentifier(self.uri)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))
        return await self.answer()


@asynccontextmanager
async def editor_on(project: Path) -> AsyncIterator[Editor]:
    """An editor with its own server process; leaves as the protocol asks."""
    editor = Editor(project)
    await editor.client.start_io(sys.executable, *SERVER)
    try:
        yield editor
        await editor.client.shutdown_async(None)
    finally:
        editor.client.exit(None)
        await editor.client.stop()


def ends(diagnostics: list[types.Diagnostic]) -> list[tuple[int, int, int]]:
    return [(d.range.start.line, d.range.start.character, d.range.end.character) for d in diagnostics]


@pytest.mark.parametrize(
    ("offered", "end"),
    [
        ((), 50),  # UTF-16 is what a client that says nothing means: the flame is two units
        ((types.PositionEncodingKind.Utf32, types.PositionEncodingKind.Utf16), 49),
        ((types.PositionEncodingKind.Utf8,), 52),
    ],
    ids=["utf-16", "utf-32", "utf-8"],
)
def test_open_shows_a_stored_finding_on_its_line(
    project: Path, store: Store, make_finding: Make, offered: tuple[types.PositionEncodingKind, ...], end: int
) -> None:
    store(make_finding())

    async def talk() -> list[types.Diagnostic]:
        async with editor_on(project) as editor:
            await editor.initialize(*offered)
            return await editor.open()

    (diagnostic,) = asyncio.run(talk())
    assert ends([diagnostic]) == [(4, 8, end)]
    assert (diagnostic.code, diagnostic.source) == ("SYN001", "necropsy")
    assert diagnostic.severity is types.DiagnosticSeverity.Error
    assert (diagnostic.data or {})["fingerprint"] == make_finding().fingerprint


def test_a_document_from_open_to_close(project: Path, store: Store, make_finding: Make) -> None:
    second = make_finding(line=6, text="total = total + loss", severity=Severity.NOTE, rule="MEM001")

    async def talk() -> list[list[types.Diagnostic]]:
        async with editor_on(project) as editor:
            await editor.initialize()
            steps = [await editor.open()]
            store(make_finding(), second)
            steps += [await editor.save(), await editor.insert(4, "        print(1)\n"), await editor.close()]
            return steps

    opened, saved, edited, closed = asyncio.run(talk())
    assert opened == []  # no report yet
    assert ends(saved) == [(4, 8, 50), (5, 8, 28)]
    assert [d.severity for d in saved] == [types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Information]
    assert ends(edited) == [(5, 8, 50), (6, 8, 28)]  # with their lines
    assert closed == []


def test_only_what_means_this_document_is_shown(project: Path, store: Store, make_finding: Make) -> None:
    (project / "other").mkdir()
    (project / "other" / "train.py").touch()
    store(
        make_finding(file="/home/trainer/projects/other/train.py", rule="AAA001"),  # a better file exists
        make_finding(file="/home/trainer/projects/vision/eval.py", rule="AAA002"),
        make_finding(text="loss = step(batch)", rule="AAA003"),  # the line changed since
        make_finding(file="C:\\jobs\\vision\\train.py", rule="SYN001"),
    )

    async def talk() -> list[types.Diagnostic]:
        async with editor_on(project) as editor:
            await editor.initialize()
            return await editor.open()

    assert [d.code for d in asyncio.run(talk())] == ["SYN001"]


@pytest.mark.parametrize("supported", [True, False])
def test_evidence_links_to_files_that_exist(project: Path, store: Store, make_finding: Make, supported: bool) -> None:
    gone, here = (Related(Anchor(name, 0, 5, 1, "first"), name) for name in ("gone.log", str(project / "run.log")))
    store(make_finding(related=(gone, here)))

    async def talk() -> list[types.Diagnostic]:
        async with editor_on(project) as editor:
            await editor.initialize(related=supported)
            return await editor.open()

    (diagnostic,) = asyncio.run(talk())
    log = (project / "run.log").as_uri()
    listed = [(r.location.uri, r.location.range.start.line) for r in diagnostic.related_information or ()]
    assert listed == ([(log, 1), (log, 0)] if supported else [])


def test_a_report_that_cannot_be_read_is_named(project: Path, store: Store, make_finding: Make) -> None:
    store(make_finding())
    (project / ".necropsy" / "bad.json").write_text("{", encoding="utf-8")

    async def talk() -> tuple[list[types.Diagnostic], list[str]]:
        async with editor_on(project) as editor:
            await editor.initialize()
            return await editor.open(), editor.logged

    diagnostics, logged = asyncio.run(talk())
    assert len(diagnostics) == 1
    assert [line for line in logged if "bad.json" in line] == logged != []


def test_tcp(project: Path, store: Store, make_finding: Make) -> None:
    store(make_finding())
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    async def connect(editor: Editor) -> None:
        for _ in range(10 * ANSWER_S):
            try:
                await editor.client.start_tcp("127.0.0.1", port)
                return
            except ConnectionRefusedError:  # the server is still starting
                await asyncio.sleep(0.1)
        raise AssertionError("the server never listened")

    async def talk() -> list[types.Diagnostic]:
        server = await asyncio.create_subprocess_exec(sys.executable, *SERVER, "--tcp", f"127.0.0.1:{port}")
        editor = Editor(project)
        try:
            await connect(editor)
            await editor.initialize()
            return await editor.open()
        finally:
            server.kill()
            await server.wait()
            await editor.client.stop()

    assert ends(asyncio.run(talk())) == [(4, 8, 50)]


@pytest.mark.parametrize("library", ["pygls", "lsprotocol"])
def test_without_the_extra_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], library: str
) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] in {library, "necropsy_lsp"}]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "pip install 'necropsy[lsp]'" in said.err


@pytest.mark.parametrize("text", ["8080", ":8080", "host:", "host:port", "host:70000", "host:-1", "host:²"])
def test_a_bad_address_is_a_usage_error(text: str) -> None:
    done = subprocess.run([sys.executable, *SERVER, "--tcp", text], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "not HOST:PORT" in done.stderr


def test_an_address_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run([sys.executable, *SERVER, "--tcp", address], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("necropsy-lsp: cannot listen on 127.0.0.1 port ")
    assert done.stderr.count("\n") == 1


def test_the_server_ends_with_its_client() -> None:
    done = subprocess.run(
        [sys.executable, *SERVER], stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"")


def test_addresses() -> None:
    assert tcp_address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert tcp_address("[::1]:80") == ("::1", 80)


def test_a_hostile_working_directory_is_not_imported(tmp_path: Path) -> None:
    for name in ("dataclasses.py", "pygls.py", "typing.py"):
        (tmp_path / name).write_text("raise SystemExit(99)\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run([sys.executable, *SERVER, "--help"], cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0
