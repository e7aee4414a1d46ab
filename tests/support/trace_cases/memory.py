"""Device memory: allocations while steps run, growth, capacity."""

from __future__ import annotations

from tests.support.trace_cases.copies import compute, program
from tests.support.tracing import DEVICES, TraceBuilder

MIB = 1 << 20
STACKS = ("with_stack", "record_shapes", "profile_memory")
EMPTY = ("torch/cuda/memory.py(212): empty_cache", "<built-in function _cuda_emptyCache>")


def allocate(t: TraceBuilder, count: int, call: str = "cudaMalloc", us: float = 120) -> None:
    """Calls of the driver below an operator."""
    for _ in range(count):
        with t.op("aten::empty"):
            t.call(call, us)


def emptied(*, once: bool = False, stacks: bool = True) -> TraceBuilder:
    """Steps that take 8 blocks and empty the cache at their end."""
    t = TraceBuilder(options=STACKS)
    with program(t, "tune_bert.py") as steps:
        for n in steps:
            churns = not once or n == 0
            with t.frame("tune_bert.py(19): forward"):
                if churns:
                    allocate(t, 8)
            compute(t, 9_000, "tune_bert.py(19): forward")
            with t.frame("tune_bert.py(47): train_step", *(EMPTY if stacks else ())):
                if churns:
                    t.wait("cudaDeviceSynchronize")
                    for _ in range(8):
                        t.call("cudaFree", 200)
            with t.op("aten::item"):
                t.wait()
    return t


def changing(sizes: list[int], *, taken: int = 6) -> TraceBuilder:
    """Batches of other sizes each step: the cache fits none, and what is reserved rises by `sizes` MiB."""
    t = TraceBuilder(options=STACKS)
    reserved = 9_000 * MIB
    with program(t, "tune_bert.py", len(sizes)) as steps:
        for n in steps:
            reserved += sizes[n] * MIB
            with t.frame("tune_bert.py(19): forward"), t.op("aten::empty"):
                t.memory(1_000 * MIB, allocated=3_000 * MIB, reserved=reserved, address=1)
                if sizes[n]:
                    for _ in range(taken if sizes[n] >= sizes[0] else 1):
                        t.call("cudaMalloc", 120)
            compute(t, 9_000, "tune_bert.py(19): forward")
            with t.frame("tune_bert.py(47): train_step"):
                t.memory(-1_000 * MIB, allocated=2_000 * MIB, reserved=reserved, address=1)
    return t


def creeping(rises: list[int], *, trains: bool = True) -> TraceBuilder:
    """At the end of each step so many MiB more are in use; activations of 800 MiB come and go."""
    t = TraceBuilder(options=STACKS)
    used = 4_000 * MIB
    with program(t, "fit_flow.py", len(rises)) as steps:
        for n in steps:
            reserved = 60_000 * MIB
            with t.frame("fit_flow.py(24): forward"), t.op("aten::gelu"):
                t.memory(800 * MIB, allocated=used + 800 * MIB, reserved=reserved, address=7)
                if rises[n]:
                    kept = rises[n] * MIB
                    t.memory(kept, allocated=used + 800 * MIB + kept, reserved=reserved, address=100 + n)
                    used += kept
            compute(t, 6_000, "fit_flow.py(24): forward")
            with t.frame("fit_flow.py(58): train_step"):
                if trains:
                    node = t.op("autograd::engine::evaluate_function: GeluBackward0")
                    with t.frame("torch/_tensor.py(592): backward"), node, t.op("aten::gelu_backward"):
                        t.launch("void at::native::vectorized_elementwise_kernel<4, GeluBackward>", 100)
                t.memory(-800 * MIB, allocated=used, reserved=reserved, address=7)
    return t


def filled(share: float, *, reserved: float = 0.0, trains: bool = True) -> TraceBuilder:
    """Steps whose peak uses a share of the GPU's memory, of which a larger one may be reserved."""
    t = TraceBuilder(options=STACKS)
    capacity = DEVICES["h100"][1]
    peak, held = round(share * capacity), round(max(share + 0.01, reserved) * capacity)
    with program(t, "fit_flow.py") as steps:
        for _ in steps:
            with t.frame("fit_flow.py(24): forward"), t.op("aten::mm"):
                t.memory(2_000 * MIB, allocated=peak, reserved=held, address=9)
            compute(t, 6_000, "fit_flow.py(24): forward")
            with t.frame("fit_flow.py(58): train_step"):
                if trains:
                    with t.op("autograd::engine::evaluate_function: MmBackward0"), t.op("aten::mm"):
                        t.launch("void at::native::vectorized_elementwise_kernel<4, GeluBackward>", 100)
                t.memory(-2_000 * MIB, allocated=peak - 2_000 * MIB, reserved=held, address=9)
    return t


CASES = {
    "OOM001/fires-nearly-full": lambda: filled(0.94),
    "OOM001/fires-serving-note": lambda: filled(0.94, trains=False),
    "OOM001/silent-three-quarters": lambda: filled(0.75),
    "OOM001/silent-reserved-only": lambda: filled(0.7, reserved=0.93),
    "OOM002/fires-cache-of-most": lambda: filled(0.2, reserved=0.6),
    "OOM002/silent-small-cache": lambda: filled(0.04, reserved=0.12),
    "OOM002/silent-some-cache": lambda: filled(0.5, reserved=0.7),
    "OOM003/fires-graphs-kept": lambda: creeping([500, 500, 500, 500]),
    "OOM003/silent-losses-kept": lambda: creeping([0, 0, 0, 0]),
    "OOM003/silent-one-step-grew": lambda: creeping([0, 500, 0, 0]),
    "OOM003/silent-filling-up": lambda: creeping([900, 300, 20, 0]),
    "OOM010/fires-empty-cache-each-step": emptied,
    "OOM010/fires-no-stacks-below": lambda: emptied(stacks=False),
    "OOM010/fires-shapes-grow": lambda: changing([1400, 1400, 1400, 1400]),
    "OOM010/silent-first-step-only": lambda: emptied(once=True),
    "OOM010/silent-cache-fills-up": lambda: changing([1400, 400, 200, 100]),
    "OOM010/silent-shapes-settle": lambda: changing([1400, 1400, 0, 0]),
}
