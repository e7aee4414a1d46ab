"""Places under edit: they follow their lines, go stale, come back, and never stand on a wrong line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types
from pygls.workspace import PositionCodec

from necropsy_lsp.matching import functions_of, seen, similar
from necropsy_lsp.stored import Place
from necropsy_lsp.text import Document, split_lines
from necropsy_lsp.tracking import Tracked

SOURCE = """\
import torch

@torch.compile
def step(x):
    y = x.item()
    return y

def main():
    for x in range(3):
        y = x.item()
        print("🔥", y)
"""
ITEM = Place("train.py", 5, function="step", text="y = x.item()")
TWIN = Place("train.py", 10, function="main", text="y = x.item()")
PRINT = Place("train.py", 11, function="main", text='print("🔥", y)')
STEP = Place("train.py", 3, function="step", exactness="function")
ALL = [ITEM, TWIN, PRINT, STEP]

Edit = tuple[tuple[int, int], tuple[int, int], str]


class Editor:
    """A document as a client edits it, and the places in it."""

    def __init__(self, *places: Place, text: str = SOURCE) -> None:
        self.document = Document("file:///train.py", text, position_codec=PositionCodec())
        self.tracked = Tracked(list(self.document.plain_lines))
        self.tracked.want(places)

    def edit(self, *edits: Edit) -> None:
        for start, end, text in edits:
            where = types.Range(types.Position(*start), types.Position(*end))
            self.document.apply_change(types.TextDocumentContentChangePartial(where, text))
        self.tracked.edit(self.document.take_edits())

    def whole(self, text: str) -> None:
        self.document.apply_change(types.TextDocumentContentChangeWholeDocument(text))
        self.tracked.edit(self.document.take_edits())

    def at(self, place: Place) -> tuple[int | None, bool]:
        mark = self.tracked.marks[place]
        return (None if mark.line is None else mark.line + 1), mark.stale


def test_places_stand_where_the_run_saw_them() -> None:
    editor = Editor(*ALL)
    assert [editor.at(place) for place in ALL] == [(5, False), (10, False), (11, False), (4, False)]


@pytest.mark.parametrize(
    ("edits", "item", "twin"),
    [
        ([((0, 0), (0, 0), "#\n#\n#\n")], (8, False), (13, False)),
        ([((4, 0), (4, 0), "\n")], (6, False), (11, False)),
        ([((4, 4), (4, 4), "pass\n    ")], (6, False), (11, False)),  # pushed down from its indentation
        ([((4, 16), (4, 16), "\n    y += 1")], (5, False), (11, False)),
        ([((4, 16), (4, 16), "\n    y = x.item()")], (5, False), (11, False)),  # the copy is the lower one
        ([((4, 0), (4, 0), "    y = x.item()\n")], (6, False), (11, False)),  # the copy is the upper one
        ([((4, 0), (4, 4), "        ")], (5, False), (10, False)),  # indented
        ([((4, 8), (4, 9), "z")], (5, True), (10, False)),
        ([((4, 8), (4, 9), "z"), ((4, 8), (4, 9), "x")], (5, False), (10, False)),
        ([((4, 16), (4, 16), "  # necropsy: ignore[SYN]")], (5, False), (10, False)),
        ([((4, 0), (5, 0), "")], (None, True), (9, False)),
        ([((4, 0), (5, 0), ""), ((4, 0), (4, 0), "    y = x.item()\n")], (5, False), (10, False)),
        ([((4, 0), (5, 0), ""), ((0, 0), (0, 0), "    y = x.item()\n")], (1, False), (10, False)),  # cut and pasted
        ([((4, 0), (4, 99), "")], (None, True), (10, False)),
        ([((0, 0), (99, 0), "")], (None, True), (None, True)),
        ([((9, 0), (10, 0), "")], (5, False), (None, True)),  # never the twin that was always there
        ([((4, 8), (4, 8), "\n")], (5, True), (11, False)),  # split
        ([((4, 8), (4, 8), "\n"), ((4, 8), (5, 0), "")], (5, False), (10, False)),  # and joined
        ([((3, 12), (4, 0), "")], (None, True), (9, False)),  # joined to the line before it
        ([((2, 0), (4, 4), "")], (3, False), (8, False)),
    ],
)
def test_edits(edits: list[Edit], item: tuple[int | None, bool], twin: tuple[int | None, bool]) -> None:
    together, apart = Editor(*ALL), Editor(*ALL)
    together.edit(*edits)
    for edit in edits:
        apart.edit(edit)
    for editor in (together, apart):
        assert (editor.at(ITEM), editor.at(TWIN)) == (item, twin)


def test_a_cut_place_does_not_take_a_twin_that_was_cut_and_restored() -> None:
    editor = Editor(ITEM)  # the run said nothing of line 10
    editor.edit(((4, 8), (4, 9), "z"))
    editor.edit(((9, 0), (10, 0), ""))
    editor.edit(((9, 0), (9, 0), "        y = x.item()\n"))
    assert editor.at(ITEM) == (5, True)


def test_a_decorated_function_is_shown_where_it_is_defined() -> None:
    editor = Editor(STEP)
    editor.edit(((3, 4), (3, 8), "walk"))
    assert editor.at(STEP) == (4, True)
    editor.edit(((3, 4), (3, 8), "step"))
    assert editor.at(STEP) == (4, False)


def test_a_whole_new_text_moves_places_too() -> None:
    editor = Editor(*ALL)
    editor.whole("# one\n# two\n" + SOURCE.replace("import torch\n", "").replace("range(3)", "range(4)"))
    assert [editor.at(place) for place in ALL] == [(6, False), (11, False), (12, False), (5, False)]


@pytest.mark.parametrize(
    ("text", "place", "at"),
    [
        ("#\n" + SOURCE, PRINT, (12, False)),  # moved since the run
        ("#\n#\n" + SOURCE, TWIN, (12, False)),  # the one in its function
        (SOURCE.replace("x.item()", "x.cpu().item()"), ITEM, (5, True)),
        (SOURCE.replace("y = x.item()", "pass"), ITEM, (None, True)),
        ("", ITEM, (None, True)),
        (SOURCE, Place("t.py", 99, text="nothing like it"), (None, True)),
        (SOURCE, Place("t.py", 4, text="def step(x):\n    y = x.item()"), (4, False)),
        (SOURCE, Place("t.py", 4, text="def step(x):\n    y = 1"), (4, True)),
        (SOURCE, Place("t.py", 5), (None, True)),  # nothing quoted: nothing claimed
        (SOURCE, Place("t.py", None, text="y"), (None, True)),
    ],
)
def test_a_file_that_changed_since_the_run(text: str, place: Place, at: tuple[int | None, bool]) -> None:
    assert Editor(place, text=text).at(place) == at


def test_of_several_copies_the_one_that_moved_like_its_neighbours() -> None:
    lines = [f"a{n} = f()" if n % 5 else "x = x.cpu()" for n in range(40)]
    places = [Place("t.py", 11, text="x = x.cpu()"), Place("t.py", 12, text="a11 = f()")]
    editor = Editor(*places, text="\n".join(["#"] * 4 + lines))  # the copy on line 10 came nearer to line 11
    assert [editor.at(place) for place in places] == [(15, False), (16, False)]


def test_only_a_new_run_looks_again_for_what_does_not_stand() -> None:
    editor = Editor(ITEM)
    editor.edit(((4, 0), (5, 0), ""))
    editor.tracked.want([ITEM, PRINT])
    assert (editor.at(ITEM), editor.at(PRINT)) == ((None, True), (10, False))
    editor.tracked.want([ITEM, PRINT], again={ITEM, PRINT})
    assert (editor.at(ITEM), editor.at(PRINT)) == ((None, True), (10, False))  # nor by its text alone
    moved = Place("train.py", 9, function="main", text="y = x.item()")
    editor.tracked.want([ITEM, moved], again={ITEM, moved})
    assert (editor.at(ITEM), editor.at(moved)) == ((None, True), (9, False))
    editor.edit(((4, 0), (4, 0), "    y = x.item()\n"))
    editor.tracked.want([ITEM, moved], again={ITEM, moved})
    assert (editor.at(ITEM), editor.at(moved)) == ((5, False), (10, False))


def test_text_that_comes_later_is_found() -> None:
    editor = Editor(ITEM, text="import torch\n")
    assert editor.at(ITEM) == (None, True)
    editor.whole(SOURCE)
    assert editor.at(ITEM)[1] is False


def test_functions_by_their_indentation() -> None:
    found = {(f.name, f.first, f.last) for f in functions_of(split_lines(SOURCE))}
    assert found == {("step", 3, 5), ("main", 7, 10)}


def test_similar_text_is_near_and_alike() -> None:
    lines = ["x = 1"] * 30 + ["loss = model(batch).mean()"]
    assert similar(Place("t.py", 25, text="loss = model(batch).sum()"), lines, 24) == 30
    assert similar(Place("t.py", 5, text="loss = model(batch).sum()"), lines, 4) is None


pool = ["y = x.item()", "    y = x.item()", 'print("🔥", y)', "a = 'é'", "", "def step(x):", "# necropsy: ignore"]
line = st.sampled_from(pool)
end = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def documents(draw: Any) -> str:
    return "".join(draw(line) + draw(end) for _ in range(draw(st.integers(0, 12))))


@settings(max_examples=300, deadline=None)
@given(text=documents(), data=st.data())
def test_what_is_not_stale_stands_on_its_text(text: str, data: Any) -> None:
    """Under any edits: on a line whose text is the quoted one, and two places never on one line."""
    lines = split_lines(text)
    places = {Place("t.py", n + 1, text=quote.strip()) for n, quote in enumerate(lines) if quote.strip()}
    shifted = {Place("t.py", data.draw(st.integers(1, 20)), text=data.draw(line).strip())}
    editor = Editor(*sorted(places | shifted, key=lambda p: (p.line or 0, p.text)), text=text)
    for _ in range(data.draw(st.integers(1, 6))):
        now = editor.document.plain_lines
        if data.draw(st.booleans()):
            first, last = sorted(data.draw(st.integers(0, len(now) + 1)) for _ in range(2))
            columns = [data.draw(st.integers(0, 20)) for _ in range(2)]
            new = data.draw(st.one_of(st.just(""), line, documents(), end, st.text("🔥é\r\n x", max_size=5)))
            editor.edit(((first, columns[0]), (last, columns[1]), new))
        else:
            editor.whole(data.draw(documents()))
        assert editor.tracked.lines == split_lines(editor.document.source)
        assert len(editor.tracked.ids) == len(editor.tracked.lines) == len({*editor.tracked.ids})
        for place, mark in editor.tracked.marks.items():
            if mark.line is not None and not mark.stale:
                assert seen(editor.tracked.lines[mark.line]) == seen(place.text) != ""
        standing = [m.line for p, m in editor.tracked.marks.items() if not m.stale and p in places]
        assert len(standing) == len({*standing})


@settings(max_examples=100, deadline=None)
@given(text=documents(), data=st.data())
def test_lines_put_above_move_everything(text: str, data: Any) -> None:
    lines = split_lines(text)
    places = [Place("t.py", n + 1, text=quote.strip()) for n, quote in enumerate(lines) if seen(quote)]
    editor = Editor(*places, text=text)
    put = [data.draw(line) for _ in range(data.draw(st.integers(1, 5)))]
    editor.edit(((0, 0), (0, 0), "".join(f"{new}\n" for new in put)))
    assert [editor.at(place) for place in places] == [((place.line or 0) + len(put), False) for place in places]
