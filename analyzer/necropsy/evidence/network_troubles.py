"""Connections that could not be set up."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.network_setup import NetworkTrouble

from necropsy.evidence._records import COMMON, RecordTable


class NetworkTroubles(RecordTable[NetworkTrouble]):
    """One row a failed setup."""

    name = "network_troubles"
    row = NetworkTrouble
    accepts = (NetworkTrouble,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "no-interface, no-name, port, master, absent, peer, memlock, verbs, retry, ofi or unresolved",
        "where": "interface, host or host:port, or empty",
        "call": "verbs call, or empty",
        "waited": "how long was waited, as printed, or empty",
        "why": "reason as printed, or empty",
        "from_exception": "said by an exception",
    }

    def __init__(self) -> None:
        super().__init__()
        self._unresolved: set[str] = set()

    def add(self, record: NetworkTrouble) -> None:  # type: ignore[override]
        """Take a trouble."""
        super().add(record)
        if record.kind == "unresolved":
            self._unresolved.add(record.where)

    def unresolved(self, host: str) -> bool:
        """Whether the name of a host did not resolve."""
        return host in self._unresolved
