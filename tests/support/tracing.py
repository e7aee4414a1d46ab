"""Makes traces as torch's profiler writes them, from a script of what a program did.

    t = TraceBuilder()
    for n in range(3):
        with t.step(n), t.frame("train.py(40): main"), t.op("aten::mm", dims=[[64, 64], [64, 64]]):
            t.launch("ampere_sgemm_128x64_nn", us=200)
    t.write(folder / "input.json")

The host's clock runs forward with every call; work on a stream begins when the stream is
free and the launch has arrived. All times in microseconds, as in traces.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DEVICES = {
    "h100": ("NVIDIA H100 80GB HBM3", 85_024_112_640, 9, 0, 132),
    "a100": ("NVIDIA A100-SXM4-80GB", 85_033_877_504, 8, 0, 108),
    "v100": ("Tesla V100-SXM2-32GB", 34_079_637_504, 7, 0, 80),
    "t4": ("Tesla T4", 15_642_329_088, 7, 5, 40),
    "mi300": ("AMD Instinct MI300X", 206_141_652_992, 9, 4, 304),
}
LATENCY = 4.0  # us from the end of a launch to the begin of its kernel on an idle stream


class TraceBuilder:
    """See the module docstring."""

    def __init__(
        self, device: str | None = "h100", *, rank: int | None = None, world: int = 1, options: tuple[str, ...] = (
            "with_stack", "record_shapes"), start: float = 5_097_944_720_000.0, base: int = 1_790_857_026_000_000_000,
        pid: int = 2100,
    ) -> None:  # fmt: skip
        self.now = start
        self.pid = self.thread = self.main = pid
        self.events: list[dict[str, Any]] = []
        self.head: dict[str, Any] = {"schemaVersion": 1}
        if device is not None:
            name, memory, major, minor, units = DEVICES[device]
            self.head["deviceProperties"] = [
                {"id": 0, "name": name, "totalGlobalMem": memory, "computeMajor": major, "computeMinor": minor,
                 "maxThreadsPerMultiprocessor": 2048, "warpSize": 32, "numSms": units}
            ]  # fmt: skip
        if rank is not None:
            self.head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}
        self.head |= dict.fromkeys(options, 1)
        self.head |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": base}
        self._free: dict[int, float] = {}
        self._correlation, self._external, self._python, self._sequence = 900, 0, 0, 0
        self._frames: dict[int, list[int]] = {}
        self._ops: list[int] = []

    # -- the host -------------------------------------------------------------

    def host(self, us: float) -> None:
        """Time passes on the host."""
        self.now += us

    @contextmanager
    def on(self, thread: int) -> Iterator[None]:
        """Another thread of the process, such as autograd's."""
        before, self.thread = self.thread, thread
        yield
        self.thread = before

    @contextmanager
    def _range(self, cat: str, name: str, args: dict[str, Any], lead: float = 0.5) -> Iterator[None]:
        began = self.now
        event: dict[str, Any] = {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": self.pid,
            "tid": self.thread,
            "ts": began,
            "args": args,
        }
        self.events.append(event)
        self.now += lead
        yield
        self.now += lead
        event["dur"] = self.now - began

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """A step as `prof.step()` marks it."""
        with self.annotation(f"ProfilerStep#{number}"):
            yield

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        """A named range: `record_function`, `Optimizer.step#AdamW.step`, `enumerate(DataLoader)#...`."""
        self._external += 1
        with self._range("user_annotation", name, {"External id": self._external}, 0.2):
            yield

    @contextmanager
    def mark(self, place: str) -> Iterator[None]:
        """A line of the user's as `necropsy capture` marks it: `train.py:63`."""
        self._external += 1
        with self._range("cpu_op", f"necropsy:{place}", {"External id": self._external}, 0.1):
            yield

    @contextmanager
    def frame(self, *names: str) -> Iterator[None]:
        """Python frames, the outermost first: `train.py(40): main`, `nn.Module: Net_0`."""
        if not names:
            yield
            return
        stack = self._frames.setdefault(self.thread, [])
        self._python += 1
        args = {"Python parent id": stack[-1] if stack else None, "Python id": self._python}
        stack.append(self._python)
        with self._range("python_function", names[0], args), self.frame(*names[1:]):
            yield
        stack.pop()

    @contextmanager
    def op(
        self, name: str, *, dims: Any = None, types: Any = None, sequence: int | None = None, **args: Any
    ) -> Iterator[None]:
        """An operator; `dims` and `types` are those of its inputs."""
        self._external += 1
        told: dict[str, Any] = {"External id": self._external, **args}
        if dims is not None:
            told |= {"Input Dims": dims, "Input type": types or ["c10::BFloat16"] * len(dims)}
        if sequence is not None:
            told |= {"Sequence number": sequence, "Fwd thread id": 0 if self.thread == self.main else 1}
        self._ops.append(self._external)
        with self._range("cpu_op", name, told, 1.0):
            yield
        self._ops.pop()

    def call(self, name: str, us: float = 5.0) -> int:
        """A call of the runtime; its correlation."""
        self._correlation += 1
        self.events.append(
            {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": self.pid, "tid": self.thread, "ts": self.now,
             "dur": us, "args": {"External id": self._ops[-1] if self._ops else 0, "cbid": 211,
                                 "correlation": self._correlation}}
        )  # fmt: skip
        self.now += us
        return self._correlation

    def wait(self, name: str = "cudaStreamSynchronize", tail: float = 5.0) -> None:
        """A call that returns when all streams are idle."""
        idle = max([self.now, *self._free.values()])
        self.call(name, idle - self.now + tail)

    # -- the device -----------------------------------------------------------

    def launch(
        self, kernel: str, us: float, *, stream: int = 7, grid: Any = (132, 1, 1), block: Any = (256, 1, 1),
        call: str = "cudaLaunchKernel", call_us: float = 5.0, **args: Any,
    ) -> None:  # fmt: skip
        """A kernel of that length."""
        correlation = self.call(call, call_us)
        told = {"registers per thread": 32, "shared memory": 0, "grid": list(grid), "block": list(block),
                "est. achieved occupancy %": 50, **args}  # fmt: skip
        self.work("kernel", kernel, us, correlation, stream, told)

    def copy(
        self, way: str, size: int, us: float, *, stream: int = 7, call: str = "cudaMemcpyAsync", call_us: float = 6.0
    ) -> None:
        """`HtoD (Pageable -> Device)`, `DtoH (Device -> Pinned)`, `DtoD (Device -> Device)`."""
        correlation = self.call(call, call_us)
        told = {"bytes": size, "memory bandwidth (GB/s)": size / us / 1e3 if us else 0}
        self.work("gpu_memcpy", f"Memcpy {way}", us, correlation, stream, told)

    def idle_at(self, stream: int) -> float:
        """When the stream has done all that was submitted to it."""
        return self._free.get(stream, 0.0)

    def hold(self, stream: int, until: float) -> None:
        """Let the stream wait, as for an event of another."""
        self._free[stream] = max(self.idle_at(stream), until)

    def collective(
        self, name: str, us: float, *, stream: int = 20, elements: int = 1 << 20, size: int = 2, **args: Any
    ) -> None:
        """An NCCL kernel with the arguments that torch adds since 2.2 (`Seq` since 2.7, as one of `args`)."""
        told: dict[str, Any] = {
            "Collective name": name,
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "Group size": size,
            "dtype": "BFloat16",
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(size))),
            **args,
        }
        self.launch(
            f"ncclDevKernel_{name}_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", us, stream=stream, **told
        )

    def work(self, cat: str, name: str, us: float, correlation: int, stream: int, args: dict[str, Any]) -> None:
        """Work on a stream, of a call already made."""
        begin = max(self.now + LATENCY, self._free.get(stream, 0.0))
        self._free[stream] = begin + us
        told = {"External id": self._ops[-1] if self._ops else 0, "device": 0, "context": 1, "stream": stream,
                "correlation": correlation, **args}  # fmt: skip
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": begin, "dur": us, "args": told}
        )

    def pause(self, us: float, stream: int = 7) -> None:
        """The device begins nothing more on a stream for that long."""
        self._free[stream] = max(self._free.get(stream, 0.0), self.now) + us

    def memory(
        self, size: int, *, allocated: int, reserved: int, device: int = 0, kind: int = 1, address: int = 1 << 47
    ) -> None:  # fmt: skip
        """An allocation (or, with a negative size, its end); kind 0 is the host, 1 CUDA."""
        self.events.append(
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": self.pid, "tid": self.thread,
             "ts": self.now, "args": {"Total Reserved": reserved, "Total Allocated": allocated, "Bytes": size,
                                      "Device Id": device, "Device Type": kind, "Addr": address}}
        )  # fmt: skip

    # -- out ------------------------------------------------------------------

    def text(self) -> str:
        """The trace's JSON, an event a line, times with three decimals."""
        rows = []
        for event in self.events:
            times = {k: round(event[k], 3) for k in ("ts", "dur") if k in event}
            rows.append(json.dumps({**event, **times}))
        return json.dumps(self.head)[:-1] + ', "traceEvents": [\n' + ",\n".join(rows) + "\n]}\n"

    def write(self, path: Path) -> None:
        """The trace as a file, compressed if its name ends in `.gz`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        data = self.text().encode()
        path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)
