"""Memory: the allocator's history from the start of CUDA on, written when an allocation is refused and at the end.

`memory-oom-*.pickle` and `memory-*.pickle` are snapshots of `torch.cuda.memory` (open them at pytorch.org/memory_viz,
or let `necropsy analyze` read them); the allocator's counters are among the notes. The history is a ring: its length
is the option `memory_entries`, and what is older than that is known as live blocks only.
"""

from __future__ import annotations

import importlib
import os
import pickle
from typing import Any

from _necropsy_capture.process import Process

AWAITS = ("torch",)
ENTRIES = 50_000  # allocations and frees kept: a snapshot of some 10 MB
COUNTERS = {
    "peak": "allocated_bytes.all.peak", "peak_reserved": "reserved_bytes.all.peak", "retries": "num_alloc_retries",
    "refused": "num_ooms", "allocations": "allocation.all.allocated",
}  # fmt: skip
MOST_REFUSED = 2  # a program that catches each refusal and goes on writes no more


class Memory:
    """Records one process's allocations."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._memory: Any = importlib.import_module("torch.cuda.memory")
        self._refused = 0

    def begin(self) -> None:
        """CUDA has been initialised: record from here on. Never before, which would make a context in every worker."""
        if not self._process.mine:
            return
        with self._process.guard("memory"):
            entries = int(self._process.option("memory_entries", ENTRIES))
            # Stacks of frees and of C++ would cost most and say least.
            self._memory._record_memory_history("all", context="alloc", stacks="python", max_entries=entries)
            importlib.import_module("torch._C")._cuda_attach_out_of_memory_observer(self.refused)
            self._process.at_exit("memory", self.end)
            self._process.note("memory", "started", entries=entries)

    def refused(self, device: int, asked: int, limit: int, free: int) -> None:
        """An allocation is about to be refused: what is alive now is what filled the device."""
        if not self._process.mine or self._refused >= MOST_REFUSED:
            return
        self._refused += 1
        with self._process.guard("memory"):
            self._dump("memory-oom" if self._refused == 1 else f"memory-oom{self._refused}")
            self._process.note("memory", "refused", device=device, asked=asked, device_total=limit, device_free=free)

    def end(self) -> None:
        """Write what is known at the end of the process."""
        if not self._refused:
            self._dump("memory")
        for n in range(self._devices()):
            stats = self._memory.memory_stats(n)
            if stats.get("allocation.all.allocated"):
                self._process.note("memory", "counted", device=n, **{k: stats.get(v) for k, v in COUNTERS.items()})

    def _devices(self) -> int:
        number: int = importlib.import_module("torch.cuda").device_count()
        return number

    def _dump(self, stem: str) -> None:
        snapshot = self._memory._snapshot()
        path = self._process.path(stem, ".pickle")
        with open(path + ".tmp", "wb") as file:
            pickle.dump(snapshot, file)
        os.replace(path + ".tmp", path)


def start(process: Process) -> None:
    """Wait for CUDA to be used: torch calls what is queued when it initialises it, at once if it has."""
    importlib.import_module("torch.cuda")._lazy_call(Memory(process).begin)
