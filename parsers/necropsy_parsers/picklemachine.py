"""The instructions of a pickle that build plain data, run one at a time: bytes to dicts, lists, strings, numbers.

Used by `safepickle`, which says what is read and why. What the data ends in the middle of
is closed where it stands, so that a cut dump gives what comes before the cut.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

from msgspec import Struct

MAX_CONTAINERS: Final = 1_000_000
MAX_STEPS: Final = 16_000_000
MAX_MEMO: Final = 1 << 21
MAX_INT: Final = 16  # bytes of one integer; torch writes 8

CUT: Final = "cut"
DAMAGED: Final = "damaged"


class RefusedPickle(ValueError):
    """The pickle asks for more than plain data, or passes a limit. Its text says what."""


class Plain(Struct, frozen=True):
    """What a pickle held.

    `fault` is "" for a whole pickle, `cut` where it ended early, `damaged` where its
    instructions stopped making sense; `value` then holds what came before that.
    """

    value: Any
    fault: str = ""


# What pickles can ask for beyond plain data, in words.
_ASKS: Final[dict[int, str]] = {
    ord("c"): "a class or function", ord("i"): "an object", 0x93: "a class or function",
    ord("R"): "a call", ord("b"): "an object's state", ord("o"): "an object", 0x81: "an object", 0x92: "an object",
    ord("P"): "a persistent object", ord("Q"): "a persistent object",
    0x82: "a registered extension", 0x83: "a registered extension", 0x84: "a registered extension",
    0x8F: "a set", 0x90: "a set", 0x91: "a set", 0x96: "a byte array", 0x97: "a buffer", 0x98: "a buffer",
    ord("2"): "a copy of the stack", ord("0"): "an empty stack", ord("1"): "an empty stack",
}  # fmt: skip


class _Cut(Exception):
    """The data ended inside an instruction."""


class _Damaged(Exception):
    """An instruction that no pickler writes."""


class Machine:
    """The instructions of plain data, one at a time."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stacks below each open mark
        self.memo: dict[int, Any] = {}
        self.containers = 0
        self.stopped = False

    def run(self) -> Plain:
        """Run to the end; what was built until then if the data is cut or damaged."""
        data, end = self.data, len(self.data)
        if data[:1] != b"\x80":
            raise RefusedPickle("it is of a protocol below 2")
        try:
            for _ in range(MAX_STEPS):
                if self.at >= end:
                    raise _Cut
                code = data[self.at]
                self.at += 1
                action = _ACTIONS.get(code)
                if action is None:
                    self.refuse(code)
                else:
                    action(self)
                if self.stopped:
                    return Plain(self.stack[-1])
        except _Cut:
            return Plain(self.folded(), CUT)
        except (_Damaged, IndexError, struct.error):
            return Plain(self.folded(), DAMAGED)
        raise RefusedPickle(f"it takes more than {MAX_STEPS:,} instructions")

    def refuse(self, code: int) -> NoReturn:
        """Say what was asked for."""
        what = _ASKS.get(code)
        if what is None:
            raise _Damaged
        name = ""
        if code in b"ci":
            name = ".".join(
                part.decode("ascii", "replace") for part in self.data[self.at : self.at + 200].split(b"\n")[:2]
            )
        elif code == 0x93 and len(self.stack) >= 2:
            name = ".".join(str(part) for part in self.stack[-2:] if isinstance(part, str))
        name = "".join(c for c in name if c.isprintable())[:80]
        raise RefusedPickle(f"it asks for {what}" + (f", {name}" if name else ""))

    def folded(self) -> Any:
        """What has been built, with every open container closed where it stands."""
        while self.below:
            items, self.stack = self.stack, self.below.pop()
            target = self.stack[-1] if self.stack else None
            if isinstance(target, list):
                target.extend(items)
            elif isinstance(target, dict):
                for key, value in zip(items[::2], items[1::2], strict=False):
                    if isinstance(key, (str, int)):
                        target[key] = value
        return self.stack[0] if self.stack else None

    # -- reading

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        piece = self.data[self.at : self.at + count]
        if len(piece) < count:
            raise _Cut
        self.at += count
        return piece

    def number(self, size: int) -> int:
        """The next little-endian number."""
        return int.from_bytes(self.take(size), "little")

    def container(self, value: Any) -> None:
        """Put a new container on the stack."""
        self.containers += 1
        if self.containers > MAX_CONTAINERS:
            raise RefusedPickle(f"it builds more than {MAX_CONTAINERS:,} containers")
        self.stack.append(value)

    def pop_mark(self) -> list[Any]:
        """The items above the last mark."""
        if not self.below:
            raise _Damaged
        items, self.stack = self.stack, self.below.pop()
        return items

    # -- instructions

    def mark(self) -> None:
        """Open a run of items."""
        if len(self.below) >= MAX_CONTAINERS:
            raise RefusedPickle("it nests too deeply")
        self.below.append(self.stack)
        self.stack = []

    def protocol(self) -> None:
        """The pickle's version."""
        if not 2 <= self.number(1) <= 5:
            raise _Damaged

    def frame(self) -> None:
        """The length of what follows, which only readers of streams need."""
        self.take(8)

    def integer(self, size: int) -> None:
        """A signed number with its length before it."""
        count = self.number(size)
        if count > MAX_INT:
            raise RefusedPickle(f"it holds an integer of {count} bytes")
        self.stack.append(int.from_bytes(self.take(count), "little", signed=True))

    def text(self, size: int) -> None:
        """A string with its length before it."""
        self.stack.append(self.take(self.number(size)).decode("utf-8", "replace"))

    def raw(self, size: int) -> None:
        """Bytes with their length before them."""
        self.stack.append(self.take(self.number(size)))

    def tuple_of(self, items: list[Any]) -> None:
        """A tuple; of tuples it takes one that holds itself many times over to never finish hashing it."""
        if any(isinstance(item, tuple) for item in items):
            raise RefusedPickle("it nests tuples")
        self.container(tuple(items))

    def tuple_last(self, count: int) -> None:
        """A tuple of the last items."""
        if len(self.stack) < count:
            raise _Damaged
        items = self.stack[-count:]
        del self.stack[-count:]
        self.tuple_of(items)

    def extend(self, items: list[Any]) -> None:
        """Add to the list below."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise _Damaged
        target.extend(items)

    def update(self, items: list[Any], target: Any) -> None:
        """Set keys of a dict."""
        if not isinstance(target, dict) or len(items) % 2:
            raise _Damaged
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, int)):
                raise RefusedPickle("a dict key is neither a string nor an integer")
            target[key] = value

    def append(self) -> None:
        """Add one item to the list below it."""
        item = self.stack.pop()
        self.extend([item])

    def set_item(self) -> None:
        """Set one key of the dict below."""
        value, key = self.stack.pop(), self.stack.pop()
        self.update([key, value], self.stack[-1])

    def set_items(self) -> None:
        """Set keys of the dict below the mark."""
        items = self.pop_mark()
        self.update(items, self.stack[-1])

    def new_dict(self) -> None:
        """A dict of the items above the mark."""
        items, made = self.pop_mark(), dict[Any, Any]()
        self.container(made)
        self.update(items, made)

    def put(self, index: int) -> None:
        """Remember the last item."""
        if index > MAX_MEMO:
            raise RefusedPickle("its memo is too large")
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        """Put a remembered item on the stack."""
        if index not in self.memo:
            raise _Damaged
        self.stack.append(self.memo[index])

    def stop(self) -> None:
        """The end."""
        if not self.stack or self.below:
            raise _Damaged
        self.stopped = True


_ACTIONS: Final[dict[int, Callable[[Machine], None]]] = {
    0x80: Machine.protocol,
    0x95: Machine.frame,
    ord("."): Machine.stop,
    ord("("): Machine.mark,
    ord("N"): lambda m: m.stack.append(None),
    0x88: lambda m: m.stack.append(True),
    0x89: lambda m: m.stack.append(False),
    ord("J"): lambda m: m.stack.append(struct.unpack("<i", m.take(4))[0]),
    ord("K"): lambda m: m.stack.append(m.number(1)),
    ord("M"): lambda m: m.stack.append(m.number(2)),
    0x8A: lambda m: m.integer(1),
    0x8B: lambda m: m.integer(4),
    ord("G"): lambda m: m.stack.append(struct.unpack(">d", m.take(8))[0]),
    ord("X"): lambda m: m.text(4),
    0x8C: lambda m: m.text(1),
    0x8D: lambda m: m.text(8),
    ord("B"): lambda m: m.raw(4),
    ord("C"): lambda m: m.raw(1),
    0x8E: lambda m: m.raw(8),
    ord("]"): lambda m: m.container([]),
    ord("}"): lambda m: m.container({}),
    ord(")"): lambda m: m.tuple_of([]),
    ord("t"): lambda m: m.tuple_of(m.pop_mark()),
    0x85: lambda m: m.tuple_last(1),
    0x86: lambda m: m.tuple_last(2),
    0x87: lambda m: m.tuple_last(3),
    ord("l"): lambda m: m.container(m.pop_mark()),
    ord("d"): Machine.new_dict,
    ord("a"): Machine.append,
    ord("e"): lambda m: m.extend(m.pop_mark()),
    ord("s"): Machine.set_item,
    ord("u"): Machine.set_items,
    ord("q"): lambda m: m.put(m.number(1)),
    ord("r"): lambda m: m.put(m.number(4)),
    0x94: lambda m: m.put(len(m.memo)),
    ord("h"): lambda m: m.get(m.number(1)),
    ord("j"): lambda m: m.get(m.number(4)),
}
