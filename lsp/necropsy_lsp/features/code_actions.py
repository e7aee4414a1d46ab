"""`textDocument/codeAction`: what can be done about the findings on the selected lines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.workspace import TextDocument

from necropsy_lsp.actions import Action, actions_of
from necropsy_lsp.edits._text import Text, parsed
from necropsy_lsp.evidence import input_uri
from necropsy_lsp.feature import Feature
from necropsy_lsp.placed import Shown
from necropsy_lsp.ranges import text_edits

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

VERSIONED: Final = "workspace.workspace_edit.document_changes"
LITERALS: Final = "text_document.code_action.code_action_literal_support"
KIND: Final = types.CodeActionKind.QuickFix


class CodeActions(Feature):
    """Parses the document once for each of its versions, and only where a finding stands on the lines asked for."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)
        self._parsed: tuple[str, Text | None] = ("", None)
        self._lock = Lock()  # a proof changes the tree for a moment

        @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[KIND]))
        async def code_action(params: types.CodeActionParams) -> list[types.CodeAction | types.Command]:
            return await self.actions(params)

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction | types.Command]:
        """The actions of all findings on the lines, edits first; those that repeat another are left out."""
        if params.context.only is not None and not any(_within(KIND, only) for only in params.context.only):
            return []
        document = self.server.workspace.get_text_document(params.text_document.uri)
        first, last = params.range.start.line, params.range.end.line
        found = [s for s in self.server.session.findings(document) if s.line <= last and first <= s.end_line]
        if not found:
            return []
        source, version = document.source, document.version
        text, offered = await asyncio.to_thread(self._offered, found, source)
        if document.version != version or document.source != source:  # typed on meanwhile: the client asks again
            return []
        literals = get_capability(self.server.client_capabilities, LITERALS, None) is not None
        made = [self._action(action, document, text, params.context.diagnostics) for action in offered]
        return list(made) if literals else [action.command for action in made if action.command is not None]

    def _offered(self, found: Sequence[Shown], source: str) -> tuple[Text | None, list[Action]]:
        """Runs beside the server's loop: parsing a long file takes longer than a key stroke may."""
        with self._lock:
            if self._parsed[0] != source:
                self._parsed = (source, parsed(source))
            text, locate = self._parsed[1], cache(input_uri)
            offered = [action for shown in found for action in actions_of(shown, text, locate)]
        offered.sort(key=lambda action: not action.changes or action.title.startswith("Suppress"))
        unique = {(a.title, a.changes, a.arguments): a for a in reversed(offered)}
        return text, list(reversed(unique.values()))

    def _action(
        self, action: Action, document: TextDocument, text: Text | None, diagnostics: Sequence[types.Diagnostic]
    ) -> types.CodeAction:
        made = types.CodeAction(action.title, KIND, _about(action, diagnostics) or None)
        if action.changes and text is not None:
            edits = text_edits(text, action.changes, document.position_codec)
            made.edit = self._edit(document, edits)
            made.is_preferred = action.preferred or None
        else:
            made.command = types.Command(action.title, action.command, arguments=list(action.arguments))
        return made

    def _edit(self, document: TextDocument, edits: list[types.TextEdit]) -> types.WorkspaceEdit:
        """The edits, bound to this version of the document where the client can check it."""
        if not get_capability(self.server.client_capabilities, VERSIONED, False):
            return types.WorkspaceEdit(changes={document.uri: edits})
        named = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(named, list(edits))])


def _within(kind: str, wanted: str) -> bool:
    """Whether a kind is one that was asked for: `quickfix.x` is a `quickfix`, and everything is of kind ``."""
    return not wanted or kind == wanted or kind.startswith(f"{wanted}.")


def _about(action: Action, diagnostics: Sequence[types.Diagnostic]) -> list[types.Diagnostic]:
    shown = action.shown
    return [
        d
        for d in diagnostics
        if d.source == "necropsy" and d.code == shown.finding.rule and d.range.start.line == shown.line
    ]
