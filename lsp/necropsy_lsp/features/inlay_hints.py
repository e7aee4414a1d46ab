"""`textDocument/inlayHint`: what a line cost, at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability

from necropsy_lsp.feature import Feature
from necropsy_lsp.placed import Shown
from necropsy_lsp.session import path_of
from necropsy_lsp.text import split_lines

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

REFRESH: Final = "workspace.inlay_hint.refresh_support"


class InlayHints(Feature):
    """Answers for the lines on which findings with a known cost stand."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)
        self._ready = False
        server.session.changed.append(self.refresh)

        @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
        def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
            return self.hints(params.text_document.uri, params.range.start.line, params.range.end.line)

    def hints(self, uri: str, first: int, last: int) -> list[types.InlayHint]:
        """The hints on the lines `first` to `last`; none where the setting is off."""
        from necropsy_lsp.lenses import price_of

        session = self.server.session
        document = self.server.workspace.get_text_document(uri)
        path = path_of(uri)
        settings = session.settings_for(path.parent) if path is not None else session.settings
        if not settings.inlay_hints:
            return []
        lines = split_lines(document.source)
        hints: list[types.InlayHint] = []
        for line, found in claims_by_line(session.findings(document)).items():
            price = price_of(shown.finding for shown in found)
            if price and first <= line <= last and line < len(lines):
                end = types.Position(line, document.position_codec.client_num_units(lines[line].rstrip()))
                tooltip = "\n".join(f"{s.finding.rule}: {s.finding.message}" for s in found)
                hints.append(types.InlayHint(end, price, tooltip=tooltip, padding_left=True))
        return hints

    def started(self) -> None:
        """From now on the client takes requests."""
        self._ready = True

    def refresh(self) -> None:
        """Findings or settings changed."""
        if self._ready and get_capability(self.server.client_capabilities, REFRESH, False):
            self.server.workspace_inlay_hint_refresh(None)


def claims_by_line(found: list[Shown]) -> dict[int, list[Shown]]:
    """The claims that are still true, by the line they stand on."""
    lines: dict[int, list[Shown]] = {}
    for shown in found:
        if not shown.stale and shown.place_index == 0:
            lines.setdefault(shown.line, []).append(shown)
    return lines
