"""Another GPU's memory that the process cannot reach

What it means
    The process asked for direct access to another GPU's memory and the driver refused it.

Why it happens
    GPUs on different PCIe root complexes or of different kinds, virtualisation or the IOMMU
    (ACS) between them, MIG instances, more peers than the hardware allows.

How to confirm
    `nvidia-smi topo -m` and `nvidia-smi topo -p2p r`; `torch.cuda.can_device_access_peer(0, 1)`.

How to fix
    Let NCCL go through host memory (NCCL_P2P_DISABLE=1), copy through the CPU, or place the
    ranks on GPUs that reach each other.

Limits
    A peer access error can follow from an earlier fault of the same process. A GPU number that
    the process does not have is CRS007.

References
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
    - https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PEER.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.patterns import lazily

from necropsy.claim import event_of, from_exception
from necropsy.conditions import DEVICE_FAULT, PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.exceptions import Exceptions
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_PEER: Final = lazily(
    r"(?:CUDA (?:driver )?error: ?|[Cc]uda failure (?:\d+ )?'|cuda runtime error \(\d+\) ?: ?|HIP error: ?)"
    r"(?P<why>peer access is not supported between these two devices|peer mapping resources exhausted"
    r"|peer access has not been enabled|peer access is already enabled)"
)
_TOPOLOGY: Final = Fix(
    "See which GPUs reach each other", "command", command="nvidia-smi topo -m ; nvidia-smi topo -p2p r"
)
_PEER_FIXES: Final = {
    "peer access is not supported between these two devices": Fix(
        "Let NCCL go through host memory instead of direct access", "env", "safe", "NCCL_P2P_DISABLE=1"
    ),
    "peer mapping resources exhausted": Fix(
        "A GPU maps at most 8 peers at a time: use fewer direct peers in one process, or one process a GPU", "code"
    ),
    "peer access has not been enabled": Fix("Enable peer access before the copy, or copy with tensor.to()", "code"),
    "peer access is already enabled": Fix("Enable peer access once a pair of devices; another library did it", "code"),
}


@rule("CRS002", "peer-access", Severity.FATAL, aliases=("X02",))
def check(exceptions: Exceptions) -> Iterator[Finding]:
    """One finding an exception that names the refusal."""
    for row in exceptions:
        if (m := _PEER.search(row.everything)) is not None:
            yield from_exception(
                row,
                f"Direct access to another GPU's memory failed: {m['why']}.",
                facts={"error": m["why"]},
                fixes=(_PEER_FIXES[m["why"]], _TOPOLOGY),
                shows=frozenset({DEVICE_FAULT}),
                leaves=frozenset({PROCESS_DIED, PEER_ABSENT}),
                claims=frozenset({event_of(row)}),
            )
