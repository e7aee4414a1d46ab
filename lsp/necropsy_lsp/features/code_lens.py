"""`textDocument/codeLens`: above each function, what its findings add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability

from necropsy_lsp.convert import range_of
from necropsy_lsp.feature import Feature
from necropsy_lsp.matching import functions_of
from necropsy_lsp.session import path_of
from necropsy_lsp.text import split_lines

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

REFRESH: Final = "workspace.code_lens.refresh_support"
SHOW: Final = "necropsy.showFinding"


class CodeLenses(Feature):
    """Answers from what the session shows, and asks for a new request when that changes."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)
        self._ready = False
        server.session.changed.append(self.refresh)

        @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
        def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
            return self.lenses(params.text_document.uri)

    def lenses(self, uri: str) -> list[types.CodeLens]:
        """The lenses of a document; none where the setting is off."""
        from necropsy_lsp.lenses import lenses

        session = self.server.session
        document = self.server.workspace.get_text_document(uri)
        path = path_of(uri)
        settings = session.settings_for(path.parent) if path is not None else session.settings
        if not settings.code_lens:
            return []
        found = session.findings(document)
        lines = split_lines(document.source)
        return [
            types.CodeLens(
                range_of(lens.line, lens.line, lines, document.position_codec),
                types.Command(lens.title, SHOW, arguments=[uri, lens.worst.line]),
            )
            for lens in (lenses(found, functions_of(lines)) if found else [])
        ]

    def started(self) -> None:
        """From now on the client takes requests."""
        self._ready = True

    def refresh(self) -> None:
        """Findings or settings changed."""
        if self._ready and get_capability(self.server.client_capabilities, REFRESH, False):
            self.server.workspace_code_lens_refresh(None)
