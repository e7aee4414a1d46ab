"""Which format is this? A total order of questions, and the reason of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy_parsers.formats import Format, all_formats

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

HEAD = 64 * 1024  # bytes looked at


class Claim(Struct, frozen=True):
    """The format that claims an input, and why."""

    format: Format
    reason: str


def sniff(head: bytes, name: str) -> Claim | None:
    """The claim on an input with these first bytes; an empty input is an empty log."""
    for format in all_formats():
        if (reason := format.sniff(head, name)) is not None:
            return Claim(format, reason)
    if not head:
        empty = next(f for f in all_formats() if f.name == "log")
        return Claim(empty, "empty")
    return None


def sniff_source(source: Source) -> Claim | None:
    """The claim on a source, by its head."""
    return sniff(source.head(HEAD), source.name)


def describe(head: bytes) -> str:
    """What unclaimed bytes look like, for the message that refuses them."""
    magics = (
        (b"PK\x03\x04", "a zip archive or PyTorch checkpoint"),
        (b"\x80\x02", "a pickle"),
        (b"\x80\x04", "a pickle"),
        (b"\x89PNG", "a PNG picture"),
        (b"\x7fELF", "a program"),
        (b"SQLite format 3", "an SQLite database (nsys export?)"),
        (b"NVR\x00", "an Nsight Compute report"),
        (b"%PDF", "a PDF"),
    )
    for magic, what in magics:
        if head.startswith(magic):
            return f"it looks like {what}"
    return "it looks like a JSON document" if head.lstrip()[:1] in (b"{", b"[") else "it looks like binary data"
