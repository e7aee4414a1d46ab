"""Growth of device memory over steps, and whose it is."""

from __future__ import annotations

from pathlib import Path

from tests.support.trace_cases.memory import MIB, changing, creeping, emptied
from tests.trace.test_copies import profile_of

from necropsy.trace.allocation import churn
from necropsy.trace.allocation import emptied as sites_that_empty
from necropsy.trace.memory import curves, growth, kept_sites, reserved_growth


def test_growth_is_the_median_rise(tmp_path: Path) -> None:
    p = profile_of(creeping([500, 510, 490, 500]), tmp_path)
    (curve,) = curves(p)
    found = growth(p, curve)
    assert found is not None
    assert found.each == 500 * MIB
    assert found.last == 6_000 * MIB
    assert found.until == (curve.capacity - found.last) // found.each


def test_what_stays_is_what_nobody_gave_back(tmp_path: Path) -> None:
    p = profile_of(creeping([500, 500, 500, 500]), tmp_path)
    (site,) = kept_sites(p, curves(p)[0])
    assert site.place is not None
    assert (site.place.function, site.ns) == ("forward", 3 * 500 * MIB)  # the last step's may still be freed


def test_reserved_memory_rises_apart(tmp_path: Path) -> None:
    p = profile_of(changing([1400, 1300, 1400, 1400]), tmp_path)
    assert reserved_growth(p, curves(p)[0]) == 1400 * MIB
    assert growth(p, curves(p)[0]) is None


def test_churn_counts_calls_and_finds_who_empties(tmp_path: Path) -> None:
    p = profile_of(emptied(), tmp_path)
    found = churn(p)
    assert found is not None and found.steady
    assert (len(found.taken), len(found.given), found.steps, found.later) == (32, 32, 3, 3)
    (site,) = sites_that_empty(p)
    assert site.place is not None
    assert (site.place.function, site.count) == ("train_step", 4)
