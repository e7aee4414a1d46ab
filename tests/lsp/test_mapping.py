"""Which local file a path from another machine means."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy.provenance.paths import candidates, common_suffix, is_meant, the_one
from necropsy_lsp.mapping import bases_of


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


class TestSeveralFilesThatFit:
    """What was quoted decides; without it nobody can tell."""

    @pytest.fixture
    def fitting(self, twins: Path) -> list[Path]:
        (twins / "src/a/train.py").write_text("import torch\nloss = a.mean()\n")
        (twins / "src/b/train.py").write_text("import torch\nloss = b.mean()\n")
        return candidates("/job/c/train.py", {}, [twins / "src/b", twins / "src/a", twins], [twins])

    def test_all_are_found_in_the_order_of_the_folders(self, fitting: list[Path]) -> None:
        assert [p.parent.name for p in fitting] == ["b", "a"]

    @pytest.mark.parametrize(
        ("line", "text", "meant"),
        [(2, "loss = a.mean()", "a"), (2, "  loss = b.mean()  ", "b"), (1, "import torch", None), (2, "x = 1", None),
         (3, "loss = a.mean()", None), (None, "loss = a.mean()", None), (2, "", None)],
    )  # fmt: skip
    def test_the_quote_decides(self, fitting: list[Path], line: int | None, text: str, meant: str | None) -> None:
        found = the_one(fitting, line, text)
        assert (found.parent.name if found is not None else None) == meant

    def test_a_longer_suffix_or_a_setting_leaves_one(self, twins: Path) -> None:
        assert candidates("/job/b/train.py", {}, [twins / "src", twins / "src/a"], []) == [twins / "src/b/train.py"]
        found = candidates("/job/c/train.py", {"/job/c": "src/a"}, [twins / "src/b"], [twins])
        assert found == [twins / "src/a/train.py"]
        assert the_one(found, None, "") == found[0]
