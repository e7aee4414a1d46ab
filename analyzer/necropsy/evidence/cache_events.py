"""What the compiler's caches answered."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from necropsy_parsers.structured.kinds.caches import CacheEvent

from necropsy.evidence._records import COMMON, RecordTable


class CacheEvents(RecordTable[CacheEvent]):
    """One row an answer."""

    name = "cache_events"
    row = CacheEvent
    accepts = (CacheEvent,)
    formats = ("torch_trace",)
    supply = "structured logs of the run (TORCH_TRACE=folder)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "cache": "FX graph cache or autograd cache",
        "state": "hit, miss or bypass",
        "key": "key of the graph, or empty",
        "reason": "why it was kept out",
        "payload": "JSON of what the key was made of (its property `parts` lists it), empty where not kept",
    }


def differing(a: CacheEvent, b: CacheEvent) -> tuple[str, ...]:
    """Names of the parts that differ; none where most do, which is another program."""
    one, other = Counter(a.parts), Counter(b.parts)
    names = dict.fromkeys(_name(part) for part in (*(one - other), *(other - one)))
    return tuple(names) if len(names) * 2 < len({_name(part) for part in (*one, *other)}) else ()


def _name(part: str) -> str:
    return part.partition("] ")[2]
