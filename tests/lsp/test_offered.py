"""Hover, code lens, inlay hints and code actions, as real clients ask for them over stdio."""

from __future__ import annotations

import ast
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from necropsy_parsers.records import Anchor

from necropsy.finding import Cost, Finding, Fix, Severity

Make = Callable[..., Finding]
Store = Callable[..., Path]

SOURCE = """\
import torch
from torch.utils.data import DataLoader

def train(data, opt):
    loader = DataLoader(
        data,
        batch_size=4,
    )
    for x, y in loader:
        log("🔥"); opt.zero_grad()
        torch.cuda.empty_cache()

def evaluate(model):
    return model.score()
"""
ZERO = Fix("Drop gradients", "code", "safe", "optimizer.zero_grad(set_to_none=True)")
EMPTY = Fix("Remove torch.cuda.empty_cache() from the loop", "code")
LOADER = Fix("Use pin_memory=True, and drop_last=True in the DataLoader", "code")
LOOK = Fix("Look at [the log](evil:x)", "command", command="cat run.log")


ENCODINGS: dict[str, types.PositionEncodingKind | str] = {"visual-studio-code": "utf-16", "neovim": "utf-8"}


@pytest_lsp.fixture(  # type: ignore[untyped-decorator]
    params=["visual-studio-code", "neovim"],
    config=ClientServerConfig(server_command=[sys.executable, "-P", "-m", "necropsy_lsp"]),
)
async def client(request: pytest.FixtureRequest, lsp_client: LanguageClient, project: Path) -> AsyncIterator[None]:
    @lsp_client.feature(types.CLIENT_REGISTER_CAPABILITY)  # type: ignore[untyped-decorator]
    def register(params: types.RegistrationParams) -> None:
        """Files are not watched here."""

    @lsp_client.feature(types.WORKSPACE_CODE_LENS_REFRESH)  # type: ignore[untyped-decorator]
    @lsp_client.feature(types.WORKSPACE_INLAY_HINT_REFRESH)  # type: ignore[untyped-decorator]
    def refresh(params: None) -> None:
        """The tests ask when they want to know."""

    answer = await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities(request.param),
            workspace_folders=[types.WorkspaceFolder(project.as_uri(), project.name)],
            root_uri=project.as_uri(),
        )
    )
    encoding = answer.capabilities.position_encoding or types.PositionEncodingKind.Utf16
    assert encoding == ENCODINGS[request.param]
    vars(lsp_client)["encoding"] = encoding
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
def opened(client: LanguageClient, project: Path, store: Store) -> Callable[..., str]:
    """Stores a report, opens `vision/train.py` with `SOURCE` or another text, and gives its URI."""

    def open_(*findings: Finding, source: str = SOURCE) -> str:
        store(*findings)
        uri = (project / "vision" / "train.py").as_uri()
        item = types.TextDocumentItem(uri, "python", 1, source)
        client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    return open_


def hover_params(uri: str, line: int) -> types.HoverParams:
    return types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, 8))


async def hover_at(client: LanguageClient, uri: str, line: int) -> str:
    answer = await client.text_document_hover_async(hover_params(uri, line))
    assert answer is not None
    assert isinstance(answer.contents, types.MarkupContent)
    assert answer.contents.kind is types.MarkupKind.Markdown
    return answer.contents.value


async def actions_at(client: LanguageClient, uri: str, line: int, **context: Any) -> list[types.CodeAction]:
    at = types.Position(line, 8)
    asked = types.CodeActionContext(**({"diagnostics": []} | context))
    params = types.CodeActionParams(types.TextDocumentIdentifier(uri), types.Range(at, at), asked)
    answer = await client.text_document_code_action_async(params)
    return [action if isinstance(action, types.CodeAction) else mended(action) for action in answer or []]


def mended(action: types.Command) -> types.CodeAction:
    """What lsprotocol takes for a command is an action that has one, with that written as text."""
    return types.CodeAction(action.title, command=types.Command(**ast.literal_eval(action.command)))


def units(text: str, client: Any) -> int:
    """The length of a text as the client counts it."""
    return len(text.encode()) if client.encoding == "utf-8" else len(text.encode("utf-16-le")) // 2


def edited(action: types.CodeAction, client: Any, source: str = SOURCE) -> str:
    """The source as the client makes it of an action."""
    assert action.edit is not None
    edits: list[Any] = [e for changes in (action.edit.changes or {}).values() for e in changes]
    for change in action.edit.document_changes or []:
        assert isinstance(change, types.TextDocumentEdit)
        assert change.text_document.version == 1
        edits += change.edits
    lines = source.split("\n")

    def offset(at: types.Position) -> int:
        column = next(i for i in range(len(lines[at.line]) + 1) if units(lines[at.line][:i], client) == at.character)
        return len("\n".join([*lines[: at.line], lines[at.line][:column]]))

    for edit in sorted(edits, key=lambda e: offset(e.range.start), reverse=True):
        start, end = offset(edit.range.start), offset(edit.range.end)
        source = source[:start] + edit.new_text + source[end:]
    ast.parse(source)
    return source


@pytest.mark.asyncio
async def test_hover(client: LanguageClient, opened: Callable[..., str], make_finding: Make, project: Path) -> None:
    finding = make_finding(
        rule="CMP003",
        name="tensor-item",
        line=10,
        text='log("🔥"); opt.zero_grad()',
        message="Each step waits: ![x](http://192.0.2.1/x.png) `item()`.",
        facts={"kernel": "<img src=x>", "bytes_seen_bytes": 2048, "kernels": ["void a(int)", "void b(int)"]},
        cost=Cost(12_400_000, 0.31, "measured"),
        fixes=(LOOK,),
        ranks=(0, 1, 2),
        anchor=Anchor("run.log", 6, 25, 2, "RuntimeError: ```boom"),
    )
    uri = opened(finding)
    text = await hover_at(client, uri, 9)
    assert text.startswith("**ERROR CMP003** tensor-item")
    assert "12.4 ms, 31 % of the time" in text
    assert "ranks 0-2" in text
    assert f"[run.log:2](<{(project / 'run.log').as_uri()}#L2>)" in text
    assert "````text\nRuntimeError: ```boom\n````" in text
    assert "**What it means**" in text  # the rule's page
    assert "void a(int)" in text
    assert "cat run.log" in text
    assert not any(live in text for live in (" ![x](", " <img", " [the log](evil"))
    assert await client.text_document_hover_async(hover_params(uri, 2)) is None


@pytest.mark.asyncio
async def test_code_lens_and_inlay_hints(
    client: LanguageClient, opened: Callable[..., str], make_finding: Make
) -> None:
    text = 'log("🔥"); opt.zero_grad()'
    uri = opened(
        make_finding(rule="CMP003", line=10, text=text, count=3, cost=Cost(1_000_000, 0.1, "measured")),
        make_finding(
            rule="CMP007", line=10, text=text, severity=Severity.WARNING, cost=Cost(500_000, None, "estimated")
        ),
        make_finding(rule="OOM005", line=14, text="return model.score()", severity=Severity.FATAL),
    )
    document = types.TextDocumentIdentifier(uri)
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(document))
    told = [(lens.range.start.line, lens.command.title) for lens in lenses or [] if lens.command]
    assert told == [
        (
            3,
            "Necropsy: 2 findings: 1 error, 1 warning; 3 graph breaks; 1 recompilation; about 1.5 ms, 10 % of the time",
        ),
        (12, "Necropsy: 1 fatal"),
    ]
    whole = types.Range(types.Position(0, 0), types.Position(20, 0))
    hints = await client.text_document_inlay_hint_async(types.InlayHintParams(document, whole))
    assert [(h.position.line, h.label) for h in hints or []] == [(9, "about 1.5 ms, 10 % of the time")]
    assert hints
    assert hints[0].position.character == units(SOURCE.split("\n")[9], client)
    above = types.Range(types.Position(0, 0), types.Position(5, 0))
    assert not await client.text_document_inlay_hint_async(types.InlayHintParams(document, above))


@pytest.mark.asyncio
async def test_edits_that_are_proved(client: LanguageClient, opened: Callable[..., str], make_finding: Make) -> None:
    uri = opened(
        make_finding(rule="CMP020", line=10, text='log("🔥"); opt.zero_grad()', fixes=(ZERO,)),
        make_finding(rule="MEM003", line=5, end_line=8, text="loader = DataLoader(", fixes=(LOADER,)),
        make_finding(rule="SYN009", line=11, text="torch.cuda.empty_cache()", fixes=(EMPTY,)),
    )
    zero, *_ = await actions_at(client, uri, 9)
    assert (zero.title, zero.is_preferred) == ("Add set_to_none=True (CMP020)", True)
    assert edited(zero, client) == SOURCE.replace("zero_grad()", "zero_grad(set_to_none=True)")
    pin, drop, *_ = await actions_at(client, uri, 4)
    assert edited(pin, client) == SOURCE.replace("4,\n", "4,\n        pin_memory=True,\n")
    assert edited(drop, client) == SOURCE.replace("4,\n", "4,\n        drop_last=True,\n")
    empty, *_ = await actions_at(client, uri, 10)
    assert edited(empty, client) == SOURCE.replace("        torch.cuda.empty_cache()\n", "")


@pytest.mark.asyncio
async def test_what_else_is_offered(client: LanguageClient, opened: Callable[..., str], make_finding: Make) -> None:
    uri = opened(make_finding(rule="CMP003", line=10, text='log("🔥"); opt.zero_grad()', fixes=(LOADER, LOOK)))
    actions = {action.title: action for action in await actions_at(client, uri, 9)}
    assert list(actions) == [
        "Show fix: Use pin_memory=True, and drop_last=True in the DataLoader",  # there is no loader on that line
        "Show fix: Look at [the log](evil:x)",
        "Suppress CMP003 here",
        "Open run.log:2",
        "Explain CMP003",
    ]
    suppressed = edited(actions["Suppress CMP003 here"], client)
    assert suppressed == SOURCE.replace("zero_grad()", "zero_grad()  # necropsy: ignore[CMP003]")
    assert await actions_at(client, uri, 2) == []
    assert await actions_at(client, uri, 9, only=[types.CodeActionKind.Refactor]) == []
    assert await actions_at(client, uri, 9, only=[types.CodeActionKind.QuickFix])


@pytest.mark.asyncio
async def test_commands_show_things(
    client: LanguageClient, opened: Callable[..., str], make_finding: Make, project: Path
) -> None:
    uri = opened(make_finding(rule="CMP003", line=10, text='log("🔥"); opt.zero_grad()', fixes=(LOOK,)))
    actions = {action.title: action for action in await actions_at(client, uri, 9)}
    for title in ("Show fix: Look at [the log](evil:x)", "Open run.log:2", "Explain CMP003"):
        command = actions[title].command
        assert command
        await client.workspace_execute_command_async(types.ExecuteCommandParams(command.command, command.arguments))
    messages = "\n".join(message.message for message in client.messages)
    assert "cat run.log" in messages
    if client.shown_documents:  # a client with window/showDocument
        log, page = client.shown_documents
        assert (log.uri, log.selection and log.selection.start.line) == ((project / "run.log").as_uri(), 1)
        assert page.uri.endswith("/CMP003.md")
    else:
        assert f"{project / 'run.log'}:2" in messages
        assert "What it means" in messages


@pytest.mark.asyncio
async def test_a_stale_finding_offers_no_edit(
    client: LanguageClient, opened: Callable[..., str], make_finding: Make
) -> None:
    uri = opened(
        make_finding(
            rule="CMP020", line=10, text='log("🔥"); opt.zero_grad()', fixes=(ZERO,), cost=Cost(5, 0.5, "measured")
        ),
    )
    assert "changed since the run" not in await hover_at(client, uri, 9)
    end = types.Position(9, units(SOURCE.split("\n")[9], client))
    change = types.TextDocumentContentChangePartial(types.Range(end, end), "; log(2)")
    document = types.VersionedTextDocumentIdentifier(2, uri)
    client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
    text = await hover_at(client, uri, 9)
    assert "changed since the run" in text
    assert 'log("🔥"); opt.zero_grad()\n```' in text
    titles = [action.title for action in await actions_at(client, uri, 9)]
    assert "Show fix: Drop gradients" in titles
    assert not any(title.startswith("Add ") for title in titles)
    assert not await client.text_document_code_lens_async(types.CodeLensParams(types.TextDocumentIdentifier(uri)))
    asked = types.InlayHintParams(types.TextDocumentIdentifier(uri), types.Range(types.Position(0, 0), end))
    assert not await client.text_document_inlay_hint_async(asked)


@pytest.mark.asyncio
async def test_a_text_that_does_not_parse_gets_no_edit(
    client: LanguageClient, opened: Callable[..., str], make_finding: Make
) -> None:
    finding = make_finding(rule="CMP020", line=10, text='log("🔥"); opt.zero_grad()', fixes=(ZERO,))
    uri = opened(finding, source=f"{SOURCE}def (\n")
    actions = await actions_at(client, uri, 9)
    assert [a.title for a in actions if a.edit is not None] == []
    assert "Explain CMP020" in [a.title for a in actions]
