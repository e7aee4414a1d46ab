"""`necropsy.findings`, `necropsy.report`, `necropsy.rules`: everything that is known, for a client's own views.

`necropsy/findingsChanged` tells a client that named it in `experimental.necropsy` when to
ask again. A client without such views never hears of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from necropsy_lsp.catalogue import known
from necropsy_lsp.feature import Feature
from necropsy_lsp.rule_text import rule_lines

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer

FINDINGS: Final = "necropsy.findings"
REPORT: Final = "necropsy.report"
RULES: Final = "necropsy.rules"
CHANGED: Final = "necropsy/findingsChanged"


class Findings(Feature):
    """Answers from what the session shows."""

    def __init__(self, server: NecropsyServer) -> None:
        super().__init__(server)
        self._ready = False
        server.session.changed.append(self._tell)

        @server.command(FINDINGS)
        def findings(*arguments: Any) -> list[dict[str, Any]]:
            """Every finding that the settings show, worst first: see `catalogue.Known`."""
            server.session.refresh()
            return [msgspec.to_builtins(entry) for entry in known(server)]

        @server.command(REPORT)
        def report(*arguments: Any) -> str:
            """The same as a Markdown document."""
            from necropsy_lsp.report_text import report_text

            server.session.refresh()
            return report_text(server.session)

        @server.command(RULES)
        def rules(*arguments: Any) -> list[dict[str, str]]:
            """Code and title of every rule."""
            return [{"code": code, "title": title} for code, title in rule_lines()]

    def started(self) -> None:
        """From now on the client takes notifications; what is known already is told once."""
        self._ready = True
        self._tell()

    def _tell(self) -> None:
        wants = self.server.client_capabilities.experimental if self._ready else None
        asked = wants.get("necropsy") if isinstance(wants, dict) else getattr(wants, "necropsy", None)
        if asked:
            self.server.protocol.notify(CHANGED, {})
