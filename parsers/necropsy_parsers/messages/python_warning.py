"""Warnings of the Python interpreter, with the frames that torch puts behind some.

    /opt/conda/lib/python3.11/site-packages/torch/cuda/__init__.py:118: UserWarning: CUDA initialization: ...
      return torch._C._cuda_getDeviceCount() > 0

Autograd's anomaly mode reports through a warning too; its frames are the forward call::

    .../torch/autograd/graph.py:869: UserWarning: Error detected in SqrtBackward0. Traceback of forward call ...
      File "/home/trainer/projects/vit/train.py", line 56, in loss_fn
        y = torch.sqrt(x)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record

NAME: Final = "python_warning"
TITLE: Final = "Python warnings"
TRIGGERS: Final = (b"Warning: ",)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "/home/trainer/projects/vit/data.py:12: UserWarning: labels overlap": {
        "category": "UserWarning",
        "file": "/home/trainer/projects/vit/data.py",
        "line": 12,
    },
}
_LINE: Final = lazily(
    r"(?P<file>(?:[A-Za-z]:)?[^\s:][^:]*?):(?P<line>\d+): (?P<category>[\w.]*Warning): (?P<message>.*)", re.S
)
_FRAME: Final = lazily(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>.+?)\s*$')
_ANOMALY: Final = lazily(r"Error detected in (?P<node>\w+)\. (?:Traceback of forward call|No forward pass information)")


class PythonWarning(Record, frozen=True):
    """One warning: where it was raised, its text, and the frames quoted behind it.

    `node` is the autograd node of an anomaly report ("" otherwise).
    """

    category: str
    message: str
    file: str
    line: int
    frames: tuple[Frame, ...]
    node: str


def read(message: Message) -> Iterator[PythonWarning]:
    """The warning that `message` is, if it is one."""
    if message.exception is not None:
        return
    m = _LINE.match(message.text)
    if m is None:
        return
    lines = m["message"].split("\n")
    anomaly = _ANOMALY.search(lines[0])
    yield PythonWarning(
        message.anchor,
        category=m["category"].rsplit(".", 1)[-1],
        message=lines[0].strip(),
        file=m["file"],
        line=int(m["line"]),
        frames=tuple(_frames(lines[1:])),
        node=anomaly["node"] if anomaly else "",
        **message.common,
    )


def _frames(lines: list[str]) -> Iterator[Frame]:
    for i, line in enumerate(lines):
        if (m := _FRAME.match(line)) is not None:
            following = lines[i + 1].strip() if i + 1 < len(lines) and not _FRAME.match(lines[i + 1]) else ""
            yield Frame(m["file"], int(m["line"]), m["function"], following)
