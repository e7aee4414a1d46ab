"""Large copies from or to pinned memory run far below any link's speed

What it means
    Each of these copies is 1 MiB or more, comes from pinned memory, and still runs at a
    rate that no x16 link since PCIe 3 has when it works (about 12 GB/s; PCIe 4 about 25,
    PCIe 5 about 55, NVLink-C2C far more). The trace does not tell which link there is.

Why it happens
    The GPU sits in a slot of fewer lanes or fell back to an older generation; the memory
    belongs to the other socket (NUMA); several GPUs copy over one switch at the same time;
    the copy is strided (2-D) or takes part in a virtual machine's emulation.

How to confirm
    `nvidia-smi -q -d PCIE` shows generation and width under load; `nvbandwidth` measures
    the link; `numactl --cpunodebind` shows whether placement matters.

How to fix
    Bind the process to its GPU's socket, free the link, and make tensors contiguous before
    pinning them.

Limits
    Copies from pageable memory are slow by nature and are MEM003's. Smaller copies are
    ruled by latency and not judged. Bands: `slow` is half of what PCIe 3 x16 reaches.

References
    - https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/
    - https://github.com/NVIDIA/nvbandwidth
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.memory._copies import amount, each, exposure, facts
from necropsy.trace.claim import about, in_function


class Thresholds(Struct, frozen=True):
    """`share` of the steps' time in which the device did nothing but slow copies."""

    share: float = 0.01


@rule("MEM007", "slow-copies", Severity.WARNING, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One finding a function whose pinned copies crawl in most steps."""
    for p in traces.gpu_profiles:
        if p.graphs:
            continue
        from necropsy.trace.copies import MOST_SITES, copies_of, sites_of

        for site in sites_of(p, "MEM007")[:MOST_SITES]:
            where = in_function(site.place)
            if p.share(site.exposed) < t.share or not copies_of(p).recurring(site):
                continue
            yield about(
                p,
                f"{each(p, site)} {amount(site)} between pinned memory and the GPU{where} at only "
                f"{site.rate:.2g} GB/s ({exposure(p, site)}): a PCIe 3 x16 link reaches about 12, newer ones more, "
                "so that the link or the memory behind it is not what it should be.",
                Severity.WARNING,
                shows="Memcpy ... Pinned, memory bandwidth",
                ns=site.exposed,
                places=[site.place],
                facts={**facts(p, site), "rate (GB/s)": round(site.rate, 2), "link": "not told by the trace"},
                fixes=(
                    Fix("See whether the link has its width and generation", command="nvidia-smi -q -d PCIE"),
                    Fix("Bind the process to the socket that its GPU belongs to", "command", command="numactl ..."),
                ),
            )
