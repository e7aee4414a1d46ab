"""A rule's code to the address of its page: the project's documentation, else the checkout's own."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Final

import necropsy

_LABEL: Final = "documentation"  # of `[project.urls]`


@cache
def page_uri(code: str) -> str | None:
    """Where the rule is explained; None when nothing is known to be there."""
    name = f"{code}.md"
    if not code.isalnum():  # a report is not to be trusted with a path
        return None
    if public := _public():
        return f"{public}/rules/{name}"
    here = Path(necropsy.__file__).resolve().parents[2] / "docs" / "rules" / name
    return here.as_uri() if here.is_file() else None


@cache
def _public() -> str:
    try:
        urls = metadata("necropsy").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    for entry in urls:
        label, _, url = str(entry).partition(",")
        if label.strip().lower() == _LABEL and url.strip().startswith("https://"):
            return url.strip().rstrip("/")
    return ""
