"""Makes memory snapshots as torch's CUDA allocator writes them, from a script of what a program allocated.

    a = Allocator()
    kept = a.alloc(8 << 20, "fit.py(18): forward", "torch/nn/modules/module.py(1790): _call_impl", "fit.py(38): step")
    a.free(kept)
    a.refuse(64 << 20, "fit.py(39): step")
    a.write(folder / "snapshot.pickle")

Stacks are innermost first. `form` is the layout that is written: of torch 2.11, `earlier`, `history` (blocks with the
list of that name), or `list` (of segments, and no more).
`python -m tests.support.snapshot` writes the cases of OOM009.
"""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

PACKAGES = "/opt/venv/lib/python3.12/site-packages/"
PROJECT = "/home/trainer/projects/tiny/"
MODULE = "torch/nn/modules/module.py(1790): _call_impl"
MOVE = ("torch/nn/modules/module.py(1370): convert", "torch/nn/modules/module.py(934): _apply")
ADAM = ("torch/optim/adam.py(178): _init_group", "torch/optim/adam.py(243): step")
_FRAME = re.compile(r"(.+)\((\d+)\): (.+)")


class Allocator:
    """One device."""

    def __init__(self, device: int = 0, *, record: bool = True, form: str = "2.11") -> None:
        self.device, self.record, self.form = device, record, form
        self.pace = 50  # us from event to event
        self.live: dict[int, tuple[int, list[dict[str, Any]]]] = {}
        self.events: list[dict[str, Any]] = []
        self._next, self._time = 140_024_081_285_120, 1_795_998_754_000_000
        self._frames: dict[tuple[str, ...], list[dict[str, Any]]] = {}

    def alloc(self, size: int, *stack: str) -> int:
        """A block; its address."""
        address, self._next = self._next, self._next + -(-size // 512) * 512
        frames = self._stack(stack)
        self.live[address] = (size, frames)
        self._event("alloc", address, size, frames)
        return address

    def free(self, address: int) -> None:
        """Its end."""
        size, _ = self.live.pop(address)
        for action in ("free_requested", "free_completed"):
            self._event(action, address, size, [])

    def refuse(self, size: int, *stack: str, free: int = 1 << 20) -> None:
        """An allocation that the driver refuses."""
        self._event("oom", 0, size, self._stack(stack), device_free=free)

    def _stack(self, stack: tuple[str, ...]) -> list[dict[str, Any]]:
        if not self.record:
            return []
        if stack not in self._frames:
            self._frames[stack] = [_frame(name) for name in stack]
        return self._frames[stack]

    def _event(self, action: str, address: int, size: int, frames: list[dict[str, Any]], **more: int) -> None:
        if not self.record:
            return
        self._time += self.pace
        event: dict[str, Any] = {"action": action, "addr": address, "size": size, "stream": 0, **more}
        if action == "oom":
            del event["addr"]
        if self.form not in ("list", "history"):
            event["time_us"] = self._time
        if self.form == "2.11":
            event |= {"compile_context": "N/A", "user_metadata": ""}
        self.events.append(event | {"frames": frames})

    def segment(self) -> dict[str, Any]:
        """All blocks in one piece, with what was freed between them."""
        blocks: list[dict[str, Any]] = []
        at = first = min(self.live, default=self._next)
        for address, (size, frames) in sorted(self.live.items()):
            if address > at:
                blocks.append(
                    {"address": at, "size": address - at, "requested_size": 0, "state": "inactive", "frames": []}
                )
            blocks.append(self._block(address, size, frames))
            at = address + -(-size // 512) * 512
        if self.form in ("list", "history"):
            for block in blocks:
                block.pop("address", None)
        used = sum(b["size"] for b in blocks if b["state"] != "inactive")
        return {
            "device": self.device, "address": first, "total_size": max(at - first, 2 << 20), "allocated_size": used,
            "active_size": used, "requested_size": used, "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks,
        }  # fmt: skip

    def _block(self, address: int, size: int, frames: list[dict[str, Any]]) -> dict[str, Any]:
        whole = -(-size // 512) * 512
        if self.form in ("list", "history"):
            past = [{"addr": address, "real_size": size, "frames": frames}]
            return {"size": whole, "state": "active_allocated", "history": past}
        return {
            "address": address, "size": whole, "requested_size": size, "state": "active_allocated", "frames": frames,
        }  # fmt: skip

    def snapshot(self) -> Any:
        """The plain data."""
        if self.form == "list":
            return [self.segment()]
        found: dict[str, Any] = {"segments": [self.segment()], "device_traces": [[]] * self.device + [self.events]}
        if self.form == "2.11":
            found |= {"allocator_settings": {"expandable_segments": False}, "external_annotations": []}
        return found

    def write(self, path: Path, protocol: int = 4) -> None:
        """As a pickle, or as JSON if its name ends so."""
        path.parent.mkdir(parents=True, exist_ok=True)
        value = self.snapshot()
        path.write_bytes(json.dumps(value).encode() if path.suffix == ".json" else pickle.dumps(value, protocol))


def _frame(name: str) -> dict[str, Any]:
    found = _FRAME.fullmatch(name)
    if found is None:
        return {"name": name, "filename": "??", "line": 0}  # C++
    file, line, function = found.groups()
    return {
        "name": function, "filename": (PACKAGES if file.startswith("torch/") else PROJECT) + file, "line": int(line),
    }  # fmt: skip


def training(a: Allocator, steps: int, *, keeps: bool, size: int = 8 << 20) -> Allocator:
    """A model of 64 MiB with Adam; each step makes and frees activations, and may keep one."""
    for _ in range(8):
        a.alloc(8 << 20, *MOVE, "fit.py(51): build", "fit.py(70): main")
    for n in range(steps):
        made = [
            a.alloc(size, "fit.py(18): forward", MODULE, "fit.py(38): run_step", "fit.py(72): main") for _ in range(6)
        ]
        grads = [a.alloc(8 << 20) for _ in range(8)]
        if n == 0:
            for _ in range(16):
                a.alloc(8 << 20, *ADAM, "fit.py(41): run_step", "fit.py(72): main")
        for address in (*made[keeps:], *grads):
            a.free(address)
    return a


def cases() -> dict[str, Allocator]:
    """Folder of OOM009 -> what its program allocated."""
    kept = training(Allocator(), 60, keeps=True)
    kept.refuse(64 << 20, "fit.py(18): forward", MODULE, "fit.py(38): run_step", "fit.py(72): main")
    large = training(Allocator(form="earlier"), 3, keeps=False)
    for _ in range(12):
        large.alloc(96 << 20, "fit.py(22): forward", MODULE, "fit.py(38): run_step", "fit.py(72): main")
    large.refuse(96 << 20, "fit.py(22): forward", MODULE, "fit.py(38): run_step", "fit.py(72): main")
    unknown = training(Allocator(record=False), 3, keeps=False)
    for _ in range(12):
        unknown.alloc(96 << 20)
    return {
        "fires-kept-results": kept,
        "fires-large-activations": large,
        "silent-healthy-small": training(Allocator(), 4, keeps=False),
        "silent-no-stacks": unknown,
    }


if __name__ == "__main__":
    import lzma

    for name, allocator in cases().items():
        folder = Path(__file__).resolve().parents[2] / "fixtures" / "rules" / "OOM009" / name
        folder.mkdir(parents=True, exist_ok=True)
        data = pickle.dumps(allocator.snapshot(), 4)
        (folder / "input.pickle.xz").write_bytes(lzma.compress(data))
