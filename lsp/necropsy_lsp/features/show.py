"""Commands that show something: a finding's line, its evidence, a fix, the page of a rule."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.uris import to_fs_path

from necropsy_lsp.actions import EXPLAIN, OPEN_EVIDENCE, SHOW_FIX
from necropsy_lsp.feature import Feature
from necropsy_lsp.features.code_lens import SHOW
from necropsy_lsp.rule_text import rule_text

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

SHOWS: Final = "window.show_document.support"


class Show(Feature):
    """Uses `window/showDocument`, or a message for a client that has no such request."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)
        self._pages: Path | None = None

        @server.command(SHOW)
        async def show_finding(*arguments: Any) -> bool:
            uri, line = _uri_and_line(arguments)
            return await self._open(uri, line)

        @server.command(OPEN_EVIDENCE)
        async def open_evidence(*arguments: Any) -> bool:
            uri, line = _uri_and_line(arguments)
            return await self._open(uri, line - 1)

        @server.command(EXPLAIN)
        async def explain(*arguments: Any) -> bool:
            return await self._explain(str(arguments[0]) if arguments else "")

        @server.command(SHOW_FIX)
        def show_fix(*arguments: Any) -> bool:
            self._say("\n".join(str(a) for a in arguments if a))
            return True

    def stopping(self) -> None:
        """Remove the pages that were written."""
        if self._pages is not None:
            shutil.rmtree(self._pages, ignore_errors=True)
            self._pages = None

    async def _open(self, uri: str, line: int) -> bool:
        """Show a line (from 0) of a file, or say where it is."""
        path = to_fs_path(uri) if uri.startswith(("file:", "untitled:")) else None
        if path is None:
            self._say("Nothing to open: the command wants the URI of a file and a line.")
            return False
        if get_capability(self.server.client_capabilities, SHOWS, False):
            at = types.Position(max(line, 0), 0)
            params = types.ShowDocumentParams(uri, take_focus=True, selection=types.Range(at, at))
            if (await self.server.window_show_document_async(params)).success:
                return True
        self._say(f"{path}:{max(line, 0) + 1}")
        return False

    async def _explain(self, code: str) -> bool:
        """Show the page of a rule: a file of its own, since it is no part of the project."""
        page = rule_text(code)
        if page is None:
            self._say(f"There is no rule {code[:20]} in this version of Necropsy: a newer one may have it.")
            return False
        if not get_capability(self.server.client_capabilities, SHOWS, False):
            self._say(page.page)
            return True
        if self._pages is None:
            self._pages = Path(tempfile.mkdtemp(prefix="necropsy-"))
        file = self._pages / f"{page.code}.md"
        file.write_text(page.page, encoding="utf-8")
        return await self._open(file.as_uri(), 0)

    def _say(self, text: str) -> None:
        self.server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))


def _uri_and_line(arguments: tuple[Any, ...]) -> tuple[str, int]:
    """The arguments of a command as a client sends them; nothing that is none of the two is believed."""
    uri, line, *_ = (*arguments, "", 0)
    known = isinstance(line, int | float) and not isinstance(line, bool)
    return str(uri), int(line) if known else 0
