"""Patterns that are compiled on first use: every one of them is a pattern, and behaves as one."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import necropsy_parsers
from necropsy_parsers.patterns import _Lazy, lazily

import necropsy


def lazy_ones(value: Any) -> Iterator[_Lazy]:
    """The lazy patterns in a module's constant, in tuples and dictionaries of it too."""
    if isinstance(value, _Lazy):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from lazy_ones(item)
    elif isinstance(value, dict):
        yield from lazy_ones([*value, *value.values()])


def test_every_pattern_compiles() -> None:
    count = 0
    for package in (necropsy_parsers, necropsy):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if info.name.endswith("__main__"):
                continue
            for value in vars(importlib.import_module(info.name)).values():
                for found in lazy_ones(value):
                    assert isinstance(found.pattern, str)
                    count += 1
    assert count > 200


def test_a_lazy_pattern_is_a_pattern() -> None:
    lazy, eager = lazily(r"(?P<n>\d+)", re.M), re.compile(r"(?P<n>\d+)", re.M)
    assert [m["n"] for m in lazy.finditer("1 22")] == [m["n"] for m in eager.finditer("1 22")]
    assert lazy.sub("x", "a1") == "ax"
    assert (lazy.pattern, lazy.flags, lazy.groupindex) == (eager.pattern, eager.flags, eager.groupindex)
    assert lazy.search("a") is None
