"""Edits of a client to text and lines, in every position encoding, against a plain model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types
from pygls.workspace import PositionCodec

from necropsy_lsp.text import Document, apply, index_of, split_lines

ENCODINGS = list(types.PositionEncodingKind)
UNITS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
WIDTH = {"utf-8": 1, "utf-16": 2, "utf-32": 4}

text = st.text(alphabet="ab é🔥\n\r\t\x0c\u2028", max_size=40)


def units(line: str, encoding: types.PositionEncodingKind) -> int:
    return len(line.encode(UNITS[encoding])) // WIDTH[encoding]


def test_lines_end_where_python_and_the_protocol_end_them() -> None:
    assert split_lines("a\r\nb\rc\x0cd\u2028e\n") == ["a", "b", "c\x0cd\u2028e", ""]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_index_from_units(encoding: types.PositionEncodingKind) -> None:
    line = "é🔥a"
    codec = PositionCodec(encoding)
    assert [index_of(line, units(line[:n], encoding), codec) for n in range(4)] == [0, 1, 2, 3]
    assert index_of(line, 10**9, codec) == 3
    assert index_of("abc", -1, codec) == 0


@settings(max_examples=150, deadline=None)
@given(source=text, new=text, data=st.data(), encoding=st.sampled_from(ENCODINGS))
def test_an_edit_replaces_exactly_its_range(
    source: str, new: str, data: Any, encoding: types.PositionEncodingKind
) -> None:
    lines = split_lines(source)

    def position() -> tuple[int, int]:
        line = data.draw(st.integers(0, len(lines) - 1))
        return line, data.draw(st.integers(0, len(lines[line])))

    start, end = sorted((position(), position()))
    where = types.Range(*(types.Position(n, units(lines[n][:c], encoding)) for n, c in (start, end)))
    document = Document("file:///t.py", source, position_codec=PositionCodec(encoding))
    document.apply_change(types.TextDocumentContentChangePartial(where, new))
    ends = [0]
    for line, rest in zip(lines, _ends(source), strict=False):
        ends.append(ends[-1] + len(line) + len(rest))
    expected = source[: ends[start[0]] + start[1]] + new + source[ends[end[0]] + end[1] :]
    assert document.source == expected
    (edit,) = document.take_edits()
    replayed = [*lines[: edit.first], *edit.lines, *lines[edit.last + 1 :]]
    assert replayed == split_lines(expected) == document.plain_lines
    assert document.take_edits() == []


def _ends(source: str) -> list[str]:
    found, rest = [], source
    for line in split_lines(source)[:-1]:
        rest = rest[len(line) :]
        found.append("\r\n" if rest.startswith("\r\n") else rest[0])
        rest = rest[len(found[-1]) :]
    return found


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ((0, 99), (0, 99), "aX\nb"),
        ((9, 0), (9, 9), "a\nbX"),
        ((1, 0), (0, 0), "a\nXb"),  # backwards: nothing is removed
        ((0, 0), (9, 0), "X"),
    ],
)
def test_positions_outside_the_text(start: tuple[int, int], end: tuple[int, int], expected: str) -> None:
    where = types.Range(types.Position(*start), types.Position(*end))
    changed, _ = apply("a\nb", ["a", "b"], where, "X", PositionCodec())
    assert changed == expected


def test_pygls_lines_keep_their_ends() -> None:
    assert list(Document("file:///t.py", "a\x0cb\r\nc").lines) == ["a\x0cb\r\n", "c"]
    assert list(Document("file:///t.py", "a\n").lines) == ["a\n"]
    assert list(Document("file:///t.py", "").lines) == []


def test_a_whole_new_text() -> None:
    document = Document("file:///t.py", "a\nb")
    document.apply_change(types.TextDocumentContentChangeWholeDocument("x\ny\nz"))
    (edit,) = document.take_edits()
    assert (edit.first, edit.last, edit.lines) == (0, 1, ("x", "y", "z"))
