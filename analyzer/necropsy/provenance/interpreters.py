"""Which Python a path belongs to: the folder above `lib/python3.x/site-packages`, or above `Lib\\site-packages`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PACKAGES: Final = re.compile(
    r"^(?P<root>.+?)[/\\]lib(?:64)?[/\\](?:python[\d.]+t?[/\\])?(?:site|dist)-packages(?:[/\\]|$)",
    re.IGNORECASE,
)
# A folder that holds a Python itself: portable builds, environments.
_HOLDS_PYTHON: Final = re.compile(r"python|conda|venv|[/\\]envs?(?:[/\\]|$)", re.IGNORECASE)


def root_of(path: str) -> str | None:
    """The interpreter's folder that a file or folder of an installed package lies in, or None."""
    m = _PACKAGES.match(path)
    return m["root"] if m else None


def holds_python(folder: str) -> bool:
    """Whether a folder's own name says that a Python lives there."""
    return _HOLDS_PYTHON.search(folder.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]) is not None


def alike(a: str, b: str) -> bool:
    """Whether two folders are one; Windows mixes slashes and capitals."""
    return _plain(a) == _plain(b)


def first_root(paths: Iterable[str]) -> str | None:
    """The interpreter's folder of the first path that has one."""
    return next((root for path in paths if (root := root_of(path)) is not None), None)


def _plain(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").lower()
