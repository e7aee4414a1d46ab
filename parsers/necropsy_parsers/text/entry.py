"""Entries of torch's own log: messages each line of which bears the same head.

    V1129 12:21:04.426000 502 torch/_dynamo/guards.py:4760] [0/1] [__recompiles] Recompiling function forward in ...
    V1129 12:21:04.426000 502 torch/_dynamo/guards.py:4760] [0/1] [__recompiles]     triggered by the following ...

Since torch 2.1 the formatter (`torch/_logging/_internal.py`, `TorchLogsFormatter`) repeats the head on every
line, so that an entry is the run of lines of one writer whose time, place, compile id and artifact agree. Entries
of several processes woven together come apart by their pid and rank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from necropsy_parsers.messages import Message, MessageFormat
from necropsy_parsers.records import Anchor, Origin

MAX_LINES: Final = 600  # a recompile lists one reason a cache entry with its stack: 64 entries of 8 lines


# Modules whose messages this holds for; launchers (torch/distributed) write one message a line.
_COMPILER: Final = re.compile(
    r"(?:^|[/\\])torch[/\\](?:_dynamo|_inductor|_functorch|_export|_higher_order_ops|export|fx)[/\\.]"
)


MAX_LOOSE: Final = 120  # lines of one without heads: what a program prints cannot be told from them
_SHORT: Final = re.compile(rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):torch\.[\w.]+:$")
# With what a message of several lines begins where its heads were cut off (pasted without them, or another formatter).
BEGINS: Final = re.compile(
    r"(?:Graph break in user code at |Graph break \(\w|Graph break from `|Recompiling function "
    r"|torch\._dynamo hit config\.)"
)
_STACK: Final = re.compile(r"^User code traceback:|from user code at:$")
# A head as torch 2.2 and later write it, whatever stands before; and the beginning of one that reports no error.
_FORM: Final = re.compile(rb"[VIWEC](?P<time>\d{4} \d\d:\d\d:\d\d\.\d{6})(?P<pid> +\d+ torch/)")
_OTHER: Final = re.compile(rb"[VIW](?P<time>\d{4} \d\d:\d\d:\d\d\.\d{6})")
_ARTIFACT: Final = b" [__"
_DEEP: Final = b"]" + 9 * b" "  # what stands deep in from the margin, see `takes`
HEAD_WITHIN: Final = 300  # bytes of a line in which that is looked for
LONG_LINE: Final = 16 * 1024  # such lines go the long way
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b-\x1f]")  # colours and progress bars: the long way
_CONTROLS: Final = bytes(n for n in range(32) if _CONTROL.match(bytes([n])))


def of_compiler(origin: Origin) -> bool:
    """Whether the logger of torch's compiler wrote the line."""
    if origin.place is None:
        return False
    return bool(origin.artifact) or _of_compiler(origin.place[0])


@lru_cache(maxsize=1024)
def _of_compiler(file: str) -> bool:
    return _COMPILER.search(file) is not None


def head_of(line: bytes, text: str) -> bytes:
    """What stands before `text` in a line as it was read, or b"" if the text is not there as it stands."""
    data = text.encode("utf-8", "replace")
    return line[: -len(data)] if data and line.endswith(data) else b""


class Entry(Struct):
    """An open entry: its first line's message, where it ends, its writer, the bytes of its head, its further lines.

    Lines that were taken together stay bytes with their heads until the message is asked for. A `muted` one is passed
    over: so many alike ones were read that it is only counted. One that is `over` waits for its end: the next line of
    its writer is another message.
    """

    head: Message
    end: int
    writer: int
    prefix: bytes
    muted: bool = False
    closed: bool = False
    over: bool = False
    kinds: Sequence[MessageFormat] | None = None  # whose literals the first line holds, where that is known
    count: int = 0  # further lines
    parts: list[str | bytes] = field(default_factory=list)  # a line, or several as they stand behind the first's head

    def goes_on(self, line: bytes, end: int) -> bool:
        """Whether a line bears the very head of this entry, and takes it: most lines of a log under `TORCH_LOGS` do."""
        if (
            self.closed
            or not self.prefix
            or not line.startswith(self.prefix)
            or self.prefix.endswith(b":")
            or self.count >= MAX_LINES
            or _CONTROL.search(line) is not None
        ):
            return False
        self.feed(line[len(self.prefix) :].decode("utf-8", "replace"), end)
        return True

    def take(self, chunk: bytes, begin: int, base: int) -> tuple[int, int]:
        """Takes all lines from `begin` on that bear its very head: where they end, and how many they are.

        `base` is the offset of the chunk. What `goes_on` decides line by line.
        """
        prefix, end, count = self.prefix, begin, 0
        room = MAX_LINES - self.count if prefix and not prefix.endswith(b":") else 0
        while count < room and chunk.startswith(prefix, end):
            stop = chunk.find(b"\n", end)
            if not 0 <= stop < end + LONG_LINE:
                break
            end, count = stop + 1, count + 1
        taken = chunk[begin : end - 1]
        if not count or len(taken.translate(None, _CONTROLS)) != len(taken):  # ten times as fast as a pattern
            return begin, 0
        if not self.muted:
            self.parts.append(taken[len(prefix) :])
        self.count += count
        self.end = base + end - 1
        return end, count

    def ends_before(self, chunk: bytes, begin: int) -> bool:
        """Whether the line at `begin` plainly is its writer's next message, for which `takes` would say no."""
        mine = _FORM.search(self.prefix)
        if mine is None or not chunk.startswith(self.prefix[: mine.start()], begin):
            return False
        other = _OTHER.match(chunk, begin + mine.start())
        level = mine.start() + 1
        return (
            other is not None
            and (
                other["time"] != mine["time"]
                # Without an artifact any other place or compilation is another message.
                or (_ARTIFACT not in self.prefix and not chunk.startswith(self.prefix[level:], begin + level))
            )
            and chunk.startswith(mine["pid"], other.end())
            and chunk.find(_DEEP, begin, begin + HEAD_WITHIN) < 0
        )

    @property
    def loose(self) -> bool:
        """Whether its further lines bear no head (`TORCH_LOGS_FORMAT=short`, or heads that were cut off)."""
        return not self.head.headed or _SHORT.search(self.prefix) is not None

    def takes(self, text: str, origin: Origin, *, headed: bool) -> bool:
        """Whether a line with that head, or without one, goes on with this entry."""
        mine = self.head.origin
        if not headed:
            return self.loose and self.count < MAX_LOOSE and not BEGINS.match(text) and not self._over(text)
        if self.count >= MAX_LINES or self.loose:
            return False
        if (origin.compile_id, origin.artifact) != (mine.compile_id, mine.artifact):
            return False
        if origin.place == mine.place:
            return origin.time is None or mine.time is None or origin.time.text == mine.time.text
        # Torch 2.11 and later log the stack of a graph partition's node by a call of its own, deep in from the margin.
        near = origin.place is not None and mine.place is not None and origin.place[0] == mine.place[0]
        return near and bool(origin.artifact) and text[:8].isspace()

    def _over(self, text: str) -> bool:
        """Whether a loose entry has said all: its stack, or its indented list, is behind it."""
        if not text.strip() or text[0] in " \t":
            return False
        if self.head.text.startswith("Recompiling"):
            return True
        lines = [self._plain(part) for part in self.parts]
        stack = next((n for n, line in enumerate(lines) if _STACK.search(line)), None)
        return stack is not None and any('File "' in line for line in lines[stack:])

    def _plain(self, part: str | bytes) -> str:
        if isinstance(part, str):
            return part
        return part.replace(b"\n" + self.prefix, b"\n").decode("utf-8", "replace")

    def feed(self, text: str, end: int) -> None:
        """One more line."""
        self.parts.append(text)
        self.count += 1
        self.end = end

    def message(self) -> Message:
        """The whole entry."""
        a = self.head.anchor
        text = "\n".join([self.head.text, *map(self._plain, self.parts)])
        return replace(self.head, text=text, anchor=Anchor(a.input, a.start, self.end, a.line, a.text))
