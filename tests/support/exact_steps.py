"""Where steps went, computed once more: by a sweep over whole numbers, with nothing but the standard library.

Shares no code with `necropsy.trace`; it goes through all events one by one and is as slow
as it is plain. `partition(path)` gives, for each annotated step, bucket -> ns.
"""

from __future__ import annotations

import gzip
import itertools
import json
import lzma
import re
from bisect import bisect_left
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

ORDER = (
    "compute", "communication", "copies", "kernel gaps", "queue", "data loading", "compiling", "saving",
    "collecting garbage", "allocating", "synchronising", "dispatching",
)  # fmt: skip
WAITS = re.compile(
    r"(cuda|hip)(Stream|Device|Event)Synchronize|(cuda|hip)Memcpy(WithStream|ToSymbol)?$"
    r"|cu(Stream|Ctx|Event)Synchronize"
)
ALLOCATIONS = re.compile(
    r"(cuda|hip)(Malloc|Free)(Async|Host|Managed)?$|(cuda|hip)Host(Alloc|Malloc|Free|Register|Unregister)|hipExtMalloc"
    r"|cuMem(Create|Map|Unmap|Release|SetAccess|AddressReserve)"
)
COMPILING = re.compile(
    r"(^|/)(torch/_dynamo/convert_frame\.py\(\d+\): (__call__|_compile|compile_inner|_compile_inner)"
    r"|torch/_dynamo/convert_frame\.py\(\d+\): transform_code_object"
    r"|torch/_inductor/compile_fx\.py\(\d+\): (compile_fx|compile_fx_inner|fx_codegen_and_compile)"
    r"|torch/_functorch/aot_autograd\.py\(\d+\): (aot_module_simplified|create_aot_dispatcher_function)"
    r"|torch/_inductor/codecache\.py\(\d+\): (compile|load|compile_to_module)"
    r"|torch/_inductor/async_compile\.py\(\d+\): (triton|wait)"
    r"|torch/_inductor/(runtime/)?triton_heuristics\.py\(\d+\): (precompile|autotune_to_one_config|_precompile_worker)"
    r"|torch/fx/experimental/proxy_tensor\.py\(\d+\): (make_fx|wrapped)"
    r"|triton/compiler/compiler\.py\(\d+\): compile|triton/runtime/jit\.py\(\d+\): (_do_compile|compile)"
    r"|torch/_dynamo/utils\.py\(\d+\): record_compilation_metrics"
    r"|torch/_inductor/cudagraph_trees\.py\(\d+\): (record_function|run_eager)"
    r"|torch/cuda/graphs\.py\(\d+\): (__enter__|__exit__|capture_begin|capture_end))$"
)
SAVING = re.compile(
    r"(^|/)(torch/serialization\.py\(\d+\): save|safetensors/torch\.py\(\d+\): save(_file|_model)?"
    r"|torch/distributed/checkpoint/state_dict_saver\.py\(\d+\): (save|async_save|save_state_dict))$"
)
LOADING = re.compile(r"(^|/)torch/utils/data/dataloader\.py\(\d+\): (__next__|__iter__|_shutdown_workers)$")
RANGES = ("(dynamo_timed)", "entire_frame_compile", "entire_backward_compile")
GAP = 30_000


def ns(value: Any) -> int:
    """A time in us, kept as Decimal, as ns."""
    return int(value * 1000)


def load(path: Path) -> list[dict[str, Any]]:
    """The events; numbers with a point are exact."""
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "rb") as f:
        events: list[dict[str, Any]] = json.loads(f.read(), parse_float=Decimal)["traceEvents"]
    return [e for e in events if e.get("ph") == "X" and "ts" in e]


def partition(path: Path) -> list[dict[str, int]]:
    """One mapping a step, in order."""
    events = load(path)
    spans = [(e, ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in events]
    steps = sorted(
        (a, b) for e, a, b in spans if e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation"
    )
    marks = gpu_marks(spans) + host_marks(spans)
    return [swept(marks, a, b) for a, b in steps]


Span = tuple[dict[str, Any], int, int]
Mark = tuple[str, int, int]


def gpu_marks(spans: list[Span]) -> list[Mark]:
    """What the device did, and why it did nothing while work was waiting for it."""
    marks: list[Mark] = []
    work: list[Span] = []
    for e, a, b in spans:
        if e.get("cat") == "kernel":
            marks.append(("communication" if "nccl" in e["name"].lower() else "compute", a, b))
        elif e.get("cat") in ("gpu_memcpy", "gpu_memset"):
            marks.append(("copies", a, b))
        else:
            continue
        work.append((e, a, b))
    calls: dict[Any, tuple[int, int]] = {}
    for e, a, b in spans:
        if e.get("cat") in ("cuda_runtime", "cuda_driver"):
            calls.setdefault(e["args"].get("correlation"), (a, b))
    return marks + gaps(work, calls)


def gaps(work: list[Span], calls: dict[Any, tuple[int, int]]) -> list[Mark]:
    """Pauses of the device that end with work submitted before."""
    marks: list[Mark] = []
    busy_until = None
    submissions = first_submissions(work, calls)
    for _, a, b in sorted((w for w in work if w[2] > w[1]), key=lambda w: w[1]):
        call = submissions.get(a)
        if busy_until is not None and a > busy_until and call is not None:
            submitted = min(max(call, busy_until), a)
            if submitted == busy_until and a - busy_until < GAP:
                marks.append(("kernel gaps", busy_until, a))
            else:
                marks.append(("queue", submitted, a))
        busy_until = max(b, busy_until or b)
    return marks


def first_submissions(work: list[Span], calls: dict[Any, tuple[int, int]]) -> dict[int, int]:
    """Begin of work -> end of its call. Of several that begin together, kernels are asked before copies and memsets."""
    rank = {"kernel": 0, "gpu_memcpy": 1, "gpu_memset": 2}
    first: dict[tuple[int, int], Any] = {}
    for e, a, _ in work:
        first.setdefault((a, rank[e["cat"]]), e["args"].get("correlation"))
    found: dict[int, int] = {}
    for (begin, _), correlation in sorted(first.items(), key=lambda row: row[0]):
        if correlation in calls:
            found.setdefault(begin, calls[correlation][1])
    return found


def host_marks(spans: list[Span]) -> list[Mark]:
    """What the threads did that run the steps or submit work."""
    main = next(e["tid"] for e, _, _ in spans if e["name"].startswith("ProfilerStep#"))
    submitted = {
        e["args"].get("correlation") for e, _, _ in spans if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    }
    threads = {main} | {
        e["tid"] for e, _, _ in spans
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and e["args"].get("correlation") in submitted
    }  # fmt: skip
    marks: list[Mark] = captures(spans, threads)
    for e, a, b in spans:
        cat, name, on = e.get("cat"), e["name"], e["tid"] in threads
        if cat == "user_annotation" and name.startswith("enumerate(DataLoader)#") and e["tid"] == main:
            marks.append(("data loading", a, b))
        if on and cat in ("user_annotation", "cpu_op") and any(r in name.lower() for r in RANGES):
            marks.append(("compiling", a, b))
        if on and cat == "python_function":
            marks += [(bucket, a, b) for bucket in python_marks(name, e["tid"] == main)]
        if on and cat in ("cuda_runtime", "cuda_driver"):
            bare = name.partition("_v")[0]
            if ALLOCATIONS.match(bare):
                marks.append(("allocating", a, b))
            elif WAITS.match(bare):
                marks.append(("synchronising", a, b))
            marks.append(("dispatching", a, b))
        if on and cat == "cpu_op":
            marks.append(("dispatching", a, b))
    return marks


def python_marks(name: str, main: bool) -> list[str]:
    """The buckets of a frame of a driving thread."""
    found = ["compiling"] if COMPILING.search(name) else []
    found += ["saving"] if SAVING.search(name) else []
    found += ["collecting garbage"] if name == "<built-in function collect>" else []
    return found + (["data loading"] if main and LOADING.search(name) else [])


def captures(spans: list[Span], threads: set[Any]) -> list[Mark]:
    """Captures of CUDA graphs: from the call that begins one to the end of the next that ends one."""
    calls = [s for s in spans if s[0].get("cat") in ("cuda_runtime", "cuda_driver") and s[0]["tid"] in threads]
    ends = sorted(b for e, _, b in calls if re.match(r"(cuda|cu|hip)StreamEndCapture", e["name"]))
    begins = [(a, b) for e, a, b in calls if re.match(r"(cuda|cu|hip)StreamBeginCapture", e["name"])]
    return [("compiling", a, next(t for t in ends if t >= b)) for a, b in begins if ends and ends[-1] >= b]


def swept(marks: list[Mark], start: int, end: int) -> dict[str, int]:
    """Bucket -> ns of a window: at each instant the first of `ORDER` that anything marks."""
    changes: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for bucket, a, b in marks:
        a, b = max(a, start), min(b, end)
        if b > a:
            changes[a].append((bucket, 1))
            changes[b].append((bucket, -1))
    times = sorted({start, end, *changes})
    open_ = dict.fromkeys(ORDER, 0)
    found = dict.fromkeys((*ORDER, "Python"), 0)
    for here, after in itertools.pairwise(times):
        for bucket, change in changes[here]:
            open_[bucket] += change
        found[next((b for b in ORDER if open_[b]), "Python")] += after - here
    assert bisect_left(times, end) == len(times) - 1
    return found
