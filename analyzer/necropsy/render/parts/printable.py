"""Hostile text -> text that is safe to show: one line, no control or invisible characters.

`\\x1b[2Jok\\x07` -> `ok\\x07` spelled out. Escapes for the terminal vanish; what is left of
control, bidirectional and zero-width characters is spelled out, because a line that
looks different from its bytes is worse than an ugly one (CVE-2021-42574).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

TAB: Final = 4

# CSI, strings (OSC, DCS, APC, PM, SOS) up to their terminator, and two-byte escapes.
_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)


def printable(text: str, ascii: bool = False) -> str:
    """`text` as one line that moves no cursor and hides nothing; `ascii` spells out the rest."""
    if not text.isprintable():
        text = _ESCAPES.sub("", text).replace("\r\n", "\n").expandtabs(TAB)
        text = "".join(c if c.isprintable() else _shown(c) for c in text)
    return text if not ascii or text.isascii() else text.encode("ascii", "backslashreplace").decode("ascii")


def lines(text: str, ascii: bool = False) -> list[str]:
    """The lines of `text`, each printable, without blank ones at either end."""
    return [printable(line, ascii).rstrip() for line in text.strip("\r\n").splitlines()]


def _shown(character: str) -> str:
    if character == "\n" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")
