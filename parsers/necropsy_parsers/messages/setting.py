"""Settings that a log shows as in force: environment variables and versions.

    export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    CUDA_LAUNCH_BLOCKING=1 python train.py
    PyTorch version: 2.4.0+cu121

Advice is no evidence: "try setting PYTORCH_CUDA_ALLOC_CONF=..." and torch's "For
debugging consider passing CUDA_LAUNCH_BLOCKING=1" are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.records import Record

NAME: Final = "setting"
TITLE: Final = "Environment variables and versions in force"
TRIGGERS: Final = (
    b"PYTORCH_CUDA_ALLOC_CONF", b"PYTORCH_ALLOC_CONF", b"CUDA_LAUNCH_BLOCKING", b"CUDA_VISIBLE_DEVICES", b"NCCL_",
    b"TORCH_NCCL_", b"PyTorch version", b"torch==", b"expandable_segments", b"TORCH_DISTRIBUTED_DEBUG",
)  # fmt: skip
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "export CUDA_LAUNCH_BLOCKING=1": {"name": "CUDA_LAUNCH_BLOCKING", "value": "1"},
}
_ADVICE: Final = re.compile(
    (
        r"\b(?:try|consider|set(?:ting)?|pass(?:ing)?|use|using"
        r"|you (?:can|may|should)|recommend\w*|please|if|hint|e\.g\.|see|enable)\b.{0,160}$"
    ),
    re.IGNORECASE,
)
_PAIR: Final = re.compile(
    r"(?P<name>(?:"
    r"PYTORCH_(?:CUDA_)?ALLOC_CONF|CUDA_LAUNCH_BLOCKING"
    r"|CUDA_VISIBLE_DEVICES|(?:TORCH_)?NCCL_[A-Z_]+|TORCH_DISTRIBUTED_DEBUG))"
    r"['\"]?\s*(?:=|:|\bis set to\b|\bset by environment to\b)\s*['\"]?(?P<value>[^\s'\"]+)"
)
_VERSION: Final = re.compile(r"PyTorch version:? (?P<a>\d+\.\d+[\w.+]*)|\btorch==(?P<b>\d+\.\d+[\w.+]*)")


@dataclass(frozen=True, slots=True)
class Setting(Record):
    """One setting in force."""

    name: str
    value: str


def read(message: Message) -> Iterator[Setting]:
    """The settings that `message` shows as in force."""
    if message.exception is not None:
        return
    text = message.first
    for m in _PAIR.finditer(text):
        if not _ADVICE.search(text[: m.start()]):
            yield Setting(message.anchor, m["name"], m["value"].rstrip(",;"), **message.common)
    if (v := _VERSION.search(text)) is not None:
        yield Setting(message.anchor, "torch", v["a"] or v["b"], **message.common)
