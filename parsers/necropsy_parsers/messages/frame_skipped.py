"""Frames that torch.compile gave up, so that the whole function runs eagerly.

Skipping frame because there is a graph break in a for/while loop
<FrameSummary file /home/trainer/vit.py, line 82 in accumulate>

Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.
torch.compile will skip tracing the frame forward (/home/trainer/vit.py line 40) and fall back to eager.
The graph break occurred in the following user code:
  File "/home/trainer/vit.py", line 47, in forward

WON'T CONVERT forward /home/trainer/vit.py line 40
due to:
Traceback (most recent call last): ...

skipping: forward (reason: non-infra torch dispatch mode present, this is not supported today in ..., file: ...)

From torch/_dynamo/symbolic_convert.py (the loop: INFO, 2.1 to 2.10; since 2.11 it is a graph break of its own kind),
convert_frame.py and exc.py. What Dynamo skips on purpose (files in its skip list, frames without tensors, functions
that are already running) is not read: most such lines are about Python's and torch's own code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "frame_skipped"
TITLE: Final = "Functions that torch.compile left uncompiled"
TRIGGERS: Final = (
    b"graph break in a for/while loop",
    b"decided to skip the frame",
    b"will skip tracing the frame",
    b"WON'T CONVERT ",
    b"(reason: non-infra torch dispatch mode",
    b"(reason: an error was suppressed",
    b"(reason: compilation failed with a custom",
)
READS: Final = (
    Reads("", "2.1", "frames skipped for a break in a loop, `WON'T CONVERT`, dispatch modes"),
    Reads("graph_breaks", "2.10", "frames skipped behind a break"),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "skipping: forward (reason: non-infra torch dispatch mode present, this is not supported today in torch.compile, "
    "file: /home/trainer/vit.py)": {"kind": "mode", "function": "forward", "file": "/home/trainer/vit.py"},
    "torch.compile will skip tracing the frame forward (/home/trainer/vit.py line 40) and fall back to eager.": {
        "kind": "resume",
        "function": "forward",
        "line": 40,
    },
}

_LOOP: Final = lazily(r"Skipping frame because there is a graph break in a for/while loop")
_SUMMARY: Final = lazily(
    r"<FrameSummary file (?P<file>[^\n>]+), line (?P<line>\d+) in (?P<function>[^\n>]+(?:>(?=>))?)>"
)
_INFO: Final = lazily(
    r"(?:decided to skip|will skip tracing) the frame (?P<function>\S+) \((?P<file>[^\n]+) line (?P<line>\d+)\)"
)
_REASON: Final = lazily(r"^[ \t]*Reason: (?P<reason>[^\n]+)", re.MULTILINE)
_GAVE_UP: Final = lazily(r"WON'T CONVERT (?P<function>\S+) (?P<file>[^\n]+?) line (?P<line>\d+)[ \t]*$", re.MULTILINE)
_ERROR: Final = lazily(r"^(?P<type>[A-Za-z_][\w.]*): (?P<text>\S[^\n]*)", re.MULTILINE)
_ROUTINE: Final = lazily(r"skipping: (?P<function>\S+) \(reason: (?P<reason>[^\n]+), file: (?P<file>[^\n)]+)\)")
_USER: Final = lazily(r"from user code:|processing the following code ==|in the following user code:")
_FRAME: Final = lazily(
    r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>[^\n]+))?\n?'
    r'(?P<text>(?![ \t]*File ")[ \t]*\S[^\n]*)?',
    re.MULTILINE,
)
_ON_PURPOSE: Final = lazily(
    r"no content in function call|No ops traced|torch\._dynamo\.skip_frame|no tensor", re.IGNORECASE
)


class FrameSkip(Record, frozen=True):
    """A frame left uncompiled.

    `kind`: loop (a break in a loop), resume (a break that cannot be resumed from), error (the compiler failed and the
    error was suppressed), unsupported (code that Dynamo cannot trace), mode (a dispatch mode was active) or other.

    `function`, `file` and `line` name the frame (line 0 where untold), `frames` the user's stack at the place that
    caused it, `reason` says why ("" where the entry does not).
    """

    kind: str
    function: str
    file: str
    line: int
    reason: str
    frames: tuple[Frame, ...]


def read(message: Message) -> Iterator[FrameSkip]:
    """The frames that `message` says were skipped."""
    if message.exception is not None:
        return
    text = message.text
    for m in _ROUTINE.finditer(text):
        kind = "mode" if "dispatch mode" in m["reason"] else "error"
        yield FrameSkip(message.anchor, kind, m["function"], m["file"], 0, m["reason"].strip(), (), **message.common)
    info, gave_up = _INFO.search(text), _GAVE_UP.search(text)
    if _LOOP.search(text) is not None:
        yield from _loop(message, info)
    elif gave_up is not None:
        yield _given_up(message, gave_up)
    elif info is not None:
        reason = _REASON.search(text)
        why = reason["reason"].strip() if reason else ""
        if not _ON_PURPOSE.search(why):
            kind = "resume" if "cannot properly resume" in text or "will skip" in info[0] else "other"
            yield FrameSkip(
                message.anchor, kind, info["function"], info["file"], int(info["line"]), why, _frames(text),
                **message.common,
            )  # fmt: skip


def _loop(message: Message, info: re.Match[str] | None) -> Iterator[FrameSkip]:
    """A break in a loop; the summary names the line of the break."""
    m = _SUMMARY.search(message.text)
    frames = (Frame(m["file"], int(m["line"]), m["function"].strip()),) if m else _frames(message.text)
    if info is not None:
        function, file, line = info["function"], info["file"], int(info["line"])
    elif frames:
        function, file, line = frames[-1].function, frames[-1].file, 0
    else:
        return
    yield FrameSkip(message.anchor, "loop", function, file, line, "graph break in loop", frames, **message.common)


def _given_up(message: Message, m: re.Match[str]) -> FrameSkip:
    """`WON'T CONVERT`: the last exception of the traceback says why."""
    body = message.text[m.end() :]
    errors = list(_ERROR.finditer(_USER.split(body)[0])) or list(_ERROR.finditer(body))
    last = errors[-1] if errors else None
    soft = last is not None and last["type"].rsplit(".", 1)[-1] in ("Unsupported", "UserError")
    reason = f"{last['type'].rsplit('.', 1)[-1]}: {last['text'].strip()}" if last else ""
    parts = _USER.split(body, maxsplit=1)
    frames = _frames(parts[1]) if len(parts) > 1 else ()
    kind = "unsupported" if soft else "error"
    return FrameSkip(
        message.anchor, kind, m["function"], m["file"], int(m["line"]), reason[:400], frames, **message.common
    )


def _frames(text: str) -> tuple[Frame, ...]:
    """The user's stack in a text, up to what follows it."""
    parts = _USER.split(text, maxsplit=1)
    body = (parts[1] if len(parts) > 1 else text).split("Traceback (most recent call last)", maxsplit=1)[0]
    return tuple(
        Frame(f["file"], int(f["line"]), (f["function"] or "").strip(), (f["text"] or "").strip())
        for f in _FRAME.finditer(body)
    )
