"""What the host was doing: data loading, compiling, saving, collecting garbage, allocating, waiting, dispatching.

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
# (cudaMemcpy, against cudaMemcpyAsync). cudaEventQuery is none: it returns at once.
WAITS: Final = (
    "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaMemcpyToSymbol",
    "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "hipStreamSynchronize", "hipDeviceSynchronize",
    "hipEventSynchronize", "hipMemcpy", "hipMemcpyWithStream", "aclrtSynchronizeStream",
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
    # `__call__` is the callback of the interpreter on a call that no compiled code fits, logging included.
    ("torch/_dynamo/convert_frame.py", (
        "__call__", "_compile", "compile_inner", "_compile_inner", "transform_code_object",
    )),
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
    # Compile metrics are gathered after a compilation or a recording, under no other function of this list.
    ("torch/_dynamo/utils.py", ("record_compilation_metrics",)),
)  # fmt: skip
# Ranges of torch/_dynamo/utils.py (2.1 on); those of 2.6 on stand in one without the suffix, too.
_COMPILE_RANGES: Final = ("(dynamo_timed)", "entire_frame_compile", "entire_backward_compile")

# Recording CUDA graphs: torch/_inductor/cudagraph_trees.py (warm-up and capture), torch.cuda.graph.
_RECORDING: Final = (
    ("torch/_inductor/cudagraph_trees.py", ("record_function", "run_eager")),
    ("torch/cuda/graphs.py", ("__enter__", "__exit__", "capture_begin", "capture_end")),
)
_CAPTURE_BEGINS: Final = ("cudaStreamBeginCapture", "cuStreamBeginCapture", "hipStreamBeginCapture")
_CAPTURE_ENDS: Final = ("cudaStreamEndCapture", "cuStreamEndCapture", "hipStreamEndCapture")

LOADER: Final = "torch/utils/data/dataloader.py"
# `__iter__` starts the workers of an epoch, `_shutdown_workers` ends them; `__next__` has a range of its own, too.
_LOADING: Final = ((LOADER, ("__next__", "__iter__", "_shutdown_workers")),)

_SAVING: Final = (
    ("torch/serialization.py", ("save",)),
    ("torch/distributed/checkpoint/state_dict_saver.py", ("save", "async_save", "save_state_dict")),
    ("safetensors/torch.py", ("save_file", "save_model", "save")),
)
# gc.collect, as the profiler names a function of C; the interpreter's own collections leave no event.
COLLECT: Final = "<built-in function collect>"


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
        """In `next()` of a DataLoader's iterator, or making one, on the main thread."""
        r = self._rank
        rows = r.where(r.annotations, LOADING) & (r.annotations["thread"] == r.main_thread)
        ops = r.where(r.ops, LOADING) & (r.ops["thread"] == r.main_thread)  # until torch 1.8
        frames = self.frames_of(_LOADING) & (r.frames["thread"] == r.main_thread)
        return _cover(r.annotations, rows).union(_cover(r.ops, ops), _cover(r.frames, frames))

    @cached_property
    def compiling(self) -> Cover:
        """In torch.compile's or Triton's compilers or recording CUDA graphs, on any driving thread."""
        r = self._rank
        ranges = [_cover(c, self._driving(c) & r.matching(c, _COMPILE_RANGES)) for c in (r.annotations, r.ops)]
        return self._in_frames(_COMPILING).union(self.recording, *ranges)

    @cached_property
    def recording(self) -> Cover:
        """Recording CUDA graphs; a part of `compiling`."""
        r = self._rank
        begins = np.flatnonzero(self._driving(r.calls) & r.where(r.calls, _CAPTURE_BEGINS))
        ends = r.calls["end"][self._driving(r.calls) & r.where(r.calls, _CAPTURE_ENDS)]
        # A capture ends with the first such call behind it; one that the recording cut off is none.
        ends = np.sort(ends)
        at = np.searchsorted(ends, r.calls["end"][begins])
        whole = at < len(ends)
        captures = Cover.of(r.calls["start"][begins[whole]], ends[at[whole]])
        return captures.union(self._in_frames(_RECORDING))

    @cached_property
    def saving(self) -> Cover:
        """Writing checkpoints."""
        return self._in_frames(_SAVING)

    @cached_property
    def collecting(self) -> Cover:
        """In `gc.collect()`."""
        r = self._rank
        return _cover(r.frames, self._driving(r.frames) & r.where(r.frames, COLLECT, exact=True))

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

    def calls_of(self, names: tuple[str, ...]) -> Mask:
        """Rows of these calls of the threads that drive the device."""
        return self._driving(self._rank.calls) & _versions(self._rank, names)

    def _in_calls(self, names: tuple[str, ...]) -> Cover:
        return _cover(self._rank.calls, self.calls_of(names))

    def _in_frames(self, wanted: Iterable[tuple[str, tuple[str, ...]]]) -> Cover:
        r = self._rank
        return _cover(r.frames, self.frames_of(wanted) & self._driving(r.frames))

    def frames_of(self, wanted: Iterable[tuple[str, tuple[str, ...]]]) -> Mask:
        """Rows of the frames of these functions, by file (as under `site-packages`) and name."""
        r = self._rank
        table = {(file, function) for file, functions in wanted for function in functions}
        names = [
            n for n, f in r.frame_names.items()
            if f.file and (_tail(f.file), f.function.rpartition(".")[2]) in table
        ]  # fmt: skip
        return np.isin(r.frames["name"], np.array(names, np.int64)) if names else np.zeros(len(r.frames), np.bool_)


def _versions(rank: RankTrace, names: tuple[str, ...]) -> Mask:
    """Rows of calls by name, with the driver's version suffixes: cudaMalloc_v3020, cuMemcpyHtoD_v2."""
    wanted = [n in names or n.partition("_v")[0] in names for n in rank.trace.names]
    calls = rank.calls
    return np.array(wanted, np.bool_)[calls["name"]] if len(calls) else np.zeros(0, np.bool_)


def _tail(file: str) -> str:
    """A file as it stands under `site-packages`: a trace may keep the prefix."""
    parts = file.replace("\\", "/")
    for top in ("torch/", "triton/", "safetensors/"):
        at = parts.rfind("/" + top)
        if at >= 0:
            return parts[at + 1 :]
    return parts


def _cover(columns: Columns, rows: Mask) -> Cover:
    return Cover.of(columns["start"][rows], columns["end"][rows])
