"""How rules of traces say things: one finding about one profile, with a cost that is measured or says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from necropsy.finding import MAX_PLACES, Cost, Finding, Place, Severity

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile, Site


def about(
    profile: Profile,
    message: str,
    severity: Severity,
    *,
    shows: str,
    ns: int | float | None = None,
    basis: str = "measured",
    places: Iterable[Place | None] = (),
    **changes: Any,
) -> Finding:
    """A finding about a trace.

    `shows` says what to look for in it; `ns` is the cost in all judged steps, whose part of
    their time is its share (of wall time; a cost on the device that was hidden costs nothing).
    """
    code = tuple(dict.fromkeys(p for p in places if p is not None))[:MAX_PLACES]
    base: dict[str, Any] = {
        "message": message,
        "severity": severity,
        "anchor": profile.anchor(shows),
        "code": code,
        "ranks": profile.ranks,
        "seq": profile.seq,
        "process": f"rank {profile.origin.rank}" if profile.origin.rank is not None else "",
        "cost": Cost(int(ns), profile.share(ns), basis) if ns is not None else Cost(),
    }
    return Finding(**{**base, **changes})


def places_of(sites: Iterable[Site], most: int = 3) -> list[Place | None]:
    """The places of the sites that weigh most."""
    return [s.place for _, s in zip(range(most), sites, strict=False)]


def ms(ns: int | float) -> str:
    """Nanoseconds as a sentence tells them: `214 ms`, `3.1 ms`, `18 us`."""
    if ns >= 1e9:
        return f"{ns / 1e9:.2f} s"
    if ns >= 1e8:
        return f"{ns / 1e6:.0f} ms"
    if ns >= 1e6:
        return f"{ns / 1e6:.3g} ms"
    return f"{ns / 1e3:.3g} us"


def part(share: float) -> str:
    """A share as a sentence tells it: `82 %`, `0.4 %`."""
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{100 * share:.1f}%"


def in_function(place: Place | None) -> str:
    """` in main`, of a marked line without a function ` at train.py:63`, or nothing."""
    if place is None or not (words := named(place)):
        return ""
    return f" {'in' if place.function else 'at'} {words}"


def named(place: Place | None) -> str:
    """A place as a sentence tells it: `main`; a marked line of a trace without frames as `train.py:63`; or nothing."""
    if place is None:
        return ""
    line = f"{place.file.replace(chr(92), '/').rpartition('/')[2]}:{place.line}" if place.line is not None else ""
    return place.function or line


def key_of(place: Place | None) -> str:
    """What two places have in common that are one: file and function, of marked lines file and line."""
    return f"{place.file}:{place.function or place.line or ''}" if place is not None else ""


def times(number: float) -> str:
    """How often: `once`, `24 times`, `1.5 times`."""
    return "once" if round(number, 2) == 1 else f"{number:.3g} times"
