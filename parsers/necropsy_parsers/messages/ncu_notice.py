"""What Nsight Compute and CUPTI print when they could not profile, or not all of it.

    ==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the ...
    ==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) is ...
    ==ERROR== Failed to profile "gather_kernel" in process 4411
    ==WARNING== No kernels were profiled.
    ==WARNING== Unable to access the following 6 metrics: ctc__rx_bytes_data_user.sum, ctc__tx_bytes_data_user.sum
    [ERROR] CUPTI_ERROR_INSUFFICIENT_PRIVILEGES                                 torch's profiler, through CUPTI

The tags are those of ncu 2019.1 to 2026.3; before 2021 some of the words bore `==PROF==`. Targets that end before their
first call are ordinary (a shell, `nvidia-smi`) and no record; nor are notes on clocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "ncu_notice"
TITLE: Final = "Profiling that failed (Nsight Compute, CUPTI)"
TRIGGERS: Final = (
    b"==ERROR==",
    b"==WARNING==",
    b"ERR_NVGPUCTRPERM",
    b"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
    b"No kernels were profiled",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 3. For instructions see": {"kind": "permission", "device": 3},
    '==ERROR== Failed to profile "gather_kernel" in process 4411': {"kind": "failed", "name": "gather_kernel"},
    '==ERROR== Failed to profile kernel "add_kernel" in process 4411': {"kind": "failed", "name": "add_kernel"},
    "==ERROR== Driver resource was unavailable. Ensure that no other tool (like DCGM)": {"kind": "busy"},
    "==WARNING== No kernels were profiled.": {"kind": "nothing"},
    "==WARNING== Unable to access the following 2 metrics: a__b.sum, c__d.avg": {
        "kind": "metrics",
        "names": ("a__b.sum", "c__d.avg"),
    },
}
MAX_NAMES: Final = 100
_TAG: Final = r"(?:==(?:ERROR|WARNING|PROF)== +)?"
_FORMS: Final = (
    (
        "permission",
        # After a tag (nvprof's is `==4411== Warning:`), as nsys says it, or as CUPTI's status.
        r"^(?:==\w+== *(?:\w+: *)?|\w*[Ee]rror: *)?ERR_NVGPUCTRPERM\b|[Ii]nsufficient privileges?\b.*ERR_NVGPUCTRPERM"
        r"|CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
        r"|==ERROR== .*does(?:n't| not) have (?:the )?permissions? to (?:access|profile)",
    ),
    ("busy", r"==ERROR== .*(?:[Dd]river resource was unavailable|another (?:profiling )?tool|already being profiled)"),
    ("driver", r"==ERROR== .*(?:driver is not compatible|driver version .*(?:not supported|too old|insufficient))"),
    (
        "unsupported",
        r"==ERROR== .*(?:(?:[Pp]rofiling|[Mm]etric collection) is not supported (?:on|for)"
        r"|(?:GPU|device|chip)\b.{0,60} is not supported"
        r"|[Uu]nsupported (?:GPU|chip|device)|No supported GPUs? (?:was |were )?found|not supported on (?:this )?vGPU)",
    ),
    ("lock", r"==ERROR== .*(?:lock file|nsight-compute-lock)"),
    ("failed", r"==ERROR== Failed to (?:profile|prepare)\b(?: kernel)?(?: \"(?P<name>[^\"\n]*)\")?"),
    ("failed", r"==ERROR== (?:LaunchFailed|UnknownError|Unknown Error on device|An error was reported by the driver)"),
    ("program", r"==ERROR== The application returned an error code \((?P<code>-?\d+)\)"),
    ("metrics", r"==(?:WARNING|ERROR)== Unable to access the following(?: \d+)? metrics?: *(?P<names>[^\n]+)"),
    ("metrics", r"==(?:WARNING|ERROR)== Failed to find metrics?:? +(?P<names>[\w.:]+)"),
    ("nothing", rf"{_TAG}No kernels were profiled"),
    ("ending", r"==ERROR== (?:An error occurred while trying to profile|Target .* (?:exited|terminated))"),
    # Other programs print the tag, too: the words must be a profiler's.
    (
        "other",
        r"==ERROR== .*\b(?:sections?|metrics?|kernels?|profil\w+|replay\w*|launch\w*|nvtx|CUDA|GPUs?|chips?|nsight|ncu"
        r"|the report|device memory|force-overwrite)\b",
    ),
)
_KINDS: Final = tuple((kind, lazily(form)) for kind, form in _FORMS)
_DEVICE: Final = lazily(r"\b(?:target )?device (\d+)")
_METRIC: Final = lazily(r"[a-z]\w*__[\w.]*\w|group:\w+")
_QUOTED: Final = re.compile(r"[\"'`]\s*(?:==|ERR_NV|No kernels)")


class NcuNotice(Record, frozen=True):
    """One message.

    `kind`: permission (counters are for administrators), busy (another tool has them), driver (older than this ncu, or
    newer), unsupported (GPU, vGPU or WSL), lock (another user's lock file), failed (one kernel, `name`, could not be
    replayed), program (it ended with status `code`), metrics (`names` do not exist on this GPU), nothing (no kernel was
    profiled). `ending` repeats that, `other` is an error that is none of these. `device` is the GPU's
    number where told, `tool` who says it (`ncu`, `CUPTI`, or `the profiler`), `detail` its own words.
    """

    kind: str
    tool: str
    device: int | None
    name: str
    code: int | None
    names: tuple[str, ...]
    detail: str


def _tool(text: str) -> str:
    if "CUPTI" in text:
        return "CUPTI"
    return "ncu" if re.search(r"==(?:ERROR|WARNING|PROF)==", text) else "the profiler"


def read(message: Message) -> Iterator[NcuNotice]:
    """The notice that `message` is, if it is one; quoted words are not."""
    text = " ".join(message.text.split()) if message.exception is not None else message.first.strip()
    if _QUOTED.search(text):
        return
    for kind, form in _KINDS:
        if (m := form.search(text)) is not None:
            part = m.groupdict()
            device = _DEVICE.search(text)
            yield NcuNotice(
                message.anchor,
                kind,
                _tool(text),
                int(device[1]) if device else None,
                part.get("name") or "",
                int(part["code"]) if part.get("code") else None,
                tuple(_METRIC.findall(part.get("names") or ""))[:MAX_NAMES],
                text[:400],
                **message.common,
            )
            return
