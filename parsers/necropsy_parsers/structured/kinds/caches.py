"""What the compiler's caches answered for each graph, and why some graphs are kept out of them.

fx_graph_cache_hit, _miss, _bypass (torch/_inductor/compile_fx.py and codecache.py since 2.4), aotautograd_cache_*
(torch/_functorch/_aot_autograd/autograd_cache.py since 2.6), fx_graph_bundled_cache_hit (2.9). The payload is JSON
with the key and, part by part, what went into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.messages.cache_bypass import CacheBypass
from necropsy_parsers.records import Record
from necropsy_parsers.structured.entry import Entry
from necropsy_parsers.structured.kinds import Plain, Reader

CACHES: Final = {"fx_graph": "FX graph cache", "fx_graph_bundled": "FX graph cache", "aotautograd": "autograd cache"}
KINDS: Final = tuple(f"artifact:{cache}_cache_{state}" for cache in CACHES for state in ("hit", "miss", "bypass"))
_PART: Final = re.compile(r"\[(\w+)\] ([^:\n]{1,120})(?::|$)")
MAX_PARTS: Final = 400


class Told(Struct, frozen=True):
    """The fields that are read."""

    key: str | None = None
    reason: str | None = field(default=None, name="cache_bypass_reason")
    components: list[str] | None = None
    time_saved_ns: float | None = None


class CacheEvent(Record, frozen=True):
    """One answer of a cache. `state`: hit, miss or bypass; `parts` are (name, hash) of what the key was made of."""

    cache: str
    state: str
    key: str
    reason: str
    parts: tuple[tuple[str, str], ...]


def make() -> Reader:
    """A reader of caches' answers."""
    return Plain(_read)


def _read(entry: Entry) -> Iterator[Record]:
    told = entry.decoded(Told) or Told()
    name, _, state = entry.name.rpartition("_")
    cache = CACHES[name.removesuffix("_cache")]
    reason = (told.reason or "").strip().split("\n", 1)[0].strip(" .")
    parts = tuple((m[2], m[1]) for m in map(_PART.match, (told.components or ())[:MAX_PARTS]) if m is not None)
    yield CacheEvent(entry.anchor, cache, state, told.key or "", reason, parts, **entry.common)
    if state == "bypass" and reason:
        yield CacheBypass(entry.anchor, cache, reason, **entry.common)
