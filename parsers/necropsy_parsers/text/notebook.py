"""Frames of IPython's tracebacks, in notebooks and papermill logs.

RuntimeError                              Traceback (most recent call last)
Cell In[5], line 3                                    (IPython 8; before: Input In [5], in <cell line: 3>())
Cell In[4], line 2, in step(x)                        (IPython 8.7 and later)
----> 3 model(x)
File ~/projects/vit/net.py:12, in Net.forward(self, x)     (before 7.33: ~/projects/vit/net.py in forward(self, x))
---> 12         return self.b(h)
"""

from __future__ import annotations

import re
from typing import Final

from necropsy_parsers.records import Frame

HEADER: Final = re.compile(r"^[A-Za-z_][\w.]*\s{2,}Traceback \(most recent call last\)$")
_FRAMES: Final = (
    re.compile(
        r"^(?:Cell|Input) In ?\[(?P<cell>\d+)\],? "
        r"(?:line (?P<line>\d+)(?:,? in (?P<inner>[\w.<>]+)\b.*)?|in (?P<function>.+))$"
    ),
    re.compile(r"^File (?P<file>\S.*?\.\w+|<[^>]+>):(?P<line>\d+),? in (?P<function>[\w.<>]+)"),
    re.compile(r"^(?P<file><ipython-input-\d+-\w+>|(?:[~/]|[A-Za-z]:\\)\S*\.py) in (?P<function>[\w.<>]+)"),
)
_ARROW: Final = re.compile(r"^-{2,}> ?(?P<line>\d+) ?(?P<text>.*)$")
_CONTEXT: Final = re.compile(r"^\s*\d+(?:\s|$)|^-{5,}$|^\s*\(\.\.\.\)$|^\s*\.\.\. ")


def read_frame(text: str) -> Frame | None:
    """The frame that a line of an IPython traceback opens, or None."""
    for pattern in _FRAMES:
        if (m := pattern.match(text)) is not None:
            part = m.groupdict()
            file = part.get("file") or f"<ipython-input-{part['cell']}>"
            line = part.get("line")
            return Frame(file, int(line) if line else None, part.get("inner") or part.get("function") or "<module>")
    return None


def mark(frame: Frame, text: str) -> Frame | None:
    """`frame` with the line that `---->` marks, or None if `text` is no such line."""
    m = _ARROW.match(text)
    return Frame(frame.file, int(m["line"]), frame.function, m["text"].strip()) if m is not None else None


def is_context(text: str) -> bool:
    """Whether a line is quoted source around the marked one."""
    return _CONTEXT.match(text) is not None
