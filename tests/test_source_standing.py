"""Local sources against what a log quoted: the same, moved, gone, another file, one of two that fit."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from necropsy.finding import Place
from necropsy.provenance.files import SourceTree
from necropsy.provenance.standing import standing

FILE: Final = "/home/trainer/projects/vit/train.py"
TEXT: Final = "return x @ y.view(2, 2)"
SOURCE: Final = f"import torch\n\n\ndef step(x, y):\n    {TEXT}\n\n\nstep(1, 2)\n"
PLACE: Final = Place(FILE, 5, None, "step", TEXT, "line")


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """What is said of a place, and the excerpt shown, with these sources below the folder that the user named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")  # nothing above it is looked at

    def say(place: Place = PLACE, **sources: str) -> tuple[str, list[tuple[int, str]]]:
        for name, text in sources.items():
            path = tmp_path / "src" / name / "train.py"
            path.parent.mkdir(parents=True)
            path.write_text(text)
        quoted = {place.file: {place.line: place.text}} if place.line is not None else {}
        tree = SourceTree([str(tmp_path / "src")], [], quoted)
        return standing(tree, place), tree.excerpt(place, 0, 0)

    return say


def test_the_same_source_needs_no_words(said) -> None:  # type: ignore[no-untyped-def]
    assert said(a=SOURCE) == ("", [(5, f"    {TEXT}")])


def test_two_copies_of_one_file_are_no_choice(said) -> None:  # type: ignore[no-untyped-def]
    assert said(a=SOURCE, b=SOURCE)[0] == ""


def test_two_files_that_fit_are_told(said) -> None:  # type: ignore[no-untyped-def]
    told, shown = said(a=SOURCE, b=SOURCE.replace("import torch", "import torch as t"))
    assert told == "2 files fit: src/a/train.py is shown, src/b/train.py could be meant; --source DIR decides"
    assert shown


def test_the_file_with_more_of_the_path_is_meant(said) -> None:  # type: ignore[no-untyped-def]
    told, _ = said(a=SOURCE, vit=SOURCE.replace("import torch", "import torch as t"))
    assert told == ""


def test_a_line_that_moved(said) -> None:  # type: ignore[no-untyped-def]
    told, shown = said(vit="# licence\n" * 3 + SOURCE)
    assert told == "src/vit/train.py has changed since the run: this line is number 8 there now"
    assert not shown  # the text at the old number is another line


def test_a_line_that_stands_twice_now(said) -> None:  # type: ignore[no-untyped-def]
    told, _ = said(vit=f"\n{SOURCE}\ndef other(x, y):\n    {TEXT}\n")
    assert "lines like this are number 6, 12" in told


def test_a_line_that_is_gone(said) -> None:  # type: ignore[no-untyped-def]
    told, shown = said(vit=SOURCE.replace("view", "reshape"))
    assert "does not hold this line" in told
    assert not shown


def test_short_lines_are_not_looked_for(said) -> None:  # type: ignore[no-untyped-def]
    told, _ = said(Place(FILE, 2, None, "step", "else:", "line"), vit="if x:\n    a()\nelse:\n    b()\n")
    assert "number" not in told


def test_a_function_is_not_compared_by_its_first_line(said) -> None:  # type: ignore[no-untyped-def]
    assert said(Place(FILE, 4, None, "step", "", "function"), vit=SOURCE)[0] == ""


def test_notebooks_have_no_file(said) -> None:  # type: ignore[no-untyped-def]
    told, shown = said(Place("<ipython-input-4-0f>", 3, None, "step", TEXT, "line"), vit=SOURCE)
    assert told.startswith("the cell that ran as In [4]")
    assert not shown


def test_what_places_quote_confirms_a_file_that_no_traceback_names(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    tree = SourceTree([str(tmp_path)])
    assert tree.path(FILE) is None  # the name alone is too little
    tree.learn([PLACE, Place(FILE, 1, None, "", "", "function")])
    assert tree.path(FILE) == tmp_path / "train.py"
    other = SourceTree([str(tmp_path)])
    other.learn([Place(FILE, 5, None, "step", "return x", "line")])
    assert other.path(FILE) is None
