"""Graphs that torch's compiler will not keep in its cache, and why.

Bypassing FX Graph Cache because 'Unsupported post grad custom pass'
Bypassing autograd cache due to: Unsupported call_function target mylib.scale.default.
 Function module: torch._ops.mylib,
Function name: scale

`TORCH_LOGS=inductor,aot` (INFO): torch/_inductor/codecache.py since 2.5,
torch/_functorch/_aot_autograd/autograd_cache.py since 2.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "cache_bypass"
TITLE: Final = "Graphs that are kept out of the compiler's cache"
TRIGGERS: Final = (b"Bypassing FX Graph Cache because", b"Bypassing autograd cache due to: ")
READS: Final = (Reads("", "2.5", "graphs kept out of the compiler's cache, with the reason"),)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Bypassing FX Graph Cache because 'Unsupported post grad custom pass'": {
        "cache": "FX graph cache",
        "reason": "Unsupported post grad custom pass",
    },
    "Bypassing autograd cache due to: Unsupported node op call_module": {
        "cache": "autograd cache",
        "reason": "Unsupported node op call_module",
    },
}
_FX: Final = lazily(r"Bypassing FX Graph Cache because '(?P<reason>[^\n]*?)'?$")
_AUTOGRAD: Final = lazily(r"Bypassing autograd cache due to: (?P<reason>[^\n]*)$")


class CacheBypass(Record, frozen=True):
    """One graph that is not kept in `cache` (FX graph cache, autograd cache) for `reason`."""

    cache: str
    reason: str


def read(message: Message) -> Iterator[CacheBypass]:
    """The bypasses in `message`."""
    if message.exception is not None:
        return
    for line in message.text.split("\n"):
        for cache, pattern in (("FX graph cache", _FX), ("autograd cache", _AUTOGRAD)):
            if (m := pattern.search(line)) is not None:
                yield CacheBypass(message.anchor, cache, m["reason"].strip(" ."), **message.common)
