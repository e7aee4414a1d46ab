"""What the compiler's caches answered for each graph, and why some graphs are kept out of them.

fx_graph_cache_hit, _miss, _bypass (torch/_inductor/compile_fx.py and codecache.py since 2.4), aotautograd_cache_*
(torch/_functorch/_aot_autograd/autograd_cache.py since 2.6), fx_graph_bundled_cache_hit (2.9). The payload is JSON
with the key and, part by part, what went into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct, field

from necropsy_parsers.messages.cache_bypass import CacheBypass
from necropsy_parsers.records import Record
from necropsy_parsers.structured.entry import Entry
from necropsy_parsers.structured.kinds import Reader

CACHES: Final = {"fx_graph": "FX graph cache", "fx_graph_bundled": "FX graph cache", "aotautograd": "autograd cache"}
KINDS: Final = tuple(f"artifact:{cache}_cache_{state}" for cache in CACHES for state in ("hit", "miss", "bypass"))
MAX_PARTS: Final = 400
MAX_KEPT: Final = 8 << 20  # bytes of payloads of one input: those of some hundred graphs; later keys differ in the same


class Told(Struct, frozen=True):
    """The fields that are read at once."""

    key: str | None = None
    reason: str | None = field(default=None, name="cache_bypass_reason")


class Components(Struct, frozen=True):
    """What a key was made of, which is most of a payload: `[hash] name: what went into the key`."""

    components: list[str] | None = None


class CacheEvent(Record, frozen=True):
    """One answer of a cache. `state`: hit, miss or bypass; `payload` (JSON) tells what the key was made of."""

    cache: str
    state: str
    key: str
    reason: str
    payload: bytes

    @property
    def parts(self) -> tuple[str, ...]:
        """What the key was made of, as `[hash] name`; none where it is not told, or not kept."""
        try:
            told = msgspec.json.decode(self.payload, type=Components).components
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return ()
        return tuple([text[:120].split(": ", 1)[0] for text in (told or ())[:MAX_PARTS]])


class _Answers:
    """Keeps the payloads of the first answers only: they are long."""

    def __init__(self) -> None:
        self._kept = 0

    def read(self, entry: Entry) -> Iterator[Record]:
        """An answer, and the reason why a graph is kept out."""
        told = entry.decoded(Told) or Told()
        self._kept += len(entry.raw)
        name, _, state = entry.name.rpartition("_")
        cache = CACHES[name.removesuffix("_cache")]
        reason = (told.reason or "").strip().split("\n", 1)[0].strip(" .")
        kept = entry.raw if self._kept <= MAX_KEPT else b""
        yield CacheEvent(entry.anchor, cache, state, told.key or "", reason, kept, **entry.common)
        if state == "bypass" and reason:
            yield CacheBypass(entry.anchor, cache, reason, **entry.common)

    def finish(self) -> Iterator[Record]:
        """Nothing."""
        return iter(())


def make() -> Reader:
    """A reader of caches' answers."""
    return _Answers()
