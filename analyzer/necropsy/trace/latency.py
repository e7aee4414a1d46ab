"""How long collectives take, by kind, size and group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.trace.collectives import BETWEEN_TWO, Signature, bus_bandwidth, collectives_of
from necropsy.trace.fleet import Fleet
from necropsy.trace.overlap import size_words
from necropsy.trace.profile import Profile


class Latency(Struct, frozen=True):
    """Collectives of one kind, size and group; times in ns."""

    words: str
    count: int
    median: float
    p99: float
    bandwidth: str


def slowest_kinds(
    profiles: Sequence[Profile], fleets: Sequence[Fleet], least: int
) -> Iterator[tuple[Profile, list[Latency], bool]]:
    """(process, its kinds, whether ranks were matched), slowest kinds first."""
    seen: set[int] = set()
    for fleet in fleets:
        if not fleet.trusted:
            continue
        seen |= {id(p) for p in fleet.profiles}
        parts = [(s, m.end.max(axis=1) - m.arrived, m.signatures) for m in fleet.meetings for s in set(m.signatures)]
        kinds = [_latency(s, ns[[x == s for x in every]]) for s, ns, every in parts]
        yield fleet.profiles[0], _ranked(kinds, least), True
    for p in profiles:
        if id(p) in seen:
            continue
        found = collectives_of(p)
        length = found.end - found.start
        kinds = [_latency(s, length[found.what == i]) for i, s in enumerate(found.signatures)]
        yield (
            p,
            _ranked([k for k, s in zip(kinds, found.signatures, strict=True) if s.name not in BETWEEN_TWO], least),
            False,
        )


def _ranked(kinds: Sequence[Latency], least: int) -> list[Latency]:
    return sorted((k for k in kinds if k.count >= least), key=lambda k: -k.p99)


def _latency(s: Signature, ns: NDArray[np.int64]) -> Latency:
    group = f" in {s.words}" if s.words and s.words != "default_pg" else ""
    if not len(ns):
        return Latency("", 0, 0.0, 0.0, "")
    speed = bus_bandwidth(s, np.array([np.median(ns)]))[0]
    told = f"{speed:.3g} GB/s" if np.isfinite(speed) else "unknown"
    p99 = float(np.quantile(ns, 0.99, method="higher"))
    return Latency(f"{s.name} collectives{size_words(s.bytes)}{group}", len(ns), float(np.median(ns)), p99, told)
