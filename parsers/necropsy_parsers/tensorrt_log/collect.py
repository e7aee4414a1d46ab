"""Messages of several lines: an ONNX node that the parser could not read, and errors that go on without a head.

    [E] [TRT] ModelImporter.cpp:768: While parsing node number 1 [DeformAttn -> "b"]:
    [E] [TRT] ModelImporter.cpp:769: --- Begin node ---
    [E] [TRT] ModelImporter.cpp:770: input: "a"
    name: "/neck/deform_attn"
    op_type: "DeformAttn"
    attribute {
      name: "training_mode"
      i: 1
    }
    [E] [TRT] ModelImporter.cpp:774: ERROR: builtin_op_importers.cpp:5400 In function importFallbackPluginImporter:
    [8] Assertion failed: creator && "Plugin not found, are the plugin name, version, and namespace correct?"

The dump is protobuf's text form (8.0 and later; 7.x goes from the first line to `ERROR:`; 10.x and TensorRT for RTX
print only the node's name).
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.numbers import whole
from necropsy_parsers.tensorrt_log.heads import begins, read_head
from necropsy_parsers.tensorrt_log.records import OnnxNode

NODE_LITERALS: Final = ("While parsing node number ",)
MAX_NODE_LINES: Final = 400  # a node with many attributes; dumps of constants are longer, and are of no interest
_OPENING: Final = re.compile(
    r"While parsing node number (?P<number>\d+) \[(?P<op>[\w.:]*)(?: -> \"(?P<output>[^\"]*)\")?"
)
_FIELD: Final = re.compile(r"^(?P<key>name|op_type|domain|output): \"(?P<value>.*)\"$|^Node name: (?P<node>.+)$")
# A line of protobuf's text form, of which some loggers put a head before each.
_DUMPED: Final = re.compile(r"\s*(?:\w+: (?:\".*|[-+]?[\d.]\S*|[A-Z][A-Z0-9_]*|nan|inf|true|false)|\w+ \{|\})\s*")
MAX_STRANGERS: Final = 40  # lines of other threads and programs between those of one dump
_ATTRIBUTE: Final = re.compile(r"^\s+(?P<key>name|i|f|s): \"?(?P<value>.*?)\"?$")
_FUNCTION: Final = re.compile(r"ERROR: (?P<source>[\w./\\-]+\.\w+:\d+) In function (?P<function>\w+):?")
_ASSERTION: Final = re.compile(
    r"^\[(?P<code>\d+)\] (?:Assertion failed: )?(?P<text>.+)$|(?:Assertion failed: )(?P<plain>.+)$"
)
_QUOTED: Final = re.compile(r"&& \"(?P<words>[^\"]+)\"?")
_ERROR: Final = re.compile(
    r"(?:\[(?P<file>[^\[\]\s]+?\.\w+)::(?P<function>[^\[\]]+?)::(?P<line>\d+)\] )?"
    r"(?:(?P<api>\b[A-Z]\w*(?:::\w+)+): )?"
    r"Error Code:? (?P<code>\d+): (?P<category>[A-Z][\w ]*?) ?\((?P<inner>.*)\)?\s*",
    re.DOTALL,
)
# Up to 7.x: `../rtSafe/safeRuntime.cpp (25) - Cuda Error in allocate: 2 (out of memory)`.
_OLD: Final = re.compile(
    r"(?P<file>\S+\.\w+) \((?P<line>\d+)\) - (?P<category>[\w ]+?) in (?P<function>[\w:~()]+): (?P<code>\d+)"
    r"(?: \((?P<inner>.*)\))?\s*$",
    re.DOTALL,
)
_NUMBERED: Final = re.compile(r"^(?:Error\[)?(?P<code>\d{1,2})(?:\])?: ")


class ErrorParts(Struct, frozen=True):
    """An error's number, its category, the function of the API, the place in TensorRT's code, and what it says."""

    code: int | None
    category: str
    api: str
    source: str
    text: str


def error_parts(text: str) -> ErrorParts:
    """The parts of an error's text, behind its head."""
    if (m := _ERROR.search(text)) is not None:
        inner = m["inner"].rstrip()
        inner = inner[:-1] if inner.endswith(")") and inner.count(")") > inner.count("(") else inner
        source = f"{m['file']}:{m['line']}" if m["file"] else ""
        api = m["api"] or (m["function"] or "")
        return ErrorParts(whole(m["code"]), m["category"].strip(), api, source, inner.strip())
    if (m := _OLD.search(text)) is not None:
        inner = m["inner"] or m["category"]
        return ErrorParts(whole(m["code"]), m["category"], m["function"], f"{m['file']}:{m['line']}", inner)
    if (m := _NUMBERED.match(text)) is not None:
        return ErrorParts(whole(m["code"]), "", "", "", text[m.end() :])
    return ErrorParts(None, "", "", "", text)


def closed(text: str) -> str:
    """Text without the parenthesis that closes the error around it."""
    text = text.strip()
    while text.endswith((")", ").")) and text.count(")") > text.count("("):
        text = text.rstrip(".")[:-1].rstrip()
    return text


class Collector(Struct):
    """A message that may go on: `left` lines without a head may still belong to it."""

    left: int
    lines: list[str] = field(default_factory=list)
    done: bool = False

    def feed(self, text: str) -> bool:
        """Whether a further line belongs to it."""
        if self.left <= 0 or begins(text) or not text.strip():
            self.done = True
            return False
        self.lines.append(text)
        self.left -= 1
        return True

    @property
    def text(self) -> str:
        """All its lines."""
        return "\n".join(self.lines)


class NodeCollector(Collector):
    """What the parser says of a node that it could not read; see the module's docstring."""

    function: str = ""
    source: str = ""
    assertion: str = ""
    found: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    inside: str = ""  # name of the attribute that is read; "" outside
    dumping: bool = False
    dumped: bool = False  # the dump is over, the error not yet told
    strangers: int = 0

    def foreign(self, text: str) -> bool:
        """Whether a line is another writer's, between two of a dump or between it and its error."""
        if self.done or not (self.dumping or self.dumped) or self.strangers >= MAX_STRANGERS or not begins(text):
            return False
        body = _body(text)
        if self._own(body) or _OPENING.search(body) is not None:
            return False
        self.strangers += 1
        return True

    def feed(self, text: str) -> bool:
        """Whether a further line belongs to it; the last is the assertion."""
        if self.done or self.left <= 0:
            self.done = True
            return False
        self.left -= 1
        headed = begins(text)
        body = _body(text) if headed else text
        if headed and (self.assertion or not self._own(body)):
            self.done = True
            return False
        if len(self.lines) < 60:
            self.lines.append(text)
        self._read(body)
        return True

    def _own(self, body: str) -> bool:
        return (
            body.startswith(
                ("--- Begin node", "--- End node", "ERROR: ", "input: ", "output: ", "Node name: ", "name: ")
            )
            or (self.dumping and _DUMPED.fullmatch(body) is not None)
            or _ASSERTION.match(body) is not None
        )

    def _read(self, body: str) -> None:
        if "--- Begin node" in body:
            self.dumping = True
        elif "--- End node" in body:
            self.dumping, self.dumped = False, True
        elif (m := _FUNCTION.search(body)) is not None:
            self.source, self.function, self.dumping = m["source"], m["function"], False
            self.dumped = False
        elif not self.dumping and (m := _ASSERTION.search(body)) is not None:
            self.assertion = (m["text"] or m["plain"]).strip()
            self.done = not self.assertion.startswith("Invalid Node")  # 10.x: the reason is the next line
        elif self.assertion:
            self.assertion, self.done = body.strip(), True
        elif body.startswith("attribute {"):
            self.inside = "?"
        elif body.startswith("}"):
            self.inside = ""
        elif self.inside:
            if (m := _ATTRIBUTE.match(body)) is not None:
                if m["key"] == "name" and self.inside == "?":
                    self.inside = m["value"]
                elif self.inside != "?":
                    self.attributes.setdefault(self.inside, m["value"])
        elif (m := _FIELD.match(body)) is not None:
            key, value = ("name", m["node"]) if m["node"] else (m["key"], m["value"])
            self.found.setdefault(key, value)

    def node(self) -> OnnxNode:
        """The node, as far as the dump and the first line tell."""
        m = _OPENING.search(self.lines[0])
        number = whole(m["number"]) if m else None
        op = self.found.get("op_type") or (m["op"] if m else "")
        output = (m["output"] if m else "") or self.found.get("output", "")
        name = self.found.get("name", "")
        return OnnxNode(number, op, name, self.found.get("domain", ""), output, dict(self.attributes))

    def reason(self) -> str:
        """What the parser asserted: its own words where it has some."""
        quoted = _QUOTED.search(self.assertion)
        return quoted["words"] if quoted else self.assertion


def _body(text: str) -> str:
    """A line without its head and the parser's file."""
    return re.sub(r"^\w+\.cpp:\d+: (?!In function)", "", read_head(text).text)


def collector_for(first: str, more: int, *, node: bool) -> Collector:
    """The collector of a message that begins with that line."""
    if node:
        return NodeCollector(MAX_NODE_LINES, [first])
    return Collector(more, [first])
