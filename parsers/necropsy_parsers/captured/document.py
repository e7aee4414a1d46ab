"""What the two kinds of files of `necropsy capture` share: JSON that is read with care, and lines to point at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Anchor

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

MAX_BYTES: Final = 16 << 20
SHOWN: Final = 300  # characters of a value


class Document:
    """A JSON object and its text, in which a key's line is looked for."""

    def __init__(self, name: str, text: str, data: dict[str, Any]) -> None:
        self.data = data
        self._name = name
        self._text = text

    def anchor(self, key: str, after: str = "") -> Anchor:
        """The line of the first `key` (behind the first `after`); the first line where there is none."""
        start = max(0, self._text.find(key, max(0, self._text.find(after)) if after else 0))
        end = self._text.find("\n", start)
        end = len(self._text) if end < 0 else end
        line = self._text.count("\n", 0, start) + 1
        return Anchor(self._name, start, end, line, self._text[start:end].strip(" ,")[:SHOWN])


def document(source: Source, issues: Issues) -> Document | None:
    """The object that a source holds, or None with an issue."""
    text = b""
    for chunk in source.chunks():
        text += chunk
        if len(text) > MAX_BYTES:
            issues.add("source/limit", source.name, detail="longer than any file of a capture")
            return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        issues.add("source/corrupt", source.name, detail="it is no valid JSON")
        return None
    return Document(source.name, text.decode("utf-8", "replace"), data) if isinstance(data, dict) else None


def claims(head: bytes, schema: bytes) -> bool:
    """Whether an input begins as a JSON object of that schema."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:200]
    return start.startswith(b"{") and b'"schema"' in start and b'"' + schema + b"/" in start


def items(value: object) -> list[Any]:
    """A list, or an empty one."""
    return value if isinstance(value, list) else []


def tables(value: object) -> list[dict[str, Any]]:
    """The tables of a list."""
    return [item for item in items(value) if isinstance(item, dict)]


def texts(value: object) -> dict[str, str]:
    """A table of plain values as texts."""
    if not isinstance(value, dict):
        return {}
    plain = {str(k): v for k, v in value.items() if isinstance(v, str | int | float | list)}
    return {k: (v if isinstance(v, str) else json.dumps(v))[:SHOWN] for k, v in plain.items()}
