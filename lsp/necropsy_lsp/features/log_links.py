"""Document links in an open log: from the frames of tracebacks and from `file.py:12` to files of the workspace."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.uris import from_fs_path
from pygls.workspace import TextDocument

from necropsy.provenance.paths import the_one
from necropsy_lsp.feature import Feature
from necropsy_lsp.features.logs import LARGEST, lines_of, may_be_log
from necropsy_lsp.links import LocalFiles, references
from necropsy_lsp.targets import open_document, text_target

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

TOOLTIP: Final = "text_document.document_link.tooltip_support"
MOST: Final = 2000  # links of one document
STEP: Final = 2000  # lines between two looks at the messages


class LogLinks(Feature):
    """Registers the request."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)

        @server.feature(types.TEXT_DOCUMENT_DOCUMENT_LINK)
        async def links(params: types.DocumentLinkParams) -> list[types.DocumentLink] | None:
            document = open_document(server, params.text_document.uri)
            if document is None or not may_be_log(document) or len(document.source) > LARGEST:
                return None
            return await self._links(document)

    async def _links(self, document: TextDocument) -> list[types.DocumentLink]:
        settings = self.server.session.settings_for(text_target(document, self.server).request.folder)
        files = LocalFiles(self.server.folders(), settings.path_mappings)
        tooltips = get_capability(self.server.client_capabilities, TOOLTIP, False)
        units = document.position_codec.client_num_units
        found: list[types.DocumentLink] = []
        lines = lines_of(document)
        for number, line in enumerate(lines):
            if number % STEP == 0:
                await asyncio.sleep(0)
            for reference in references(line):
                quoted = lines[number + 1] if number + 1 < len(lines) else ""  # as in a traceback
                fitting = files.fitting(reference.file)
                meant = the_one(fitting, reference.line, quoted)
                path = meant or next(iter(fitting), None)
                uri = from_fs_path(str(path)) if path is not None else None
                if uri is None:
                    continue
                start = types.Position(number, units(line[: reference.start]))
                end = types.Position(number, units(line[: reference.end]))
                others = f"; {len(fitting)} files fit, pathMappings decides" if meant is None else ""
                tooltip = f"{path}, line {reference.line}{others}" if tooltips else None
                # Editors take the fragment for the line: VS Code, and those that follow it.
                target = f"{uri}#L{reference.line}"
                found.append(types.DocumentLink(types.Range(start, end), target=target, tooltip=tooltip))
                if len(found) == MOST:
                    return found
        return found
