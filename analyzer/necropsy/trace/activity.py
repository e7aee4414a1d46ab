"""What the host was doing: data loading, compiling, allocating, waiting, dispatching, Python.

The threads that count are the main one and those that launch GPU work (autograd's). A
thread is doing the first of these that holds: a wait inside data loading is loading.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from necropsy_parsers.trace.columns import Columns

from necropsy.trace.intervals import Cover
from necropsy.trace.rank import RankTrace

Mask = NDArray[np.bool_]

LOADING: Final = ("enumerate(DataLoader)#",)

# Calls that wait for the device. A synchronous copy is one, too; it is told by its call's name alone
# (cudaMemcpy, against cudaMemcpyAsync).
WAITS: Final = (
    "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaMemcpyToSymbol",
    "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cudaEventQuery", "hipStreamSynchronize",
    "hipDeviceSynchronize", "hipEventSynchronize", "hipMemcpy", "hipMemcpyWithStream", "aclrtSynchronizeStream",
    "aclrtSynchronizeDevice", "aclrtSynchronizeEvent",
)  # fmt: skip
ALLOCATIONS: Final = (
    "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaMallocHost", "cudaHostRegister",
    "cudaHostUnregister", "cudaMallocAsync", "cudaFreeAsync", "cudaMallocManaged", "cuMemCreate", "cuMemMap",
    "cuMemUnmap", "cuMemRelease", "cuMemSetAccess", "cuMemAddressReserve", "hipMalloc", "hipFree", "hipHostMalloc",
    "hipHostFree", "hipMallocAsync", "hipFreeAsync", "hipExtMallocWithFlags",
)  # fmt: skip

# Outermost functions of compiling; what runs below them is part of it. torch 2.1 to 2.13.
_COMPILING: Final = (
    ("torch/_dynamo/convert_frame.py", ("_compile", "compile_inner", "_compile_inner", "transform_code_object")),
    ("torch/_inductor/compile_fx.py", ("compile_fx", "compile_fx_inner", "fx_codegen_and_compile")),
    ("torch/_functorch/aot_autograd.py", ("aot_module_simplified", "create_aot_dispatcher_function")),
    ("torch/_inductor/codecache.py", ("compile", "load", "compile_to_module")),
    ("torch/_inductor/async_compile.py", ("triton", "wait")),
    ("torch/_inductor/runtime/triton_heuristics.py", ("precompile", "autotune_to_one_config", "_precompile_worker")),
    ("torch/_inductor/triton_heuristics.py", ("precompile", "autotune_to_one_config")),
    ("torch/_inductor/select_algorithm.py", ("__call__", "benchmark", "precompile")),
    ("torch/fx/experimental/proxy_tensor.py", ("make_fx", "wrapped")),
    ("triton/compiler/compiler.py", ("compile",)),
    ("triton/runtime/jit.py", ("_do_compile", "compile")),
    ("triton/runtime/autotuner.py", ("_bench", "check_disk_cache")),
    ("torch/utils/cpp_extension.py", ("load", "load_inline", "_jit_compile")),
)  # fmt: skip
_COMPILE_RANGES: Final = ("(dynamo_timed)",)


class HostActivity:
    """Covers of time by what the host did, for the threads that drive the device."""

    def __init__(self, rank: RankTrace) -> None:
        self._rank = rank

    @cached_property
    def threads(self) -> NDArray[np.int32]:
        """The main thread and those that submit work."""
        launched = [self._rank.launch_of(w) for w in (self._rank.kernels, self._rank.copies, self._rank.memsets)]
        calls = np.concatenate(launched)
        drivers: NDArray[np.int64] = (
            np.unique(self._rank.calls["thread"][calls[calls >= 0]]) if len(self._rank.calls) else calls[:0]
        )
        return np.unique(np.concatenate((np.asarray(drivers), [self._rank.main_thread]))).astype(np.int32)

    @cached_property
    def loading(self) -> Cover:
        """In `next()` of a DataLoader's iterator, on the main thread."""
        r = self._rank
        rows = r.where(r.annotations, LOADING) & (r.annotations["thread"] == r.main_thread)
        ops = r.where(r.ops, LOADING) & (r.ops["thread"] == r.main_thread)  # until torch 1.8
        found = _cover(r.annotations, rows).union(_cover(r.ops, ops))
        if len(found):
            return found
        return self._in_frames((("torch/utils/data/dataloader.py", ("__next__",)),))

    @cached_property
    def compiling(self) -> Cover:
        """In torch.compile's or Triton's compilers, on any driving thread."""
        r = self._rank
        ranges = [_cover(c, self._driving(c) & r.matching(c, _COMPILE_RANGES)) for c in (r.annotations, r.ops)]
        return self._in_frames(_COMPILING).union(*ranges)

    @cached_property
    def allocating(self) -> Cover:
        """In calls that take memory from the driver or give it back."""
        return self._in_calls(ALLOCATIONS)

    @cached_property
    def waiting(self) -> Cover:
        """In calls that wait for the device."""
        return self._in_calls(WAITS)

    @cached_property
    def dispatching(self) -> Cover:
        """In operators, and in calls of the runtime outside them."""
        r = self._rank
        return _cover(r.ops, self._driving(r.ops)).union(_cover(r.calls, self._driving(r.calls)))

    def _driving(self, columns: Columns) -> Mask:
        return np.isin(columns["thread"], self.threads)

    def _in_calls(self, names: tuple[str, ...]) -> Cover:
        r = self._rank
        return _cover(r.calls, self._driving(r.calls) & _versions(r, names))

    def _in_frames(self, wanted: Iterable[tuple[str, tuple[str, ...]]]) -> Cover:
        r = self._rank
        table = {(file, function) for file, functions in wanted for function in functions}
        names = [
            n for n, f in r.frame_names.items()
            if f.file and (_tail(f.file), f.function.rpartition(".")[2]) in table
        ]  # fmt: skip
        rows = np.isin(r.frames["name"], np.array(names, np.int64)) if names else np.zeros(len(r.frames), np.bool_)
        return _cover(r.frames, rows & self._driving(r.frames))


def _versions(rank: RankTrace, names: tuple[str, ...]) -> Mask:
    """Rows of calls by name, with the driver's version suffixes: cudaMalloc_v3020, cuMemcpyHtoD_v2."""
    wanted = [n in names or n.partition("_v")[0] in names for n in rank.trace.names]
    calls = rank.calls
    return np.array(wanted, np.bool_)[calls["name"]] if len(calls) else np.zeros(0, np.bool_)


def _tail(file: str) -> str:
    """A file as it stands under `site-packages`: a trace may keep the prefix."""
    parts = file.replace("\\", "/")
    for top in ("torch/", "triton/"):
        at = parts.rfind("/" + top)
        if at >= 0:
            return parts[at + 1 :]
    return parts


def _cover(columns: Columns, rows: Mask) -> Cover:
    return Cover.of(columns["start"][rows], columns["end"][rows])
