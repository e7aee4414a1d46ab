"""Patterns that are compiled when they are first used.

Some four hundred of them stand in the modules that a cold `analyze` imports, and a log needs a dozen: compiling all
costs a quarter of the start.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _Lazy:
    """Stands for a pattern until an attribute of it is asked for; then it has the pattern's own methods."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._of = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(*self._of)
        for method in ("search", "match", "fullmatch", "finditer", "findall", "split", "sub"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazily(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile`, later. Raises `re.error` on first use, not here: a test compiles all of them."""
    return cast("re.Pattern[str]", _Lazy(pattern, flags))
