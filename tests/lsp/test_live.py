"""Diagnostics through a real server over stdio: edits, reports that change, folders, settings, pull."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import client_capabilities

from necropsy.finding import Cost, Finding, Fix, Place
from necropsy.report import Report

SHARED = Path(__file__).parents[3] / "shared"
ANSWER_S = 30
HINT, WARNING = types.DiagnosticSeverity.Hint, types.DiagnosticSeverity.Warning

Make = Callable[..., Finding]
Store = Callable[..., Path]


class Editor:
    """A pytest-lsp client with open documents; `at` waits for what is shown of one."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.versions: dict[str, int] = {}
        self.refreshed = 0
        self.told: list[str] = []
        self.logged: list[str] = []
        self.shown: dict[str, types.PublishDiagnosticsParams] = {}

        @client.feature(types.WORKSPACE_DIAGNOSTIC_REFRESH)  # type: ignore[untyped-decorator]
        def refresh(params: None) -> None:
            self.refreshed += 1

        @client.feature(types.CLIENT_REGISTER_CAPABILITY)  # type: ignore[untyped-decorator]
        def register(params: types.RegistrationParams) -> None:
            """Taken, and nothing done with it."""

        @client.feature(types.WINDOW_SHOW_MESSAGE)  # type: ignore[untyped-decorator]
        def tell(params: types.ShowMessageParams) -> None:
            self.told.append(params.message)

        @client.feature(types.WINDOW_LOG_MESSAGE)  # type: ignore[untyped-decorator]
        def log(params: types.LogMessageParams) -> None:
            self.logged.append(params.message)

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.shown[params.uri] = params

    def open(self, document: Path | str, text: str | None = None) -> str:
        uri = document.as_uri() if isinstance(document, Path) else document
        text = Path(document).read_bytes().decode() if text is None else text
        item = types.TextDocumentItem(uri, "python", 1, text)
        self.versions[uri] = 1
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def edit(self, uri: str, *edits: tuple[tuple[int, int], tuple[int, int], str]) -> None:
        self.versions[uri] += 1
        changes = [
            types.TextDocumentContentChangePartial(types.Range(types.Position(*a), types.Position(*b)), text)
            for a, b, text in edits
        ]
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))

    def save(self, uri: str) -> None:
        document = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    async def until(self, true: Callable[[], Any]) -> Any:
        async with asyncio.timeout(ANSWER_S):
            while not (value := true()):
                await asyncio.sleep(0.02)
        return value

    async def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """What is pushed for the document as it is now."""
        await self.until(lambda: uri in self.shown and self.shown[uri].version == self.versions[uri])
        return list(self.shown[uri].diagnostics)

    async def lines(self, uri: str, stale: bool = False) -> list[int]:
        """The lines (1-based) of what is shown and is, or is not, stale."""
        found = await self.diagnostics(uri)
        return [d.range.start.line + 1 for d in found if (d.data or {})["stale"] is stale]

    async def pull(self, uri: str, known: str | None = None) -> Any:
        document = types.TextDocumentIdentifier(uri)
        return await self.client.text_document_diagnostic_async(
            types.DocumentDiagnosticParams(document, previous_result_id=known)
        )


@asynccontextmanager
async def editor_on(*folders: Path, name: str = "visual_studio_code", **options: Any) -> AsyncIterator[Editor]:
    """`pull`, `encodings`, `related`: what the client can; the rest are its settings."""
    client = pytest_lsp.LanguageClient()
    editor = Editor(client)
    capabilities = client_capabilities(name)
    assert capabilities.text_document is not None and capabilities.workspace is not None
    capabilities.text_document.diagnostic = types.DiagnosticClientCapabilities() if options.pop("pull", False) else None
    capabilities.workspace.diagnostics = types.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
    capabilities.general = types.GeneralClientCapabilities(position_encodings=options.pop("encodings", None))
    capabilities.workspace.configuration = None
    capabilities.workspace.did_change_watched_files = None  # the server has to look for itself
    await client.start_io(sys.executable, "-P", "-m", "necropsy_lsp")
    await client.initialize_session(
        types.InitializeParams(
            capabilities,
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders],
            initialization_options=options,
        )
    )
    try:
        yield editor
        await asyncio.wait_for(client.shutdown_session(), ANSWER_S)
    finally:
        await stop(client)


async def stop(client: Any) -> None:
    """End the server, also one that does not listen any more after a test that failed."""
    if client._server is not None and client._server.returncode is None:
        client._server.kill()
    await asyncio.wait_for(client.stop(), ANSWER_S)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared")
def test_planted_compiler_lines(tmp_path: Path) -> None:
    """Analyzed, shown, moved by three, stale when edited, back when restored, gone when the report is."""
    script = tmp_path / "train_vision.py"
    shutil.copy(SHARED / "workloads" / script.name, script)
    shutil.copy(SHARED / "captures" / "torch_logs" / "vision_light.log", tmp_path / "run.log")
    command = [sys.executable, "-m", "necropsy", "analyze", "--save", "run.log"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    planted = {31, 67, 70, 72}
    assert all("# plant: " in script.read_text().splitlines()[line - 1] for line in planted)

    async def talk() -> None:
        async with editor_on(tmp_path) as editor:
            uri = editor.open(script)
            first = await editor.lines(uri)
            assert planted <= {*first}
            certain = [d for d in await editor.diagnostics(uri) if d.range.start.line + 1 in planted]
            assert {d.code for d in certain} == {"CMP002", "CMP003", "CMP004", "CMP009"}
            assert {d.severity for d in certain} == {WARNING}
            assert all(d.code_description and d.related_information for d in certain)
            editor.edit(uri, ((0, 0), (0, 0), "#\n#\n#\n"))
            assert await editor.lines(uri) == [line + 3 for line in first]
            editor.edit(uri, ((33, 8), (33, 10), "low"))
            assert await editor.lines(uri) == [line + 3 for line in first if line != 31]
            assert await editor.lines(uri, stale=True) == [34]
            (stale,) = [d for d in await editor.diagnostics(uri) if d.severity is HINT]
            assert "the run saw: lo = x.min().item()" in stale.message
            editor.edit(uri, ((33, 8), (33, 11), "lo"))
            assert await editor.lines(uri) == [line + 3 for line in first]
            for report in (tmp_path / ".necropsy").glob("*.json"):
                report.unlink()
            editor.save(uri)
            await editor.until(lambda: not editor.shown[uri].diagnostics)

    asyncio.run(talk())


def test_edits_in_every_encoding(project: Path, store: Store, make_finding: Make) -> None:
    store(make_finding())
    fire = {
        types.PositionEncodingKind.Utf8: 4,
        types.PositionEncodingKind.Utf16: 2,
        types.PositionEncodingKind.Utf32: 1,
    }

    async def talk(encoding: types.PositionEncodingKind) -> None:
        async with editor_on(project, encodings=[encoding]) as editor:
            uri = editor.open(project / "vision" / "train.py")
            assert await editor.lines(uri) == [5]
            # Behind the flame of line 5, so that a wrong unit would hit the wrong character.
            at = 33 + fire[encoding]
            editor.edit(uri, ((0, 0), (0, 0), "🔥\r\n"), ((5, at), (5, at + 1), "”"))
            assert (await editor.lines(uri), await editor.lines(uri, stale=True)) == ([], [6])
            width = 3 if encoding == types.PositionEncodingKind.Utf8 else 1
            editor.edit(uri, ((5, at), (5, at + width), '"'))
            assert await editor.lines(uri) == [6]

    for encoding in fire:
        asyncio.run(talk(encoding))


def test_a_report_replaced_while_the_document_is_open(project: Path, store: Store, make_finding: Make) -> None:
    store(make_finding(cost=Cost(12_400_000, 0.31, "measured"), fixes=(Fix("Remove it", "code"),)))

    async def talk() -> None:
        async with editor_on(project) as editor:
            uri = editor.open(project / "vision" / "train.py")
            (shown,) = await editor.diagnostics(uri)
            assert "(measured)]" in shown.message
            assert [*(shown.tags or ())] == [types.DiagnosticTag.Unnecessary]
            assert (shown.data or {})["fixes"] == [0]
            # No save and no other event: the server looks, since this client does not watch.
            store(make_finding(line=6, text="total = total + loss"), make_finding(rule="OOM005"))
            await editor.until(lambda: len(editor.shown[uri].diagnostics) == 2)
            assert await editor.lines(uri) == [5, 6]
            store()
            await editor.until(lambda: not editor.shown[uri].diagnostics)

    asyncio.run(talk())


def test_unusable_reports_are_messages(project: Path, store: Store, make_finding: Make) -> None:
    report = store(make_finding())
    newer = json.loads(report.read_text()) | {"schema": "necropsy/2", "findings": [{"rule": 1}]}
    (report.parent / "newer.json").write_text(json.dumps(newer), encoding="utf-8")
    (report.parent / "cut.json").write_text('{"schema": "necr', encoding="utf-8")

    async def talk() -> tuple[list[str], list[str]]:
        async with editor_on(project) as editor:
            assert await editor.lines(editor.open(project / "vision" / "train.py")) == [5]
            await editor.until(lambda: len(editor.logged) >= 2)
            return editor.told, editor.logged

    told, logged = asyncio.run(talk())
    assert [("newer.json" in text, "necropsy/2" in text) for text in told] == [(True, True)]
    assert [text for text in logged if "cut.json" in text]


def test_several_folders_and_an_untitled_copy(tmp_path: Path, make_finding: Make) -> None:
    source = "import torch\n\ny = x.item()\nz = y.cpu()\n"
    folders = [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(folders):
        (folder / ".necropsy").mkdir(parents=True)
        (folder / f"train{number}.py").write_text(source, encoding="utf-8")
        places = [(3, "y = x.item()"), (4, "z = y.cpu()")]
        findings = [make_finding(file=f"/job/train{number}.py", line=n, text=text) for n, text in places]
        (folder / ".necropsy" / "r.json").write_text(json.dumps(Report("0", findings=findings).to_json()))

    async def talk() -> None:
        async with editor_on(*folders) as editor:
            for number, folder in enumerate(folders):
                assert await editor.lines(editor.open(folder / f"train{number}.py")) == [3, 4]
            copy = editor.open("untitled:Untitled-1", source)
            assert await editor.lines(copy) == [3, 4]
            editor.edit(copy, ((0, 0), (0, 0), "\n"))
            assert await editor.lines(copy) == [4, 5]
            other = editor.open("untitled:Untitled-2", source.replace("cpu", "cuda"))
            assert await editor.diagnostics(other) == []
            gone = types.WorkspaceFolder(folders[0].as_uri(), "one")
            event = types.WorkspaceFoldersChangeEvent([], [gone])
            editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
            editor.edit(copy, ((0, 0), (1, 0), ""))
            assert await editor.lines(copy) == [3, 4]

    asyncio.run(talk())


def test_settings_comments_and_mappings(project: Path, store: Store, make_finding: Make) -> None:
    elsewhere = {"file": "/scratch/build/main.py", "line": 6, "text": "total = total + loss"}
    store(make_finding(), make_finding(rule="OOM005"), make_finding(rule="CMP003", **elsewhere))
    (project / "pyproject.toml").write_text('[tool.necropsy]\nignore = ["OOM"]\ninputs = 3\n', encoding="utf-8")
    mappings = {"/scratch/build/main.py": "vision/train.py"}

    async def talk() -> None:
        async with editor_on(project, pathMappings=mappings, severities={"SYN": "hint"}) as editor:
            uri = editor.open(project / "vision" / "train.py")
            assert [(d.code, d.severity) for d in await editor.diagnostics(uri)] == [
                ("SYN001", HINT),
                ("CMP003", types.DiagnosticSeverity.Error),
            ]
            assert [text for text in editor.told if "inputs must be a list of strings" in text]
            editor.edit(uri, ((4, 99), (4, 99), "  # necropsy: ignore[SYN001] known"))
            assert [d.code for d in await editor.diagnostics(uri)] == ["CMP003"]
            editor.edit(uri, ((5, 99), (5, 99), "  # necropsy: ignore"))
            assert await editor.diagnostics(uri) == []
            settings = {"necropsy": {"ignore": [], "select": ["OOM"]}}
            editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))
            editor.edit(uri, ((4, 0), (4, 0), "\n"), ((5, 50), (5, 99), ""))
            assert [(d.code, d.range.start.line) for d in await editor.diagnostics(uri)] == [("OOM005", 5)]

    asyncio.run(talk())


def test_pull_instead_of_push(project: Path, store: Store, make_finding: Make) -> None:
    store(make_finding(), make_finding(file="/job/vision/eval.py", line=1, text="a = b.item()"))
    (project / "vision" / "eval.py").write_text("a = b.item()\n", encoding="utf-8")

    async def talk() -> None:
        async with editor_on(project, pull=True) as editor:
            uri = editor.open(project / "vision" / "train.py")
            first = await editor.pull(uri)
            assert [d.range.start.line for d in first.items] == [4]
            again = await editor.pull(uri, first.result_id)
            assert (again.kind, again.result_id) == ("unchanged", first.result_id)
            editor.edit(uri, ((0, 0), (0, 0), "\n"))
            moved = await editor.pull(uri, first.result_id)
            assert [d.range.start.line for d in moved.items] == [5]
            every = await editor.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams([]))
            found = {Path(report.uri).name: len(report.items) for report in every.items}
            assert found == {"train.py": 1, "eval.py": 1}
            known = [types.PreviousResultId(report.uri, report.result_id) for report in every.items]
            before = editor.refreshed
            store(make_finding())
            await editor.until(lambda: editor.refreshed > before)
            every = await editor.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams(known))
            kinds = {Path(report.uri).name: report.kind for report in every.items}
            assert kinds == {"train.py": "unchanged", "eval.py": "full"}
            assert editor.shown == {}  # nothing is shown twice

    asyncio.run(talk())


def test_a_crash_in_a_feature_is_a_message(project: Path, store: Store, make_finding: Make, tmp_path: Path) -> None:
    store(make_finding())
    program = tmp_path / "broken.py"
    program.write_text(
        "import sys\n"
        "import necropsy_lsp.features.diagnostics as d\n"
        "real = d.diagnostic_of\n"
        "def fails(shown, lines, *rest):\n"
        "    if any('BOOM' in line for line in lines):\n"
        "        raise RuntimeError('a bug')\n"
        "    return real(shown, lines, *rest)\n"
        "d.diagnostic_of = fails\n"
        "from necropsy_lsp.__main__ import main\n"
        "sys.exit(main([]))\n",
        encoding="utf-8",
    )

    async def talk() -> None:
        client = pytest_lsp.LanguageClient()
        editor = Editor(client)
        await client.start_io(sys.executable, str(program))
        folder = types.WorkspaceFolder(project.as_uri(), "p")
        await client.initialize_session(types.InitializeParams(types.ClientCapabilities(), workspace_folders=[folder]))
        uri = editor.open(project / "vision" / "train.py")
        assert await editor.lines(uri) == [5]
        editor.edit(uri, ((0, 0), (0, 0), "# BOOM\n"))
        (message,) = await editor.until(lambda: editor.told)
        assert "Diagnostics failed (RuntimeError: a bug)" in message
        editor.edit(uri, ((0, 0), (1, 0), ""))
        assert await editor.lines(uri) == [5]
        await client.shutdown_session()
        await stop(client)

    asyncio.run(talk())


def test_a_function_without_a_quoted_line_is_shown_at_its_head(project: Path, store: Store, make_finding: Make) -> None:
    place = Place("/job/vision/train.py", 3, function="train", exactness="function")
    store(make_finding(code=(place,)), make_finding(rule="CMP003", code=(place, Place("/job/vision/train.py", 9))))

    async def talk() -> None:
        async with editor_on(project) as editor:
            uri = editor.open(project / "vision" / "train.py")
            found = await editor.diagnostics(uri)
            assert [d.range.start.line for d in found] == [2, 2]
            assert "the function is certain, the line in it is not" in found[0].message
            editor.edit(uri, ((2, 4), (2, 9), "fit"))
            assert await editor.lines(uri, stale=True) == [3, 3]

    asyncio.run(talk())
