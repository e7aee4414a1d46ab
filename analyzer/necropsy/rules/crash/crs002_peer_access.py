"""A GPU, or another GPU's memory, that the process cannot reach

What it means
    The process asked for direct access to another GPU's memory and the driver refused it, or
    it selected a device number that it does not have.

Why it happens
    Peer access: GPUs on different PCIe root complexes or of different kinds, virtualisation or
    the IOMMU (ACS) between them, MIG instances, more peers than the hardware allows. Device
    number: more ranks on the node than GPUs, a global rank used as a device number, a
    CUDA_VISIBLE_DEVICES that shows fewer GPUs.

How to confirm
    `nvidia-smi topo -m` and `nvidia-smi topo -p2p r`; `torch.cuda.can_device_access_peer(0, 1)`.
    Device number: `nvidia-smi -L` and CUDA_VISIBLE_DEVICES in the job's environment.

How to fix
    Peer access: let NCCL go through host memory (NCCL_P2P_DISABLE=1), copy through the CPU,
    or place the ranks on GPUs that reach each other. Device number: select the device by
    local rank, start no more ranks than GPUs.

Limits
    A peer access error can follow from an earlier fault of the same process.

References
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
    - https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PEER.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy.claim import event_of, from_exception
from necropsy.conditions import DEVICE_FAULT, PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.settings import Settings
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule

_PEER: Final = re.compile(
    r"(?:CUDA (?:driver )?error: ?|[Cc]uda failure (?:\d+ )?'|cuda runtime error \(\d+\) ?: ?|HIP error: ?)"
    r"(?P<why>peer access is not supported between these two devices|peer mapping resources exhausted"
    r"|peer access has not been enabled|peer access is already enabled)"
)
_ORDINAL: Final = re.compile(
    r"(?:CUDA (?:driver )?error: ?|cuda runtime error \(\d+\) ?: ?|HIP error: ?)invalid device ordinal"
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


def _ordinal(row: ExceptionRow, settings: Settings) -> Finding:
    seen = next((s.value for s in settings if s.name == "CUDA_VISIBLE_DEVICES" and s.attempt == row.attempt), None)
    shown = f" (CUDA_VISIBLE_DEVICES={seen})" if seen is not None else ""
    facts: dict[str, Fact] = {"error": "invalid device ordinal"}
    if seen is not None:
        facts["CUDA_VISIBLE_DEVICES"] = seen
    return from_exception(
        row,
        f"The process selected a GPU number that it does not have{shown}: more ranks than GPUs, or a wrong index.",
        facts=facts,
        fixes=(
            Fix(
                "Select the device by local rank, not by global rank",
                "code",
                command="torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
            ),
            Fix("Start at most as many ranks on a node as the job sees GPUs there", "config", command="nvidia-smi -L"),
        ),
    )


@rule("CRS002", "peer-access", Severity.FATAL, aliases=("X02", "invalid-device-ordinal"))
def check(exceptions: Exceptions, settings: Settings) -> Iterator[Finding]:
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
        elif _ORDINAL.search(f"{row.name}: {row.text}"):
            yield _ordinal(row, settings)
