"""The head of a line of torch's own log as bytes: whose line it is, for tallies that look at few of many lines.

[rank0]:V1129 12:21:04.426000 502 torch/_inductor/scheduler.py:4760] [0/1] [__fusion] ...      (2.3 and later)
[2024-02-08 09:14:02,118] [0/0] torch._inductor.scheduler.__fusion: [DEBUG] ...                 (2.1 and 2.2)
"""

from __future__ import annotations

import re
from typing import Final

from necropsy_parsers.records import Frame, Origin
from necropsy_parsers.text.stamp import glog_stamp

_HEAD: Final = re.compile(
    rb"(?:.*?\[rank(?P<rank>\d+)\]:)?.*?(?:[VIWEC](?P<time>\d{4} \S+) +(?P<pid>\d+) \S+\]|\[[\d :,-]+\])"
    rb"(?: \[(?P<cid>[\d/_!-]+)\])?"
)
_FRAME: Final = re.compile(
    rb"File \\*\"(?P<file>[^\"\\]+)\\*\", line (?P<line>\d{1,9}), in (?P<function>[\w<>]+)"
    rb"\\*['\"], \\*['\"] *(?P<text>[^\n]{0,200}?)\\*['\"], "
)
_STACK: Final = b"stack_traces = {"
MAX_FRAMES: Final = 8  # innermost frames kept of a node's stack


def origin_of(head: bytes, artifact: str, *, timed: bool = False) -> Origin:
    """Rank, process and compile id of a head; `timed`: and its clock, which few ask for."""
    m = _HEAD.match(head)
    rank, pid, cid = (m["rank"], m["pid"], m["cid"]) if m is not None else (None, None, None)
    return Origin(
        rank=int(rank[:6]) if rank else None,
        pid=int(pid[:18]) if pid else None,
        time=glog_stamp(m["time"].decode("ascii", "replace")) if timed and m is not None and m["time"] else None,
        compile_id=cid.decode() if cid else "",
        artifact=artifact,
    )


def frames_at(text: bytes, position: int) -> tuple[Frame, ...]:
    """The first stack in a scheduler node's line: that of the operation itself; others belong to what was fused in."""
    end = text.find(b"\n", position)
    begin = text.find(_STACK, position, len(text) if end < 0 else end)
    if begin < 0:
        return ()
    close = text.find(b"}", begin)
    frames = []
    for m in _FRAME.finditer(text, begin, len(text) if close < 0 else close):
        part = {k: v.decode("utf-8", "replace") for k, v in m.groupdict().items()}
        source = part["text"].replace("\\'", "'").strip()
        frames.append(Frame(part["file"], int(part["line"]), part["function"], source))
    return tuple(frames[-MAX_FRAMES:])
