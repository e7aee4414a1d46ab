"""Communicators that ranks report (NCCL_DEBUG=INFO)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from necropsy_parsers.messages.nccl_error import NcclCommunicator

from necropsy.evidence._records import COMMON, RecordTable


class NcclCommunicators(RecordTable[NcclCommunicator]):
    """One row a report."""

    name = "nccl_communicators"
    row = NcclCommunicator
    accepts = (NcclCommunicator,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "rank": "rank in the communicator",
        "nranks": "its size",
        "device": "CUDA device index",
        "bus": "PCI bus id, hex",
    }

    def __init__(self) -> None:
        super().__init__()
        self._rank_of: dict[tuple[int | None, int], int] = {}
        self._of_rank: dict[tuple[int, int], list[NcclCommunicator]] = {}

    def add(self, record: NcclCommunicator) -> None:  # type: ignore[override]
        """Take a report."""
        super().add(record)
        self._of_rank.setdefault((record.rank, record.attempt), []).append(record)
        self._rank_of.setdefault((record.origin.pid, record.attempt), record.rank)

    def rank_of_process(self, pid: int, attempt: int) -> int | None:
        """The rank in its first communicator of the process with that id, or None."""
        return self._rank_of.get((pid, attempt))

    def of_rank(self, rank: int, attempt: int) -> Sequence[NcclCommunicator]:
        """What a rank reports in an attempt."""
        return self._of_rank.get((rank, attempt), ())
