"""One raw line to printable text: ANSI, carriage returns, glued messages.

`\\x1b[31mRuntimeError\\x1b[0m: ...` -> `RuntimeError: ...`; a progress bar's redraws
(`\\r`) become separate pieces; a traceback glued to the end of a bar starts a piece of
its own.
"""

from __future__ import annotations

import json
import re
from typing import Final

# CSI, OSC (hyperlinks, titles), two-byte escapes; and CSI whose ESC a log shipper dropped: `[31m`.
_ANSI: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
# Characters of one piece that are looked at: every message of interest is shorter, and the cost of patterns with
# several open ends is bounded.
PIECE_LIMIT: Final = 4096
_MESSAGE_KEYS: Final = frozenset({"log", "message", "msg", "event", "text"})
_BARE_SGR: Final = re.compile(r"\[(?:\d{1,3}(?:;\d{1,3})*)m")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

# Another writer's line, or what a bar without a final newline runs into.
_WOVEN: Final = re.compile(r"(?<=[^\s:\[(])(?=\[rank\d+\]:)|(?<=it/s\])[ \t]*(?=\S)|(?<=s/it\])[ \t]*(?=\S)")
# A message glued to the end of other text of the same writer; looked for behind the prefixes.
_GLUED: Final = re.compile(
    r"(?<=[\]\d%|])[ \t]*(?=Traceback \(most recent call last\):)"
    r"|(?<=[\]%|])(?=(?:/[\w.+-]+)+\.py:\d+: \w*Warning:)"
)


def _woven(text: str) -> bool:
    """Whether a line may hold what `_WOVEN` splits."""
    return text.find("[rank", 1) > 0 or "it/s]" in text or "s/it]" in text


def strip_ansi(text: str) -> str:
    """`text` without terminal escapes and control characters (tabs stay)."""
    if text.isprintable():  # no control characters at all: nearly every line
        return _BARE_SGR.sub("", text) if "[0m" in text else text
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    elif "[0m" in text:
        text = _BARE_SGR.sub("", text)
    return _CONTROL.sub("", text)


def _unwrapped(data: bytes) -> str:
    """The text of a line; what Docker's json-file driver or a JSON logger wrapped is taken out of its JSON."""
    if data.startswith(b"{") and (data.startswith(b'{"log":"') or b"Traceback (most" in data or b"Error: " in data):
        try:
            fields = json.loads(data)
        except ValueError:
            fields = {}  # cut, or something else that looks like it
        texts = [v for k, v in fields.items() if isinstance(v, str) and (k in _MESSAGE_KEYS or "\n" in v)]
        if texts:
            return "\n".join(texts)
    return data.decode("utf-8", "replace")


def pieces(data: bytes) -> list[str]:
    """The pieces of a raw line, in order, cleaned; never empty unless the line is."""
    text = _unwrapped(data)
    if len(text) <= PIECE_LIMIT and text.isprintable() and "[0m" not in text and not _woven(text):
        return [text.rstrip()]  # nearly every line
    parts = [p for p in re.split(r"[\r\n]", text) if p.strip()] if "\r" in text or "\n" in text else [text]
    out: list[str] = []
    for part in parts:
        part = part[:PIECE_LIMIT]
        part = strip_ansi(part).rstrip()
        out += [p for p in _WOVEN.split(part) if p.strip()] if _woven(part) else [part]
    return out or [""]


def split_glued(text: str) -> list[str]:
    """The messages that were run together behind one prefix; one for nearly every line."""
    if "Traceback (" not in text and "Warning:" not in text:
        return [text]
    return [p for p in _GLUED.split(text) if p.strip()] or [text]
