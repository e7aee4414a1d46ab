"""Which local file a path from another machine means."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy_lsp.mapping import bases_of, common_suffix, is_meant


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("/home/trainer/projects/vision/train.py", "/src/vision/train.py", 2),
        ("C:\\jobs\\vision\\train.py", "/src/vision/train.py", 2),
        ("./train.py", "/src/vision/train.py", 1),
        ("train.py", "/src/pretrain.py", 0),
        ("/a/vision/eval.py", "/a/vision/train.py", 0),
        ("<frozen runpy>", "/src/train.py", 0),
        ("", "/src/train.py", 0),
        ("/job/../vision/train.py", "/src/vision/train.py", 0),  # climbs: names no place
    ],
)
def test_common_suffix(first: str, second: str, shared: int) -> None:
    assert common_suffix(first, second) == shared


@pytest.fixture
def twins(tmp_path: Path) -> Path:
    for name in ("src/a/train.py", "src/b/train.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize("reported", ["/build/b/train.py", "/home/trainer/src/b/train.py", "D:\\x\\b\\train.py"])
def test_the_longer_suffix_wins(twins: Path, reported: str) -> None:
    a, b = twins / "src/a/train.py", twins / "src/b/train.py"
    assert not is_meant(reported, a, bases_of(a, [twins]))
    assert is_meant(reported, b, bases_of(b, [twins]))


def test_an_unknown_folder_leaves_the_file_name(twins: Path) -> None:
    a = twins / "src/a/train.py"
    assert is_meant("/job/c/train.py", a, bases_of(a, [twins]))
    assert not is_meant("/job/c/eval.py", a, bases_of(a, [twins]))


@pytest.mark.parametrize("folder", ["x" * 5000, "nul\0", "\udc80"])
def test_a_folder_that_cannot_exist_is_no_error(twins: Path, folder: str) -> None:
    a = twins / "src/a/train.py"
    assert is_meant(f"/job/{folder}/train.py", a, bases_of(a, [twins]))


def test_bases_stay_inside_the_workspace(twins: Path) -> None:
    a = twins / "src/a/train.py"
    assert bases_of(a, [twins]) == [twins, twins / "src/a", twins / "src"]
    assert bases_of(a, [twins / "elsewhere"]) == [twins / "elsewhere"]
    assert bases_of(a, []) == []
