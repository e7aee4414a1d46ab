"""Inputs -> bytes: files, folders, patterns, standard input, archives, compressed or not.

`open_sources` turns what a user typed into `Source`s; each hands out its decompressed
bytes in order, in flat memory, whatever its size. Nothing is ever written to disk,
and content never raises: what could not be read is an issue.
"""

from necropsy_parsers.source.limits import Limits
from necropsy_parsers.source.model import Source
from necropsy_parsers.source.opening import open_sources

__all__ = ["Limits", "Source", "open_sources"]
