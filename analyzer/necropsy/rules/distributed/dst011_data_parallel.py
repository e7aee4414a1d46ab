"""nn.DataParallel drives several GPUs from one process

What it means
    One Python process copies the model to every GPU in each step, scatters the batch,
    launches all replicas' kernels from threads that share the interpreter's lock, and
    gathers outputs and gradients on the first GPU.

Why it happens
    `nn.DataParallel(model)` is one line; `DistributedDataParallel` needs a process a GPU.

How to confirm
    The trace of one process holds kernels of several devices, and frames of
    torch/nn/parallel/data_parallel.py in every step.

How to fix
    `torchrun --nproc-per-node=<GPUs> train.py` and `DistributedDataParallel(model,
    device_ids=[local_rank])`, with a `DistributedSampler` for the loader.

Limits
    What the change gains depends on the model; the time given is what the steps spend in
    replicating, scattering and gathering on the main thread, not the gain.

References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
    - https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterator

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, in_function, ms, part


@rule("DST011", "data-parallel", Severity.WARNING)
def check(traces: Traces) -> Iterator[Finding]:
    """One finding a process that runs DataParallel over several devices in most steps."""
    for p in traces.gpu_profiles:
        from necropsy.trace.parallel import replicas

        found = replicas(p)
        if found is None:
            continue
        yield about(
            p,
            f"nn.DataParallel runs {found.devices} GPUs from one process{in_function(found.place)}: replicating, "
            f"scattering and gathering keep its main thread busy {ms(p.per_step(found.ns))} of each {p.step_word} "
            f"({part(p.share(found.ns))}).",
            Severity.WARNING,
            shows="DataParallel.forward; kernels of several devices in one process",
            places=[found.place],
            event=f"communication@{p.input}",
            facts={"devices": found.devices, "calls": found.calls},
            fixes=(
                Fix(
                    "Use DistributedDataParallel, a process a GPU: `torchrun --nproc-per-node=<GPUs> train.py`, "
                    "`DistributedDataParallel(model, device_ids=[local_rank])`",
                    "code",
                ),
            ),
        )
