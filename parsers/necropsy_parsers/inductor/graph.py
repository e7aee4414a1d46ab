"""Lines of a printed graph to its nodes, each with the line of the program that it comes from.

    # File: /home/trainer/net.py:15 in forward, code: d = self.norm(x)
    var_mean = torch.ops.aten.var_mean.correction(arg0_1, [2], correction = 0)
    getitem: "f32[8, 32, 1][32, 1, 1]cpu" = var_mean[0]

torch/fx/graph.py, 2.1 to 2.13: a comment holds for all nodes up to the next (`in forward` since 2.4, and before
`File:` an `Annotation: {...}` since 2.10). `No stacktrace found` ends what the last one said.
"""

from __future__ import annotations

import re
from typing import Final

from necropsy_parsers.inductor.records import NodeLine
from necropsy_parsers.records import Frame

MAX_NODES: Final = 20_000  # kept of one graph
_ANSI: Final = rb"(?:\x1b\[[\d;]*m)*+"
LINE: Final = (
    rb"[ \t]*+" + _ANSI + rb"[ \t]*+(?:(?P<name>[a-z_]\w*+)" + _ANSI + rb"(?: ?: (?:\"[^\"\n]*+\"|[^\n=]{1,200}?))?"
    + _ANSI + rb" = " + _ANSI + rb"(?P<target>[\w.]*+)(?P<args>[^\n;]{0,400})"
    rb"|\# (?:Annotation: [^\n]*?)?(?:File: (?P<file>[^\n]+?):(?P<line>\d++)(?: in (?P<function>[^\n,]++))?, "
    rb"code: (?P<code>[^\n\x1b]*+)|(?P<none>No stacktrace))"
    rb"|(?P<traced>TRACED GRAPH)|={3,} (?P<title>[^\n=]+?) ={3,})"
)  # fmt: skip
# Operations that libraries compute: only of these it is asked what they take.
_TAKES: Final = re.compile(
    rb"torch\.ops\.(?!prims)\w+\.(?:\w*mm|\w*conv|\w*attention|\w*gemm|\w*backward|\w*sort|\w*fft)"
)
_LINES: Final = re.compile(rb"^" + LINE, re.MULTILINE)


class GraphReader:
    """Takes the lines of one graph."""

    def __init__(self) -> None:
        self.nodes: list[NodeLine] = []
        self.title = ""
        self._frame: Frame | None = None
        self._known: dict[Frame, Frame] = {}

    def take(self, m: re.Match[bytes]) -> None:
        """One match of `LINE`."""
        if m["name"] is not None:
            if len(self.nodes) < MAX_NODES:
                name, target, args = m.group("name", "target", "args")
                kept = args.decode("utf-8", "replace") if _TAKES.match(target) else ""
                self.nodes.append(NodeLine(name.decode(), target.decode(), self._frame, kept))
        elif m["file"] is not None:
            part = {k: (v or b"").decode("utf-8", "replace") for k, v in m.groupdict().items()}
            frame = Frame(part["file"], int(part["line"][:9]), part["function"], part["code"].strip())
            self._frame = self._known.setdefault(frame, frame)
        elif m["none"] is not None:
            self._frame = None
        elif m["title"] is not None:
            self.title = m["title"].decode("utf-8", "replace")


def read_graph(text: bytes) -> GraphReader:
    """A whole printed graph."""
    reader = GraphReader()
    for m in _LINES.finditer(text):
        reader.take(m)
    return reader


_TITLES: Final = (
    ("after post grad", "after"),
    ("before post grad", "before"),
    ("backward graph", "backward"),
    ("forward graph", "forward"),
    ("joint graph", "joint"),
    ("__compiled_fn", "dynamo"),
)


def stage_of(artifact: str, title: str) -> str:
    """What a graph's title in a log says of it; "" where it is none of those that are read."""
    low = title.lower()
    for word, stage in _TITLES:
        if word in low:
            return stage
    if artifact == "aot_graphs":
        return "inference" if "graph" in low else ""
    return {"post_grad_graphs": "after", "graph_code": "dynamo"}.get(artifact, "")
