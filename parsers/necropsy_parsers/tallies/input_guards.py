"""Guards on tensors that enter a compiled function: which line of the program used them first.

| | +- TENSOR_MATCH: check_tensor(L['ids'], Tensor, DispatchKeySet(CPU, ...), torch.int64, device=None, size=[4,
48], stride=[48, 1])  # b, t = ids.shape  # ome/trainer/lm.py:13 in forward                     (2.4 and later)
hasattr(L['ids'], '_dynamo_dynamic_indices') == False         # b, t = ids.shape  # lm.py:13 in forward   (2.1 to 2.3)

`TORCH_LOGS=guards`. When such a guard fails, its reason names no line (it is made in C++,
torch/csrc/dynamo/guards.cpp); only this list does. Guards on parameters and buffers of modules are passed over: those
do not change their size. A list is hundreds of lines, of which a few are of interest: hence a tally.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import UNKNOWN, Anchor, Frame, Postponed, Record
from necropsy_parsers.tallies import Whose, places
from necropsy_parsers.text.guard_failure import failure
from necropsy_parsers.text.lines import lines_before
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "input_guards"
TITLE: Final = "Guards on tensors that enter a compiled function"
_TENSOR: Final = b"TENSOR_MATCH: check_tensor("
_OLDER: Final = b"'_dynamo_dynamic_indices') == False  "
LITERALS: Final = (_TENSOR, _OLDER)
ASKS: Final = True
MAX_BYTES: Final = 0
READS: Final = (Reads("guards", "2.1", "tensors that enter a compiled function, and the line that used them first"),)
MAX_GUARDS: Final = 20_000  # kept an input; further ones are passed over
_LIST: Final = b"__guards"
_HEAD_WITHIN: Final = 300  # bytes of a line in which that stands
_LONGEST: Final = 16 * 1024  # bytes of a line that are kept
_STATE: Final = (b"._parameters[", b"._buffers[")
_GUARD: Final = lazily(
    r"(?:^[| ]*\+- TENSOR_MATCH: check_tensor\((?P<tensor>[^\n]+?), (?=\w*Tensor\b|Parameter\b|[\w.]+, Dispatch)"
    r"|^ *hasattr\((?P<older>[^\n]+?), '_dynamo_dynamic_indices'\) == False +(?=#))"
)


class InputGuard(Record, frozen=True):
    """A tensor that enters a compiled function as `source`; `frame` is the line that used it first, path shortened."""

    source: str
    frame: Frame


class GuardLists(Postponed, frozen=True):
    """Lists of guards; where something else tells why a function was compiled again, nobody asks for them."""


class Tally:
    """Keeps the lines as they are; what they say is read when somebody asks."""

    def __init__(self, name: str, first_seq: int, whose: Whose) -> None:
        self._name = name
        self._seq = first_seq
        self._whose = whose
        self._lines: list[tuple[int, int, bytes]] = []  # offset, number, text

    def feed(self, chunk: bytes, start: int, line: int) -> None:
        """Keep the lines of a chunk."""
        # Of 2.4 and later the older words stand in each tree, too, and tell nothing more.
        newer = _TENSOR in chunk
        for position in places(chunk, _TENSOR if newer else _OLDER):
            if len(self._lines) >= MAX_GUARDS:
                return
            if newer:  # most are parameters: their name is looked at before their line is
                first = chunk.find(b", ", position, position + _LONGEST)
                if first < 0 or any(chunk.find(part, position, first) >= 0 for part in _STATE):
                    continue
            begin = chunk.rfind(b"\n", 0, position) + 1
            if not newer and any(chunk.find(part, begin, position) >= 0 for part in _STATE):
                continue
            if chunk.find(_LIST, begin, min(position, begin + _HEAD_WITHIN)) < 0:
                continue
            end = chunk.find(b"\n", position)
            end = len(chunk) if end < 0 else end
            number = line + lines_before(chunk, begin) + 1
            self._lines.append((start + begin, number, chunk[begin : min(end, begin + _LONGEST)]))

    def records(self) -> Iterator[Record]:
        """One record for all."""
        if self._lines:
            start, number, text = self._lines[0]
            yield GuardLists(Anchor(self._name, start, start + len(text), number), self._guards, seq=self._seq + start)

    def _guards(self) -> Iterator[InputGuard]:
        """One record a line that names the place."""
        head, origin, attempt = b"", UNKNOWN, 0
        for start, number, line in self._lines:
            if head and line.startswith(head) and b"\x1b" not in line:  # the lines of a list have one
                text = line[len(head) :].decode("utf-8", "replace")
            else:
                text, origin, attempt = self._whose(line, start)
                end = line.find(b"] ", line.find(_LIST))
                head = line[: end + 2] if end >= 0 else b""
            m = _GUARD.match(text)
            if m is None:
                continue
            source = m["tensor"] or m["older"]
            found = failure(text[m.end() :] if m["tensor"] else f"{source} {text[m.end() :]}")
            if found is not None and found.comment is not None:
                anchor = Anchor(self._name, start, start + len(line), number, text.strip()[:400])
                seq = self._seq + start
                yield InputGuard(anchor, source, found.comment, origin=origin, seq=seq, attempt=attempt)
