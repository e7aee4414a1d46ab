"""Sequences longer than the model's window."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.token_window import TokenWindow

from necropsy.evidence._records import COMMON, RecordTable


class TokenWindows(RecordTable[TokenWindow]):
    """One row a warning."""

    name = "token_windows"
    row = TokenWindow
    accepts = (TokenWindow,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "length": "tokens of the sequence",
        "window": "tokens the model has positions for",
    }
