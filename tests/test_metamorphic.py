"""Logs changed in ways that leave their story as it is: the findings must follow.

Every text among the fixtures and, where they are at hand, the captures of real runs is
changed; the report on the changed log is compared with the report on the log itself. The
sources beside a log stay behind: only they could tell that a line has moved.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.support import metamorphic as change
from tests.support.cases import FIXTURES
from tests.support.reading import anchor_faults, report_anchors, report_on

from necropsy_parsers.issues import Issues
from necropsy_parsers.text.decode import text_chunks

from necropsy.report import Report

SHARED: Final = Path(__file__).resolve().parents[2] / "shared" / "captures"


OURS: Final = [p for p in sorted(FIXTURES.rglob("*.log")) if "src" not in p.parts and p.stat().st_size < 2_000_000]
THEIRS: Final = [p for d in ("failed_jobs", "torch_logs") for p in sorted((SHARED / d).glob("*"))]

fixtures = pytest.mark.parametrize("path", OURS, ids=lambda p: "/".join(p.parts[-3:-1]))
captures = pytest.mark.parametrize("path", THEIRS or [SHARED / "absent"], ids=lambda p: p.name)
Reported = Callable[[str], Report]


def text_of(path: Path) -> str:
    """The text of a log, unpacked, as UTF-8 with plain line ends."""
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    return b"".join(text_chunks([data], path.name, Issues())).decode("utf-8", "surrogateescape")


@pytest.fixture
def reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reported:
    """Reports on a text, far from any source: those of other tests' folders are out of reach, too."""
    place = tmp_path / "a" / "b" / "c" / "d"
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    return lambda text: report_on(text.encode("utf-8", "surrogateescape"), place)


def check_renamed(text: str, reported: Reported) -> None:
    before, after = reported(text), reported(change.files_renamed(text))
    assert change.story(after) == change.story(before, change.renamed_place)
    assert change.anchor_lines(after.findings) == change.anchor_lines(before.findings)


def check_moved(text: str, reported: Reported) -> None:
    before, after = reported(text), reported(change.neutral_top(text) + change.code_moved(text))
    assert change.story(after) == change.story(before, change.moved_place)
    assert change.anchor_lines(after.findings) == change.anchor_lines(before.findings, change.SHIFT)


def check_pushed_down(text: str, reported: Reported) -> None:
    top = change.neutral_top(text)
    before, after = reported(text), reported(top + text)
    assert change.story(after) == change.story(before)
    shift = len(top.encode())
    assert [(a.start, a.end, a.text) for a in report_anchors(after)] == [
        (a.start + shift, a.end + shift, a.text) for a in report_anchors(before)
    ]
    assert list(anchor_faults(report_anchors(after), (top + text).encode("utf-8", "surrogateescape"))) == []


def check_ids(text: str, reported: Reported) -> None:
    assert change.story(reported(change.ids_changed(text))) == change.story(reported(text))


def check_sizes(text: str, reported: Reported) -> None:
    assert change.story(reported(change.sizes_doubled(text))) == change.story(reported(text))


CHECKS: Final = [check_renamed, check_moved, check_pushed_down, check_ids, check_sizes]
by_check = pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))


@by_check
@fixtures
def test_fixture(path: Path, check: Callable[[str, Reported], None], reported: Reported) -> None:
    check(text_of(path), reported)


@by_check
@captures
def test_capture(shared: Path, path: Path, check: Callable[[str, Reported], None], reported: Reported) -> None:
    check(text_of(path), reported)


# -- the changes themselves: a change that changes nothing would prove nothing --------------------


TRACE: Final = (
    '2026-11-29 14:03:12 +00 (pid: 4411)\n  File "/home/trainer/projects/vit/train.py", line 12, in main\n'
    '  File "/opt/conda/lib/python3.12/site-packages/torch/nn/functional.py", line 98, in linear\n'
    "train.py:3: UserWarning: at 0x7f3a00aa10, 1.50 GiB of 65536 bytes\n"
)


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (change.files_renamed, 'File "/homeq/trainerq/projectsq/vitq/zzniart.py", line 12'),
        (change.files_renamed, "site-packages/torch/nn/functional.py"),
        (change.files_renamed, "\nzzniart.py:3: "),
        (change.code_moved, 'train.py", line 19'),
        (change.code_moved, 'functional.py", line 98'),
        (change.code_moved, "\ntrain.py:10: "),
        (change.ids_changed, "2030-11-29 15:03:12 +00 (pid: 14522)"),
        (change.ids_changed, "at 0x814b00bb20,"),
        (change.sizes_doubled, "3.00 GiB of 131072 bytes"),
    ],
)
def test_a_change_changes(made: Callable[[str], str], wanted: str) -> None:
    assert wanted in made(TRACE)
