"""Graph breaks, as Dynamo tells them in the artifact `graph_breaks`, in its warnings and in exceptions.

Graph break in user code at /home/trainer/projects/vision/train.py:67
Graph Break Reason: Data-dependent branching
  Explanation: Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). ...
  Hint: Use `torch.cond` to express dynamic control flow.

  Developer debug context: attempted to jump with TensorVariable()

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html
User code traceback:
  File "/home/trainer/projects/vision/train.py", line 67, in forward
    if x.mean() > 1e6:

Wordings by release (torch/_dynamo/symbolic_convert.py, exc.py, variables/tensor.py):
2.1, 2.2   Graph break: call_function BuiltinVariable(print) [...] {} from user code at:
2.3 - 2.5  Graph break: from user code at: ... Traceback ... torch._dynamo.exc.Unsupported: REASON
2.4 - 2.9  Graph break: skip: from user code at: ...
2.6        Graph break in user code at FILE:LINE / Reason: Unsupported: REASON / User code traceback:
since 2.7  Graph break in user code at FILE:LINE / Graph Break Reason: KIND / Explanation, Hint, context
copies     Graph break (details suppressed) in user code at ... (2.6), Graph break (user stack suppressed due to ...
2.3 on     Graph break from `Tensor.item()`, consider setting: ... (with the user's stack since 2.7)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.text.traceback import HEADER, TracebackReader
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "graph_break"
TITLE: Final = "Graph breaks of torch.compile"
TRIGGERS: Final = (
    b"Graph break in user code at",
    b"Graph break (",
    b"Graph break: ",
    b"Graph break from `Tensor.item()`",
    b"Graph Break Reason: ",
    b"Developer debug context:",
    b"to include these operations in the captured graph",
    b"_dynamo.exc.Unsupported",
    b"_dynamo.exc.UserError",
    b"_dynamo.exc.UncapturedHigherOrderOpError",
    b"fake_tensor.DataDependentOutputException",
    b"fake_tensor.DynamicOutputShapeException",
    b"symbolic_shapes.GuardOnDataDependentSymNode",
)
READS: Final = (
    Reads("graph_breaks", "2.1", "reason and stack"),
    Reads(
        "graph_breaks",
        "2.6",
        "place; kind, explanation, hints and context (2.7), page (2.9), frame skipped (2.10), second break (2.11)",
    ),
    Reads("", "2.3", "the notice about `Tensor.item()`; texts of Dynamo's warnings"),
    Reads("", "2.1", "exceptions: `Unsupported`, `UserError`, data-dependent and dynamic-shape operators"),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Graph break in user code at /home/trainer/vit.py:67": {
        "form": "break",
        "file": "/home/trainer/vit.py",
        "line": 67,
    },
    "Graph break (user stack suppressed due to duplicate graph break) in user code at /home/trainer/vit.py:72": {
        "form": "copy",
        "line": 72,
    },
    "Graph break: call_function BuiltinVariable(print) [ConstantVariable(str)] {} from user code at:": {
        "kind": "call_function BuiltinVariable(print) [ConstantVariable(str)] {}"
    },
    "Graph break from `Tensor.item()`, consider setting:": {"form": "notice", "kind": "Tensor.item"},
}

_HEAD: Final = lazily(
    r"^[ \t]*(?:Graph break in user code at (?P<place>[^\n]+):(?P<line>\d+)"
    r"|Graph break \((?P<copy>[^)\n]*suppressed[^)\n]*)\) in user code at (?P<cplace>[^\n]+):(?P<cline>\d+)"
    r"|Graph break: (?!torch\.compile cannot)(?P<old>[^\n]*(?:\n(?!.*Graph break)[^\n]*){0,12}?)from user code at:"
    r"|(?P<notice>Graph break from `Tensor\.item\(\)`))[^\n]*\n?",
    re.MULTILINE,
)
_NOTICE_REST: Final = "to include these operations in the captured graph."
_REASON: Final = lazily(r"^[ \t]*(?:Graph Break )?Reason: ", re.MULTILINE)
_STACK: Final = lazily(r"^[ \t]*(?:User code traceback:|from user code:)[ \t]*$", re.MULTILINE)
_STACK_END: Final = lazily(
    r"^[ \t]*(?:Traceback \(most recent call last\)|NOTE: the most recent|Most recent bytecode|Stack \(most recent"
    r"|Set TORCH|Stack variable source attribution)",
    re.MULTILINE,
)
_FRAME: Final = lazily(
    r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>[^\n]+))?\n?'
    r'(?P<text>(?![ \t]*File ")[ \t]*\S[^\n]*)?',
    re.MULTILINE,
)
_RAISED: Final = lazily(r"^[ \t]*(?:torch\._dynamo\.exc\.)?(?:Unsupported|UserError): ", re.MULTILINE)
_KIND: Final = lazily(
    r"^(?P<kind>[^\n]+)\n(?:[ \t]*Higher Order Operator: (?P<operator>[^\n]*)\n)?[ \t]*Explanation:[ \t]?", re.MULTILINE
)
_PART: Final = lazily(r"^[ \t]*(?P<name>Explanation|Hint|Developer debug context): ?", re.MULTILINE)
_PAGE: Final = lazily(r"/gb/gb(?P<id>\d+)\.html")
_MORE: Final = lazily(r"^[ \t]*For more details about this graph break", re.MULTILINE)
_SECOND: Final = lazily(r"\*\*\* While handling this graph break, another graph break occurred: \*\*\*\s*")
_LED: Final = lazily(
    r"(?:Encountered (?:graph break|intentional)|Failed to handle graph break)[^\n]*:[ \t]*\n\s*(?=\S)"
)
_SKIPPED: Final = lazily(r"frame skipped: (?P<function>\S+) \((?P<file>[^\n]+) line (?P<line>\d+)\)")
_LONG: Final = 79  # a line this long may have been cut by a terminal in the middle of a word


CONSTRAINT: Final = "Constraints violated"


class GraphBreak(Record, frozen=True):
    """One break. `form`: break, copy, notice (`Tensor.item()`'s hint), warning (its text alone) or exception.

    `kind` is the graph-break type, before torch 2.7 the first line of the reason; `file` and `line` are the place that
    the headline names ("" and 0 where it is lost); `skips` is `frame` or `rest` if the function, or what is left of it,
    is not compiled for it, `skipped` the (function, file, line) of that frame where it is told; `operator` is the
    higher-order operator around it.
    """

    form: str
    kind: str
    explanation: str
    hints: tuple[str, ...]
    context: str
    gb_id: str
    file: str
    line: int
    frames: tuple[Frame, ...]
    skips: str = ""
    skipped: tuple[str, str, int] | None = None
    operator: str = ""

    @property
    def compile_id(self) -> str:
        """The compilation in which it happened."""
        return self.origin.compile_id


def read(message: Message) -> Iterator[GraphBreak]:
    """The breaks that `message` tells."""
    text = message.text
    if message.exception is not None:
        yield from _raised(message)
        return
    heads = list(_HEAD.finditer(text))
    before = text[: heads[0].start()] if heads else text
    lost_notice = _NOTICE_REST in before and "Graph Break Reason" not in before and "Explanation:" not in before
    if heads and lost_notice:
        yield _break(message, "notice", "Tensor.item", text[heads[0].end() :])
        heads = heads[1:]
    elif lost_notice and not message.origin.artifact:
        yield _break(message, "notice", "Tensor.item", text)
    elif "WON'T CONVERT" in before:
        pass  # `frame_skipped` reads it
    elif _REASON.search(before) or (_KIND.search(before) and "Developer debug context:" in before):
        yield _break(message, "break" if _STACK.search(before) else "warning", before, before)
    ends = [h.start() for h in heads[1:]] + [len(text)]
    skip = False
    for number, (head, end) in enumerate(zip(heads, ends, strict=False)):
        if skip:
            skip = False
        elif head["notice"]:
            skip = number + 1 < len(heads) and heads[number + 1]["old"] == ""
            until = ends[number + 1] if skip else end
            yield _break(message, "notice", "Tensor.item", text[head.end() : until])
        else:
            yield _headed(message, head, text[head.end() : end])


def _headed(message: Message, head: re.Match[str], body: str) -> GraphBreak:
    """A break with its headline."""
    if head["old"] is None:
        form = "copy" if head["copy"] else "break"
        place = head["place"] or head["cplace"], int(head["line"] or head["cline"])
        return _break(message, form, _after(_REASON, body), body, place)
    reason = head["old"].strip()
    skips = "frame" if reason in ("skip:", "skip") else ""
    raised = list(_RAISED.finditer(body))
    if raised and reason in ("", "skip:", "skip"):
        reason = body[raised[-1].end() :]
    return _break(message, "break", reason, body, skips=skips)


def _raised(message: Message) -> Iterator[GraphBreak]:
    """The break that an exception tells: fullgraph=True and error_on_graph_break make it an error."""
    assert message.exception is not None
    exc = next((e for e in message.exception.chain if f"{e.type}: {e.text}" == message.text), None)
    name, _, reason = message.text.partition(": ")
    if reason.startswith(CONSTRAINT):  # of torch.export: a failure of its own, whatever class it is raised as
        return
    if exc is None or not any(t.decode() in name for t in TRIGGERS if b"." in t and b" " not in t):
        return
    said = _STACK.split(reason)[0]
    if "Explanation:" not in said:
        said = _rejoined(said, len(name) + 2)
    yield _break(message, "exception", said, "", frames=tuple(exc.user_frames))


def from_traceback(message: Message) -> Iterator[GraphBreak]:
    """The break that a traceback in a structured log tells, where no break is allowed."""
    reader = TracebackReader()
    lines = message.text[max(0, message.text.find(HEADER)) :].split("\n")
    reader.begin(lines[0])
    for line in lines[1:]:
        if not reader.feed(line):
            break
    last = reader.take()[-1]
    name = (last.type or "").rsplit(".", 1)[-1]
    if last.complete and name in ("Unsupported", "UserError", "UncapturedHigherOrderOpError"):
        yield _break(message, "break", _STACK.split(last.text)[0], "", frames=tuple(last.user_frames), skips="frame")


def _rejoined(reason: str, head: int) -> str:
    """The first paragraph with words put together that a terminal cut in two."""
    lines = reason.split("\n\n", 1)[0].split("\n")
    out = lines[0]
    for last, line in zip([head * "x" + lines[0], *lines[1:]], lines[1:], strict=False):
        out += ("" if len(last) >= _LONG and not last.endswith(" ") and line[:1] not in " \t" else " ") + line.strip()
    return out


def _after(pattern: re.Pattern[str], text: str) -> str:
    m = pattern.search(text)
    return text[m.end() :] if m is not None else ""


def _break(
    message: Message,
    form: str,
    reason: str,
    body: str,
    place: tuple[str, int] = ("", 0),
    *,
    frames: tuple[Frame, ...] | None = None,
    skips: str = "",
) -> GraphBreak:
    """A break from the text of its reason, and from `body`, which holds its stack."""
    reason = _STACK_END.split(_STACK.split(reason)[0])[0] if form != "notice" else reason
    if frames is None:
        frames = _frames(body)
    first, *second = _SECOND.split(_REASON.sub("", reason, count=1), maxsplit=1)
    skips = skips or _skips(first, second)
    led = _LED.match(first.lstrip())
    plain = first.lstrip()[led.end() :] if led else first.lstrip()
    m = _KIND.search(plain)
    kind = m["kind"].strip() if m else next((line.strip() for line in plain.split("\n") if line.strip()), "")
    parts = _parts(plain[m.start() :] if m else plain)
    page = _PAGE.search(first)
    skipped = _SKIPPED.search(reason)
    if not place[0] and frames:
        place = frames[-1].file, frames[-1].line or 0
    return GraphBreak(
        message.anchor, form, kind.removeprefix("Unsupported: ").strip()[:400],
        " ".join(parts.get("Explanation", [])), tuple(parts.get("Hint", ())),
        " ".join(parts.get("Developer debug context", []))[:1000], f"GB{page['id']}" if page else "",
        place[0], place[1], frames, skips,
        (skipped["function"], skipped["file"], int(skipped["line"])) if skipped else None,
        (m["operator"] or "").strip() if m else "", **message.common,
    )  # fmt: skip


def _skips(first: str, second: list[str]) -> str:
    """Whether the function, or the rest of it, runs uncompiled."""
    told = first[:400]
    if "Skipping the function and falling back to eager" in told or any("graph break in loop" in s for s in second):
        return "frame"
    return "rest" if "cannot resume from" in told else ""


def _parts(text: str) -> dict[str, list[str]]:
    """Explanation, hints and context, each on one line."""
    found: dict[str, list[str]] = {}
    marks = list(_PART.finditer(text))
    ends = [*(m.start() for m in marks[1:]), len(text)]
    for mark, end in zip(marks, ends, strict=False):
        part = text[mark.end() : end]
        part = " ".join(_MORE.split(part)[0].split())
        if part:
            found.setdefault(mark["name"], []).append(part)
    return found


def _frames(body: str) -> tuple[Frame, ...]:
    """The user's stack in the text of an entry."""
    m = _STACK.search(body)
    stack = _STACK_END.split(body[m.end() :] if m else body)[0] if m or "Graph Break Reason" not in body else ""
    found = []
    for f in _FRAME.finditer(stack):
        code = (f["text"] or "").strip()
        found.append(Frame(f["file"], int(f["line"]), (f["function"] or "").strip(), code if code.strip("^~ ") else ""))
    return tuple(found)
