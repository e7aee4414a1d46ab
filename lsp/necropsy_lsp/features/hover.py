"""`textDocument/hover`: the findings that stand on a line, and the pages of their rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability

from necropsy_lsp.convert import range_of
from necropsy_lsp.evidence import line_uri
from necropsy_lsp.feature import Feature
from necropsy_lsp.text import split_lines

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

FORMATS: Final = "text_document.hover.content_format"


class Hover(Feature):
    """Answers for every line of an open document on which a finding stands."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)

        @server.feature(types.TEXT_DOCUMENT_HOVER)
        def hover(params: types.HoverParams) -> types.Hover | None:
            return self.hover(params.text_document.uri, params.position.line)

    def hover(self, uri: str, line: int) -> types.Hover | None:
        """What to show for a line; None where no finding stands."""
        from necropsy_lsp.describe import Markdown, Style, hover_text

        document = self.server.workspace.get_text_document(uri)
        found = [shown for shown in self.server.session.findings(document) if shown.line <= line <= shown.end_line]
        if not found:
            return None
        formats = get_capability(self.server.client_capabilities, FORMATS, None)
        plain = formats is not None and types.MarkupKind.Markdown not in formats
        text = hover_text(found, Style() if plain else Markdown(), line_uri)
        first, last = max(s.line for s in found), min(s.end_line for s in found)
        kind = types.MarkupKind.PlainText if plain else types.MarkupKind.Markdown
        extent = range_of(first, last, split_lines(document.source), document.position_codec)
        return types.Hover(types.MarkupContent(kind, text), extent)
