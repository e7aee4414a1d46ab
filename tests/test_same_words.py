"""What torch's log says in the same words again is read once, and told of each writer as if it were read each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pytest
from msgspec.structs import replace

from necropsy_parsers.issues import Issues
from necropsy_parsers.messages import Message, MessageFormat, read_all
from necropsy_parsers.messages.graph_break import GraphBreak
from necropsy_parsers.messages.recompile import Recompile
from necropsy_parsers.records import Anchor, Origin, Record
from necropsy_parsers.text import memory
from necropsy_parsers.text.log import LogReader

_BREAK: Final = """\
Graph break in user code at /home/trainer/projects/seg/unet.py:41
Graph Break Reason: Data-dependent branching
  Explanation: Detected data-dependent branching.

User code traceback:
  File "/home/trainer/projects/seg/unet.py", line 41, in forward
    if mask.sum() > limit:
"""
_RECOMPILE: Final = """\
Recompiling function forward in /home/trainer/projects/seg/unet.py:30
    triggered by the following guard failure(s):
    - 0/0: tensor 'x' size mismatch at index 0. expected 16, actual 12
"""


def _log(ranks: int) -> bytes:
    lines = []
    for rank in range(ranks):
        for n, (text, artifact) in enumerate(((_BREAK, "graph_breaks"), (_RECOMPILE, "recompiles"))):
            head = f"[rank{rank}]:V1129 12:20:48.90{n}000 {500 + rank} torch/_dynamo/{artifact}.py:51] [{rank}/1] "
            lines += [f"{head}[__{artifact}] {line}\n" for line in text.splitlines()]
    return "".join(lines).encode()


def _records(data: bytes) -> list[Record]:
    records = LogReader("run.log", Issues()).records([data])
    found = [r for r in records if isinstance(r, GraphBreak | Recompile)]
    return sorted(found, key=lambda r: r.anchor.start)


def test_the_same_words_of_other_ranks_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Message] = []

    def counted(message: Message, kinds: Sequence[MessageFormat] | None = None) -> Iterator[Record]:
        asked.append(message)
        return read_all(message, kinds)

    monkeypatch.setattr(memory, "read_all", counted)
    found = _records(_log(8))
    assert (len(found), len(asked)) == (16, 2)


def test_each_has_its_own_head_and_place(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _records(_log(4))
    monkeypatch.setattr(memory, "MOST", 0)
    monkeypatch.setattr(memory, "LONGEST", 0)
    assert found == _records(_log(4))
    assert [(r.origin.rank, r.origin.pid) for r in found] == [(n, 500 + n) for n in range(4) for _ in range(2)]
    assert [r.compile_id for r in found if isinstance(r, Recompile)] == ["0/1", "1/1", "2/1", "3/1"]
    assert len({r.anchor.start for r in found}) == len(found)


def test_what_a_record_takes_from_its_head_besides_is_read_each_time() -> None:
    text = "[Rank 3] some collective operations have failed or timed out"
    message = Message(text, Anchor("a", 0, 9, 1), Origin(rank=3, level="E"), 0, 0)
    kept = memory.Memory()
    for rank in (3, 4):
        own = replace(message, origin=Origin(rank=rank, level="E"))
        assert kept.read(own) == list(read_all(own))
