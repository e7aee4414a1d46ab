"""Places of the words that tallies count: the search for all words tells the same as one for each."""

from __future__ import annotations

from typing import Final

import pytest

from necropsy_parsers.issues import Issues
from necropsy_parsers.tallies import places
from necropsy_parsers.text import marks, search
from necropsy_parsers.text.marks import Marks

_PLACED: Final = (b"__fusion", b"MemoryDep('")
_WATCHED: Final = (b"__schedule", b"fusing")
_ALL: Final = (*_WATCHED, *_PLACED)
_LINE: Final = b"V1129 12:21:04.426000 502 torch/_inductor/scheduler.py:76] [0/1] [__fusion] fusing op%d with op%d\n"


def _marks() -> Marks:
    made = Marks((b"Traceback", search.FRAME), (), "run.log", Issues(), 0, _WATCHED)
    made.place(frozenset(_PLACED))
    return made


@pytest.fixture(params=["a search for each", "hyperscan"], autouse=True)
def _search(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LARGE", 0 if request.param == "hyperscan" else 1 << 40)


@pytest.mark.parametrize(
    "chunk", [b"", b"__schedule", 9 * _LINE + b"MemoryDep('MemoryDep('buf0'", 20 * b"loss 1 __fusion\n"]
)
def test_the_places_are_those_of_a_search_for_each(chunk: bytes) -> None:
    found = _marks()
    found.find(chunk)
    assert [word in found.held for word in _WATCHED] == [word in chunk for word in _WATCHED]
    assert [list(found.held.places(chunk, word)) for word in _ALL] == [list(places(chunk, w)) for w in _ALL]


def test_they_are_the_same_in_chunks_crowded_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "CROWDED", 10)
    found = _marks()
    for chunk in (12 * _LINE, 3 * _LINE, b"MemoryDep('" + 40 * _LINE, b"nothing\n"):
        found.find(chunk)
        assert [list(found.held.places(chunk, word)) for word in _ALL] == [list(places(chunk, w)) for w in _ALL]
