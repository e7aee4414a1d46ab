"""The line with which a C or C++ compiler gives up.

/tmp/tmpk3/main.c:4:10: fatal error: Python.h: No such file or directory
/usr/bin/ld: cannot find -lcuda: No such file or directory

Triton lets gcc print to stderr while it builds its launcher (runtime/build.py, 2.1 to 3.5); the exception that follows
has only the command. Inductor quotes the output of its compiler in the exception itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "compiler_line"
TITLE: Final = "The line with which a C compiler gives up"
TRIGGERS: Final = (b": fatal error: ", b": cannot find -l")
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "/tmp/tmpk3/main.c:4:10: fatal error: Python.h: No such file or directory": {
        "text": "/tmp/tmpk3/main.c:4:10: fatal error: Python.h: No such file or directory"
    },
    "/usr/bin/ld: cannot find -lcuda: No such file or directory": {
        "text": "/usr/bin/ld: cannot find -lcuda: No such file or directory"
    },
}
_LINE: Final = lazily(
    r"^\S+\.(?:c|cc|cpp|cu|h|hpp)[:(][\d:,)]* ?:? ?fatal error: \S[^\n]*|^\S*ld: cannot find -l\S[^\n]*"
)


class CompilerLine(Record, frozen=True):
    """One line, as printed."""

    text: str


def read(message: Message) -> Iterator[CompilerLine]:
    """The line, if a compiler printed it."""
    if message.exception is None and (m := _LINE.match(message.first)) is not None:
        yield CompilerLine(message.anchor, m[0].strip(), **message.common)
