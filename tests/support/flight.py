"""Flight-recorder dumps: written as torch's C++ pickler writes them, and those of simulated jobs with faults.

`Simulation` runs the hosts and GPUs of a job step by step: a host enqueues its program's
operations and blocks where the program waits for the GPU; a GPU starts work in order; a
collective ends when every member's GPU has come to it. A fault strikes at some moment,
the rest runs on until nothing moves, and each rank is dumped: what a watchdog would find.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

T0: Final = 1_800_000_000_000_000_000  # ns since 1970


class Shared(dict[str, Any]):
    """A dict that is written once and referred to afterwards, like torch's frames."""


class TorchPickler:
    """Plain data to the pickle that torch::jit::Pickler makes of it (protocol 2, strings memoised)."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[object, int] = {}

    def _put(self, key: object) -> None:
        index = self.memo[key] = len(self.memo)
        self.out += bytes((0x71, index)) if index < 256 else b"r" + struct.pack("<I", index)

    def _get(self, key: object) -> None:
        index = self.memo[key]
        self.out += bytes((0x68, index)) if index < 256 else b"j" + struct.pack("<I", index)

    def write(self, value: Any) -> None:
        """Append one value."""
        out = self.out
        if value is None or isinstance(value, bool):
            out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            self._number(value)
        elif isinstance(value, float):
            out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            if value in self.memo:
                self._get(value)
            else:
                data = value.encode()
                out += b"X" + struct.pack("<I", len(data)) + data
                self._put(value)
        elif isinstance(value, Shared) and id(value) in self.memo:
            self._get(id(value))
        else:
            self._container(value)

    def _number(self, value: int) -> None:
        if 0 <= value < 256:
            self.out += bytes((0x4B, value))
        elif 0 <= value < 65536:
            self.out += b"M" + struct.pack("<H", value)
        elif -(2**31) <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", value)

    def _container(self, value: Any) -> None:
        out = self.out
        if isinstance(value, tuple):
            for item in value:
                self.write(item)
            out += b"\x86"
        elif isinstance(value, list):
            out += b"]("
            for item in value:
                self.write(item)
            out += b"e"
        else:
            out += b"}("
            for key, item in value.items():
                self.write(key)
                self.write(item)
            out += b"u"
            if isinstance(value, Shared):
                self._put(id(value))


def torch_pickle(value: Any) -> bytes:
    """A whole pickle as torch writes it."""
    pickler = TorchPickler()
    pickler.write(value)
    return bytes(pickler.out + b".")


def frame(function: str, file: str, line: int) -> Shared:
    """A frame of an entry's stack."""
    return Shared(name=function, filename=file, line=line)


def entry(record: int, op: str, number: int, **changes: Any) -> dict[str, Any]:
    """An entry of PyTorch 2.10; `changes` are its fields. `state` completed also retires it."""
    state = changes.pop("state", "completed")
    done = state == "completed"
    created = changes.pop("created", T0 + record * 1_000_000)
    fields: dict[str, Any] = {
        "record_id": record,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "thread_name": "python",
        "thread_id": "140249621736320",
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": created,
        "input_sizes": [[1024]],
        "input_dtypes": ["Float"],
        "output_sizes": [[1024]],
        "output_dtypes": ["Float"],
        "state": state,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": created + 500_000 if done else None,
        "retired": done,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }
    frames = changes.pop("frames", None)
    fields.update(changes)
    return {"frames": frames, **fields} if frames is not None else fields


def dump(entries: Sequence[dict[str, Any]], groups: Mapping[str, tuple[str, Sequence[int]]]) -> dict[str, Any]:
    """A dump of PyTorch 2.10; `groups`: name -> (description, members)."""
    return {
        "version": "2.10",
        "pg_config": {n: {"name": n, "desc": d, "ranks": str(list(r))} for n, (d, r) in groups.items()},
        "comm_lib_version": "2.27.7",
        "pg_status": {},
        "entries": list(entries),
    }


# -- simulated jobs -----------------------------------------------------------------


@dataclass(slots=True)
class Op:
    """An operation in a rank's program. `blocks`: later work on the GPU waits for it."""

    kind: str  # a collective's name, send, recv, sync (the host waits for the GPU)
    group: str = ""
    peer: int = -1
    size: int = 1024
    blocks: bool = True


@dataclass(slots=True)
class Fault:
    """What strikes a rank at step `at`.

    host: it stops enqueuing. sleep: its GPU stops starting work. error: both, and what
    completed lately is not known to have. kill: there is no dump.
    """

    kind: str
    at: int


@dataclass(slots=True)
class Launched:
    """An operation that a host enqueued."""

    op: Op
    record: int
    number: int
    p2p: int
    step: int
    started: bool = False
    done: bool = False
    done_at: int = -1


@dataclass(slots=True)
class SimRank:
    """A rank: its program, how far its host came, and what it enqueued."""

    program: list[Op]
    at: int = 0
    launched: list[Launched] = field(default_factory=list)
    first_open: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    sends: dict[str, int] = field(default_factory=dict)
    host_stopped: bool = False
    gpu_stopped: bool = False
    error_at: int = -1


class Simulation:
    """A job of ranks with programs; `groups`: name -> (description, members)."""

    def __init__(
        self, programs: Sequence[list[Op]], groups: dict[str, tuple[str, tuple[int, ...]]], chance: random.Random
    ) -> None:
        self.ranks = [SimRank(p) for p in programs]
        self.groups = groups
        self.chance = chance
        self.step = 0
        self._open: dict[tuple[str, int], dict[int, Launched]] = {}
        self._pairs: dict[tuple[str, int, int], tuple[list[Launched], list[Launched]]] = {}

    def run(self, faults: dict[int, Fault], most: int = 100_000) -> None:
        """Run until nothing moves."""
        quiet = 0
        while quiet < 20 and self.step < most:
            self.step += 1
            for r, fault in faults.items():
                if fault.at == self.step:
                    self._strike(self.ranks[r], fault)
            moved = [self._host(r) for r in range(len(self.ranks)) if self.chance.random() < 0.8]
            moved.append(self._gpus())
            quiet = 0 if any(moved) or any(f.at >= self.step for f in faults.values()) else quiet + 1

    def _strike(self, rank: SimRank, fault: Fault) -> None:
        rank.host_stopped = rank.host_stopped or fault.kind in ("host", "kill")
        rank.gpu_stopped = rank.gpu_stopped or fault.kind in ("sleep", "error", "kill")
        if fault.kind == "error":
            rank.error_at = self.step

    def _host(self, r: int) -> bool:
        rank = self.ranks[r]
        if rank.host_stopped or rank.at >= len(rank.program):
            return False
        op = rank.program[rank.at]
        if op.kind == "sync":
            if rank.error_at >= 0:
                rank.host_stopped = True  # the call reports the error
                return False
            if rank.gpu_stopped or any(not x.done for x in rank.launched[rank.first_open :] if x.op.blocks):
                return False
        else:
            self._launch(r, rank, op)
        rank.at += 1
        return True

    def _launch(self, r: int, rank: SimRank, op: Op) -> None:
        sends = op.kind in ("send", "recv")
        counter = rank.sends if sends else rank.numbers
        counter[op.group] = counter.get(op.group, 0) + 1
        number, p2p = rank.numbers.get(op.group, 0), rank.sends.get(op.group, 0)
        made = Launched(op, len(rank.launched), number, p2p, self.step)
        rank.launched.append(made)
        if sends:
            a, b = (r, op.peer) if op.kind == "send" else (op.peer, r)
            self._pairs.setdefault((op.group, a, b), ([], []))[op.kind == "recv"].append(made)
        else:
            self._open.setdefault((op.group, number), {})[r] = made

    def _gpus(self) -> bool:
        moved = False
        for rank in self.ranks:
            while rank.first_open < len(rank.launched) and rank.launched[rank.first_open].done:
                rank.first_open += 1
            if rank.gpu_stopped:
                continue
            for x in rank.launched[rank.first_open :]:
                moved = moved or not x.started
                x.started = True
                if not x.done and x.op.blocks:
                    break
        for (group, _), parts in list(self._open.items()):
            if len(parts) == len(self.groups[group][1]) and all(x.started for x in parts.values()):
                moved = self._end(parts.values())
                del self._open[group, _]
        for sent, received in self._pairs.values():
            while sent and received and sent[0].started and received[0].started:
                moved = self._end((sent.pop(0), received.pop(0)))
        return moved

    def _end(self, parts: Iterable[Launched]) -> bool:
        for x in parts:
            x.done, x.done_at = True, self.step
        return True

    def dump_of(self, r: int, *, active_only: bool, window: int = 2000, unseen: int = 0) -> dict[str, Any]:
        """The dump of a rank; a GPU with an error hides what completed in the `unseen` steps before it."""
        rank = self.ranks[r]
        own = {n: g for n, g in self.groups.items() if r in g[1]}
        ids = {n: i for i, n in enumerate(own)}
        entries = []
        for x in rank.launched[-window:]:
            done = x.done and not (rank.error_at >= 0 and x.done_at > rank.error_at - unseen)
            if not (done and active_only):
                entries.append(self._entry(r, x, done, ids))
        return dump(entries, own)

    def _entry(self, r: int, x: Launched, done: bool, ids: dict[str, int]) -> dict[str, Any]:
        description, members = self.groups[x.op.group]
        op, sends = x.op.kind, x.op.kind in ("send", "recv")
        if sends:
            op += f" {members.index(r)}{'->' if op == 'send' else '<-'}{members.index(x.op.peer)}"
        return entry(
            x.record, op, x.number, p2p_seq_id=x.p2p, is_p2p=sends, pg_id=ids[x.op.group],
            process_group=(x.op.group, description), state="completed" if done else "scheduled",
            created=T0 + x.step * 1_000_000 + r, input_sizes=[[x.op.size]], output_sizes=[[x.op.size]],
        )  # fmt: skip
