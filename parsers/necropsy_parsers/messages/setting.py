"""Settings that a log shows as in force: environment variables and versions.

    export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    CUDA_LAUNCH_BLOCKING=1 python train.py
    PyTorch version: 2.4.0+cu121
    [PG ID 0 PG GUID 0 Rank 1] ProcessGroupNCCL environments: NCCL version: 2.20.5,
    TORCH_NCCL_ASYNC_ERROR_HANDLING: 1, TORCH_NCCL_DUMP_ON_TIMEOUT: 0, ...
    TORCH_NCCL_ENABLE_MONITORING (Whether to kill program when no watchdog heartbeat detected): 1
    Warning: Environment variable NCCL_BLOCKING_WAIT is deprecated; use TORCH_NCCL_BLOCKING_WAIT instead
    torchrun --nproc_per_node 8 --max-restarts=0 train.py

ProcessGroupNCCL prints what is in force, defaults included, at TORCH_CPP_LOG_LEVEL=INFO: one line a variable before
torch 2.1, then one line for all of them, and in newer releases three. Advice is no evidence: "try setting
PYTORCH_CUDA_ALLOC_CONF=..." and torch's "For debugging consider passing CUDA_LAUNCH_BLOCKING=1" are passed over, as are
comments and what a shell has still to fill in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "setting"
TITLE: Final = "Environment variables and versions in force"
TRIGGERS: Final = (
    b"PYTORCH_CUDA_ALLOC_CONF", b"PYTORCH_ALLOC_CONF", b"CUDA_LAUNCH_BLOCKING", b"CUDA_VISIBLE_DEVICES", b"NCCL_",
    b"TORCH_NCCL_", b"PyTorch version", b"torch==", b"expandable_segments", b"TORCH_DISTRIBUTED_DEBUG", b"TORCH_FR_",
    b"TORCHELASTIC_MAX_RESTARTS", b"--max-restarts", b"--max_restarts", b"TORCHDYNAMO_DISABLE",
    b"TORCH_COMPILE_DISABLE",
)  # fmt: skip
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "export CUDA_LAUNCH_BLOCKING=1": {"name": "CUDA_LAUNCH_BLOCKING", "value": "1"},
    "[PG ID 0 PG GUID 0 Rank 1] HeartbeatMonitor environments: TORCH_NCCL_ENABLE_MONITORING (Whether to kill program "
    "when no watchdog heartbeat detected): 1, TORCH_NCCL_DUMP_ON_TIMEOUT: 0": {
        "name": "TORCH_NCCL_DUMP_ON_TIMEOUT",
        "value": "0",
    },
    "Warning: Environment variable NCCL_BLOCKING_WAIT is deprecated; use TORCH_NCCL_BLOCKING_WAIT instead": {
        "name": "NCCL_BLOCKING_WAIT",
        "value": "",
    },
    "torchrun --nproc_per_node 8 --max-restarts=0 train.py": {"name": "TORCHELASTIC_MAX_RESTARTS", "value": "0"},
}
_ADVICE: Final = lazily(
    (
        r"\b(?:try|consider|set(?:ting)?|pass(?:ing)?|use|using"
        r"|you (?:can|may|should)|recommend\w*|please|if|hint|e\.g\.|see|enable)\b.{0,160}$"
    ),
    re.IGNORECASE,
)
_COMMENT: Final = lazily(r"\s*#\s*(?:export|set|[A-Z_]+=)")
_KNOWN: Final = (
    r"(?<![A-Z0-9_])(?P<name>PYTORCH_(?:CUDA_)?ALLOC_CONF|CUDA_LAUNCH_BLOCKING|CUDA_VISIBLE_DEVICES"
    r"|(?:TORCH_)?NCCL_[A-Z0-9_]+|TORCH_FR_[A-Z_]+|TORCH_DISTRIBUTED_DEBUG|TORCHELASTIC_MAX_RESTARTS"
    r"|TORCHDYNAMO_DISABLE|TORCH_COMPILE_DISABLE)"
)
_PAIR: Final = lazily(
    _KNOWN + r"(?: \([^()]{1,90}\))?"
    r"['\"]?\s*(?:=|:|\bis set to\b|\bset by environment to\b)\s*['\"]?(?P<value>[^\s'\"]+)"
)
_OVERRIDDEN: Final = lazily(rf"ENV\[{_KNOWN}\] = .{{0,200}}? will be overridden to (?P<value>\S+)")  # torchtitan
_OLD_NAME: Final = lazily(rf"Environment variable {_KNOWN} is deprecated; use \w+ instead")
_NO_WATCHDOG: Final = lazily(_KNOWN + r" is enabled, NO watchdog thread is created")
_TURNED_ON: Final = lazily(rf"must both be enabled\. Enabling {_KNOWN}")  # by TORCH_NCCL_DESYNC_DEBUG=1
_IN_WORDS: Final = ((_OVERRIDDEN, None), (_OLD_NAME, ""), (_NO_WATCHDOG, "1"), (_TURNED_ON, "3"))
_UNFILLED: Final = ("$", "{", "%", "<")
_RESTARTS: Final = lazily(
    r"\b(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate launch)\b.{0,400}? "
    r"--max[-_]restarts[= ]['\"]?(?P<value>\d+)\b"
)
_VERSION: Final = lazily(r"PyTorch version:? (?P<a>\d+\.\d+[\w.+]*)|\btorch==(?P<b>\d+\.\d+[\w.+]*)")
_RANK: Final = lazily(r"\b[Rr]ank (\d+)\]")


class Setting(Record, frozen=True):
    """One setting in force; the value is "" where only its name is told. `spoken_by` is the rank that says it."""

    name: str
    value: str
    spoken_by: int | None = None


def read(message: Message) -> Iterator[Setting]:
    """The settings that `message` shows as in force."""
    if message.exception is not None or _COMMENT.match(message.first):
        return
    text = message.first
    spoken = _RANK.search(text)
    rank = message.origin.rank
    if rank is None and spoken is not None:
        rank = int(spoken[1])
    for name, value in _pairs(text):
        yield Setting(message.anchor, name, value, rank, **message.common)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Names and values in `text`."""
    for m in _PAIR.finditer(text):
        if not _ADVICE.search(text[: m.start()]) and not m["value"].startswith(_UNFILLED):
            yield m["name"], m["value"].rstrip(",;.")
    for pattern, value in _IN_WORDS:
        for m in pattern.finditer(text):
            yield m["name"], m["value"] if value is None else value
    if (r := _RESTARTS.search(text)) is not None and not _ADVICE.search(text[: r.start()]):
        yield "TORCHELASTIC_MAX_RESTARTS", r["value"]
    if (v := _VERSION.search(text)) is not None:
        yield "torch", v["a"] or v["b"]
