"""Recompilations, with the function that the entry after it names.

`recompile_reasons` (torch/_dynamo/guards.py since 2.3): one reason as text, several as a JSON list, without the name
of the function, which stands in the `dynamo_start` of the same compilation (convert_frame.py since 2.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from necropsy_parsers.messages.compile_step import CompileStep
from necropsy_parsers.messages.recompile import Recompile
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.structured.entry import Entry, RawFrame
from necropsy_parsers.structured.kinds import Reader
from necropsy_parsers.text.guard_failure import failures

KINDS: Final = ("artifact:recompile_reasons", "dynamo_start")
Key = tuple[int | None, str]


class Start(Struct, frozen=True):
    """What a `dynamo_start` says."""

    stack: list[RawFrame] | UnsetType = UNSET


class _Compilations:
    """Joins reasons to the compilations that they called for."""

    def __init__(self) -> None:
        self._waiting: dict[Key, Entry] = {}
        self._functions: dict[Key, Frame] = {}  # by number of the function

    def read(self, entry: Entry) -> Iterator[Record]:
        """A start of a compilation, and the recompilation that it is."""
        key = (entry.origin.pid, entry.origin.compile_id)
        if entry.kind != "dynamo_start":
            self._waiting[key] = entry
            return
        start = entry.value(Start)
        stack = entry.frames(None if start is None or start.stack is UNSET else start.stack)
        frame = stack[-1] if stack else None
        if frame is not None:
            self._functions[_function(key)] = frame
        yield CompileStep(
            entry.anchor,
            "trace",
            frame.function if frame else "",
            frame.file if frame else "",
            frame.line if frame else None,
            **entry.common,
        )
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            yield from _recompile(waiting, frame)

    def finish(self) -> Iterator[Record]:
        """Recompilations whose compilation the log does not show any more."""
        for key, entry in self._waiting.items():
            yield from _recompile(entry, self._functions.get(_function(key)))
        self._waiting.clear()


def _function(key: Key) -> Key:
    return key[0], key[1].rpartition("/")[0]


def make() -> Reader:
    """A reader of recompilations and of starts of compilations."""
    return _Compilations()


def _recompile(entry: Entry, frame: Frame | None) -> Iterator[Recompile]:
    reasons = entry.decoded(list[str]) if entry.payload.lstrip()[:1] == "[" else None
    lines = [line for reason in reasons or [entry.payload] for line in reason.split("\n")]
    entries, versions = failures(lines)
    message = entry.message("", "recompiles")
    yield Recompile(
        entry.anchor,
        frame.function if frame else "",
        frame.file if frame else "",
        frame.line if frame else None,
        entry.origin.compile_id,
        tuple(map(tuple, entries)),
        versions,
        "",
        "",
        **message.common,
    )
