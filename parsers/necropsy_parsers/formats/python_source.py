"""Python sources that lie among the inputs: scripts of the run are no log of it, whatever words they hold.

`assert not torch.isnan(loss), "loss is nan"` in a script says nothing of a loss. Files that torch's compiler writes are
claimed before (`inductor_debug`), and a log that bears such a name is read as one, since it does not begin like this::

    import torch
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Record

if TYPE_CHECKING:
    from necropsy_parsers.source import Source

NAME: Final = "python_source"
TITLE: Final = "Python sources"
PRIORITY: Final = 880
SAMPLES: Final = ('import torch\n\n\ndef main() -> None:\n    print("CUDA out of memory")\n',)

_NAMED: Final = re.compile(r"\.pyi?$", re.IGNORECASE)
_STATEMENT: Final = re.compile(
    rb"^(?:import [\w.]+|from [\w.]+ import |def \w+\(|async def \w+\(|class \w+[(:]|if __name__ == |@\w+)",
    re.MULTILINE,
)
_FIRST: Final = re.compile(
    rb"(?:#|[rRuU]?\"\"\"|[rR]?'''|import |from [\w.]+ import |def |class |@\w|[A-Za-z_]\w* *=[^=])"
)
_LOG: Final = re.compile(rb"^(?:Traceback \(most recent call last\):|\[?\d{4}-\d\d-\d\d[ T]\d\d:)", re.MULTILINE)


def sniff(head: bytes, name: str) -> str | None:
    """Claims files named `.py` whose beginning reads as Python."""
    if _NAMED.search(name) is None or _LOG.search(head):
        return None
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if _FIRST.match(text) and _STATEMENT.search(text):
        return "Python source by name and content"
    return None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """Nothing: sources are read where a claim asks for its line."""
    for _ in source.chunks():
        pass
    yield from ()
