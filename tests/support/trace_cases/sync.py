"""Waits of the host for the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.tracing import TraceBuilder

SCRIPT = "fit_ranker.py"


@contextmanager
def _read(t: TraceBuilder, *ops: str, size: int = 4) -> Iterator[None]:
    """Operators around a copy from the device and the wait for it."""
    if ops:
        with t.op(ops[0]), _read(t, *ops[1:], size=size):
            yield
        return
    t.copy("DtoH (Device -> Pageable)", size, 1.5)
    t.wait()
    yield


def _layers(t: TraceBuilder, number: int, us: float) -> None:
    with t.frame(f"{SCRIPT}(31): forward"):
        for _ in range(number):
            with t.op("aten::addmm"):
                t.launch("nvjet_hsh_128x128_64x4_1x2_h_bz_coopA_TNT", us=us)


def training(kind: str, *, layers: int = 13, us: float = 900, after: float = 3_000, steps: int = 4) -> TraceBuilder:
    """Steps of a GPU that is kept busy; behind the wait the host needs `after` us before it launches again."""
    t = TraceBuilder()
    with t.frame(f"{SCRIPT}(120): <module>", f"{SCRIPT}(77): fit"):
        for n in range(steps):
            with t.step(n):
                _layers(t, layers, us)
                _wait(t, kind)
                t.host(after)
                if kind == "none" and n == steps - 1:
                    t.wait("cudaDeviceSynchronize")
        with t.frame("torch/profiler/profiler.py(880): step", "torch/profiler/profiler.py(412): stop_trace"):
            t.wait("cudaDeviceSynchronize")
    return t


def _wait(t: TraceBuilder, kind: str) -> None:
    if kind == "item":
        with (
            t.frame("<built-in method item of Tensor object at 0x7f1>"),
            _read(t, "aten::item", "aten::_local_scalar_dense"),
        ):
            pass
    elif kind == "branch":
        with t.frame(f"{SCRIPT}(58): clip"), _read(t, "aten::is_nonzero", "aten::item", "aten::_local_scalar_dense"):
            pass
    elif kind == "mask":
        with t.frame(f"{SCRIPT}(64): keep_valid"), t.op("aten::index"), _read(t, "aten::nonzero"):
            pass
    elif kind == "cpu":
        with _read(t, "aten::to", "aten::_to_copy", "aten::copy_", size=65536):
            pass
    elif kind == "synchronize":
        with t.frame("torch/cuda/__init__.py(1033): synchronize"):
            t.wait("cudaDeviceSynchronize")
    elif kind == "event":
        with t.frame("torch/cuda/streams.py(230): synchronize"):
            t.wait("cudaEventSynchronize")
    elif kind == "optimizer":
        with t.annotation("Optimizer.step#Adam.step"), t.frame("torch/optim/adam.py(213): step"):
            for _ in range(4):
                with _read(t, "aten::item", "aten::_local_scalar_dense"):
                    t.host(400)
                with t.op("aten::addcdiv_"):
                    t.launch("void at::native::vectorized_elementwise_kernel<4, at::native::addcdiv>", us=40)
    elif kind == "upload":
        with t.op("aten::to"), t.op("aten::_to_copy"), t.op("aten::copy_"):
            t.copy("HtoD (Pageable -> Device)", 1 << 20, 90)
            t.wait()
    elif kind == "profiler":
        with t.frame("torch/profiler/profiler.py(880): step", "torch/profiler/profiler.py(398): stop"):
            t.wait("cudaDeviceSynchronize")


def host_bound(kind: str) -> TraceBuilder:
    """A GPU that waits for every launch anyway: the wait finds it empty and costs what the call costs."""
    t = TraceBuilder()
    with t.frame(f"{SCRIPT}(120): <module>", f"{SCRIPT}(77): fit"):
        for n in range(4):
            with t.step(n):
                for _ in range(13):
                    _layers(t, 1, 20)
                    t.host(70)
                _wait(t, kind)
    return t


CASES = {
    "SYN001/fires-synchronize-each-step": lambda: training("synchronize"),
    "SYN001/fires-event-each-step": lambda: training("event", after=2_000),
    "SYN001/silent-no-wait": lambda: training("none"),
    "SYN001/silent-the-profilers-own": lambda: training("profiler", after=100),
    "SYN001/silent-gpu-idle-anyway": lambda: host_bound("synchronize"),
    "SYN002/fires-item-each-step": lambda: training("item"),
    "SYN002/fires-branch-in-a-helper": lambda: training("branch"),
    "SYN002/fires-boolean-mask": lambda: training("mask"),
    "SYN002/fires-cpu-each-step": lambda: training("cpu", after=1_500),
    "SYN002/fires-inside-the-optimizer": lambda: training("optimizer", layers=10, us=400, after=60),
    "SYN002/silent-no-wait": lambda: training("none"),
    "SYN002/silent-cheap-item": lambda: training("item", after=30),
    "SYN002/silent-gpu-idle-anyway": lambda: host_bound("item"),
    "SYN002/silent-upload": lambda: training("upload"),
}
