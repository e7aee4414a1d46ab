"""Settings and workspace folders, whenever they change: from the client to the session, then to the features."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability

from necropsy_lsp.feature import Feature
from necropsy_lsp.settings import of_client

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

SECTION: Final = "necropsy"
_log = logging.getLogger(__name__)


class Configuration(Feature):
    """Asks for the settings where the client answers that, and takes what it sends otherwise."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)

        @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
        def settings_changed(params: types.DidChangeConfigurationParams) -> None:
            if self.can("workspace.configuration"):
                self.server.later(self.ask())
            else:
                self.server.configure(of_client(params.settings))

        @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
        def folders_changed(params: types.DidChangeWorkspaceFoldersParams) -> None:
            self.server.configure()

    async def ask(self) -> None:
        """Ask the client for its settings and use them."""
        item = types.ConfigurationItem(section=SECTION)
        try:
            (value,) = await self.server.workspace_configuration_async(types.ConfigurationParams([item]))
        except Exception as error:  # a client may refuse in any way: what it sent before holds
            _log.info("the client gave no settings: %s", error)
            return
        if value:
            self.server.configure(of_client(value))

    async def register(self) -> None:
        """Have changes told by a client that tells them only on request."""
        method = types.WORKSPACE_DID_CHANGE_CONFIGURATION
        options = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
        new = types.Registration("necropsy-settings", method, options)
        try:
            await self.server.client_register_capability_async(types.RegistrationParams([new]))
        except Exception as error:
            _log.info("the client does not tell changed settings: %s", error)

    def started(self) -> None:
        """Get the settings and learn of changes, as far as the client can."""
        if self.can("workspace.configuration"):
            self.server.later(self.ask())
        if self.can("workspace.did_change_configuration.dynamic_registration"):
            self.server.later(self.register())

    def files_changed(self, paths: Collection[Path]) -> None:
        """Read `[tool.necropsy]` again."""
        if any(path.name == "pyproject.toml" for path in paths):
            self.server.configure()

    def can(self, name: str) -> bool:
        """Whether the client has an ability."""
        return bool(get_capability(self.server.client_capabilities, name))
