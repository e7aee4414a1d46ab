"""Signs that the caching allocator worked at its limit before (or without) failing.

[W CUDACachingAllocator.cpp:1033] Warning: ... memory ... retry
|       cudaMalloc retries: 14       | CUDA OOMs: 0            |                      (torch.cuda.memory_summary)
'num_alloc_retries': 14                                                              (torch.cuda.memory_stats)
[WARNING] [stage3.py:1949:step] 3 pytorch allocator cache flushes since last step. this happens when there is
high memory pressure and is detrimental to performance. ...                                      (DeepSpeed)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "allocator_retry"
TITLE: Final = "Retries and cache flushes of the caching allocator"
TRIGGERS: Final = (
    b"cudaMalloc retries",
    b"num_alloc_retries",
    b"allocator cache flushes",
    b"memory allocation retries",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "|       cudaMalloc retries: 14       |        CUDA OOMs: 1            |": {
        "retries": 14,
        "source": "memory_summary",
    },
}
_FORMS: Final = (
    (lazily(r"cudaMalloc retries: (\d+)"), "memory_summary"),
    (lazily(r"['\"]?num_alloc_retries['\"]?\s*[:=]\s*(\d+)"), "memory_stats"),
    (lazily(r"(\d+) pytorch allocator cache flushes since last step"), "DeepSpeed"),
    (lazily(r"(\d+) (?:CUDA )?memory allocation retries"), "FSDP"),
)


class AllocatorRetry(Record, frozen=True):
    """A count of retries or flushes, and which report gave it."""

    retries: int
    source: str


def read(message: Message) -> Iterator[AllocatorRetry]:
    """The count in `message`, if it is one above zero."""
    for pattern, source in _FORMS:
        if (m := pattern.search(message.text)) is not None:
            if int(m[1]) > 0:
                yield AllocatorRetry(
                    message.anchor,
                    int(m[1]),
                    source,
                    **message.common,
                )
            return
