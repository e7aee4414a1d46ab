"""An entry of a structured log: whose it is, what kind, and its parts, decoded when they are asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from necropsy_parsers.messages import Common, Message
from necropsy_parsers.records import Anchor, Frame, Origin, Record
from necropsy_parsers.structured.framing import payload_of, raw_payload

STREAM: Final = "TORCH_TRACE"  # `Origin.stream` of all that comes from structured logs
UNNAMED: Final = "<interned {}>"
T = TypeVar("T")
S = TypeVar("S", bound=Struct)


class Interned(Record, frozen=True):
    """A string that entries of this process, in this log or another one, name by its number."""

    number: int
    text: str


class Artifact(Struct, frozen=True, gc=False):
    """Name and encoding of an artifact: string or json."""

    name: str = ""
    encoding: str = ""


class Head(Struct, frozen=True, gc=False):
    """What every entry's JSON may say besides its own kind."""

    artifact: Artifact | None = None
    interned: tuple[str, int] | None = field(default=None, name="str")
    frame_id: int | None = None
    frame_compile_id: int | None = None
    attempt: int | None = None
    compiled_autograd_id: int | None = None
    rank: int | None = None
    has_payload: Any = None

    @property
    def compile_id(self) -> str:
        """As text logs print it: frame/compilation, `_2` for the second restart, `!0/` inside compiled autograd."""
        if self.frame_id is None or self.frame_compile_id is None:
            return "" if self.compiled_autograd_id is None else f"!{self.compiled_autograd_id}"
        auto = "" if self.compiled_autograd_id is None else f"!{self.compiled_autograd_id}/"
        return f"{auto}{self.frame_id}/{self.frame_compile_id}{f'_{self.attempt}' if self.attempt else ''}"


class RawFrame(Struct, frozen=True, gc=False):
    """A frame as torch writes it: its file is a number that a `str` entry explained before."""

    line: int | None = None
    name: str = ""
    filename: int | str = -1
    loc: str | None = None


@cache
def _envelope(key: str, kind: Any) -> msgspec.json.Decoder[Any]:
    """A decoder of what stands under one key of an entry, which passes over the rest."""
    made = msgspec.defstruct("Envelope", [("value", kind | None, field(name=key, default=None))])
    return msgspec.json.Decoder(made, strict=False)


class Entry(Struct, frozen=True, dict=True, weakref=True):
    """One entry. `files` are the interned strings of its process."""

    kind: str
    head: Head
    json: bytes
    data: bytes
    anchor: Anchor
    origin: Origin
    seq: int
    attempt: int
    files: dict[int, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The artifact's name, or ""."""
        return self.head.artifact.name if self.head.artifact is not None else ""

    @property
    def common(self) -> Common:
        """What every record of this entry shares."""
        return {"origin": self.origin, "seq": self.seq, "attempt": self.attempt}

    @cached_property
    def raw(self) -> bytes:
        """The payload with the tabs before its lines, which are blanks to JSON."""
        return raw_payload(self.data)

    @cached_property
    def payload(self) -> str:
        """The payload as text."""
        return payload_of(self.data)

    def value(self, kind: type[S]) -> S | None:
        """What stands under the entry's own key, as a `kind`; None where it is something else."""
        try:
            found: S | None = _envelope(self.kind, kind).decode(self.json).value
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return self._with_constants(kind)
        return found

    def _with_constants(self, kind: type[S]) -> S | None:
        """The same of JSON with NaN or Infinity, which metrics may hold: Python's own reader takes them."""
        if b"NaN" not in self.json and b"Infinity" not in self.json:
            return None
        try:
            whole = json.loads(self.json, parse_constant=lambda _: None)
            return msgspec.convert(whole.get(self.kind), kind, strict=False)
        except (msgspec.MsgspecError, AttributeError, ValueError, RecursionError):
            return None

    def decoded(self, kind: type[T]) -> T | None:
        """The payload, which is JSON, as a `kind`; None where it is something else."""
        try:
            return msgspec.json.decode(self.raw, type=kind, strict=False)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def message(self, text: str, artifact: str) -> Message:
        """`text` as the message that the text log would print under `artifact`."""
        o = self.origin
        origin = Origin(rank=o.rank, pid=o.pid, stream=STREAM, time=o.time, compile_id=o.compile_id, artifact=artifact)
        return Message(text, self.anchor, origin, self.seq, self.attempt)

    def frames(self, raw: Sequence[RawFrame] | None) -> tuple[Frame, ...]:
        """A stack, outermost first; a file that another log of the process explained is `<interned 3>`."""
        found = []
        for f in raw or ():
            number = f.filename
            file = number if isinstance(number, str) else self.files.get(number, UNNAMED.format(number))
            found.append(Frame(file, f.line, f.name, (f.loc or "").strip()))
        return tuple(found)
