"""Cells of notebooks: frames as kernels print them, and the cell in a notebook at hand."""

from __future__ import annotations

import json
from hashlib import sha1
from pathlib import Path
from typing import Final

import pytest

from necropsy_parsers.text.notebook import read_frame

from necropsy.finding import Place
from necropsy.provenance.files import SourceTree
from necropsy.provenance.notebooks import murmur2
from necropsy.provenance.standing import standing

LINE: Final = "return y.view(2, 2)"
STEP: Final = f"def step(x):\n    y = x\n    {LINE}\n"
OTHER: Final = "loader = make(4)"
# As ipykernel 7 named the cell of a real run.
RAISING: Final = (
    "%time\nclass Grid:\n    def view(self, *s):\n"
    "        raise RuntimeError(\"shape '[2, 2]' is invalid for input of size 3\")"
)
KERNEL: Final = f"/tmp/ipykernel_4127/{murmur2(STEP.encode())}.py"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Cell In[5], line 3", ("<ipython-input-5>", 3, "<module>")),
        ("Cell In[4], line 2, in step(x)", ("<ipython-input-4>", 2, "step")),
        ("Cell In[2], line 4, in Grid.view(self, *s)", ("<ipython-input-2>", 4, "Grid.view")),
        ("Input In [5], in <cell line: 3>()", ("<ipython-input-5>", None, "<cell line: 3>()")),
        ("<ipython-input-9-77aa01bc2f10> in step(x)", ("<ipython-input-9-77aa01bc2f10>", None, "step")),
        ("/tmp/ipykernel_4127/394.py in step(x)", ("/tmp/ipykernel_4127/394.py", None, "step")),
    ],
)
def test_frames(text: str, told: tuple[str, int | None, str]) -> None:
    frame = read_frame(text)
    assert frame is not None
    assert (frame.file, frame.line, frame.function) == told


def test_the_hash_is_ipykernels() -> None:
    assert murmur2(RAISING.encode()) == 514190189


def notebook(*cells: str, first: int | None = 1) -> str:
    """A notebook with a heading and these cells of code."""
    code = [
        {"cell_type": "code", "source": c.splitlines(keepends=True), "execution_count": first and first + n}
        for n, c in enumerate(cells)
    ]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": "# Train"}, *code], "nbformat": 4})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")  # nothing above it is looked at
    return tmp_path


def said(file: str, project: Path, line: int = 3, text: str = LINE) -> str:
    return standing(SourceTree([], [str(project / "run.log")]), Place(file, line, None, "step", text, "line"))


@pytest.mark.parametrize("file", [KERNEL, KERNEL.replace("/", "\\"), "<ipython-input-7-{}>"])
def test_a_hash_proves_the_cell_whatever_its_number_is(file: str, project: Path) -> None:
    (project / "train.ipynb").write_text(notebook(OTHER, STEP, STEP.replace("x)", "z)"), first=20))
    name = file.format(sha1(STEP.encode(), usedforsecurity=False).hexdigest()[:12])
    assert said(name, project) == "cell 3 of train.ipynb (In [21] there)"


def test_number_and_line_tell_the_cell(project: Path) -> None:
    (project / "train.ipynb").write_text(notebook(OTHER, STEP, STEP))
    assert said("<ipython-input-3>", project) == "cell 4 of train.ipynb (In [3] there)"


def test_a_cell_that_was_edited_is_told_by_its_line_with_doubt(project: Path) -> None:
    (project / "train.ipynb").write_text(notebook(OTHER, STEP + "\nprint(1)\n", first=None))
    assert said(KERNEL, project) == "perhaps cell 3 of train.ipynb: it holds this line"


def test_two_cells_that_hold_the_line_are_none(project: Path) -> None:
    (project / "train.ipynb").write_text(notebook(STEP + "# a\n", STEP + "# b\n"))
    assert said(KERNEL, project).startswith("a cell of a notebook; with its .ipynb")


@pytest.mark.parametrize("content", ["", "{", '{"cells": 3}', '{"cells": [{"cell_type": "code", "source": 1}]}'])
def test_what_is_no_notebook_is_passed_over(content: str, project: Path) -> None:
    (project / "train.ipynb").write_text(content)
    assert said("<ipython-input-3>", project).startswith("the cell that ran as In [3]")
