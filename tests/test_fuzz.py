"""Damaged, woven, hostile and huge logs: no exception, anchors that hold, every byte accounted for."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import mutate
from tests.support.cases import FIXTURES
from tests.support.reading import anchor_faults, read, reader_of, report_anchors, report_on
from tests.support.vocabulary import PREFIXES, SAMPLES, TRACE, WORDS
from tests.support.wrappings import WRAPPINGS

from necropsy_parsers.issues import Issues
from necropsy_parsers.text import log
from necropsy_parsers.text.decode import text_chunks
from necropsy_parsers.text.plain import TextRun
from necropsy_parsers.text.scan import Gap, RawLine, Scanner

SMALL: Final = 12_000  # bytes; larger inputs are damaged less often


def text_inputs() -> list[Path]:
    """Every text log among the fixtures, structured ones included."""
    found = [p for p in sorted(FIXTURES.rglob("*")) if p.is_file() and "src" not in p.parts]
    return [p for p in found if p.suffix in (".log", ".txt", ".out", ".err") and p.stat().st_size < 2_000_000]


INPUTS: Final = text_inputs()
# Every fourth of the cases in order of name, so that each rule has some: the kinds of damage matter, not the texts.
by_path = pytest.mark.parametrize("path", INPUTS[::4], ids=lambda p: "/".join(p.parts[-3:-1]))


@cache
def content(path: Path) -> bytes:
    return path.read_bytes()


def check(data: bytes) -> None:
    """Read `data`; what must hold of any reading whatever the content."""
    reading = read(data)
    anchors = [r.anchor for r in reading.records] + [i.first for i in reading.issues if i.first is not None]
    assert list(anchor_faults(anchors, reading.text)) == []


def check_report(data: bytes, folder: Path) -> None:
    """Analyze `data` as a file; the report must stand, and serialise."""
    report = report_on(data, folder)
    text = read(data).text
    assert list(anchor_faults(report_anchors(report), text)) == []
    json.dumps(report.to_json(), allow_nan=True)
    roots = {f.fingerprint for f in report.roots()}
    assert {f.explained_by for f in report.findings if f.explained_by} <= roots


def some(variants: Iterable[bytes], chance: random.Random, most: int) -> list[bytes]:
    found = list(variants)
    return found if len(found) <= most else chance.sample(found, most)


# -- damage -----------------------------------------------------------------------


@by_path
class TestDamage:
    """Each input, damaged in the ways in which logs are."""

    def test_cut_at_every_line(self, path: Path) -> None:
        data = content(path)
        for variant in some(mutate.cuts_at_lines(data), random.Random(1), 160 if len(data) < SMALL else 24):
            check(variant)

    def test_cut_at_random_bytes(self, path: Path) -> None:
        data = content(path)
        for variant in mutate.cuts_anywhere(data, random.Random(2), 25 if len(data) < SMALL else 4):
            check(variant)

    def test_flipped_bytes(self, path: Path) -> None:
        data = content(path)
        for variant in mutate.flipped(data, random.Random(3), 25 if len(data) < SMALL else 4):
            check(variant)

    def test_holes(self, path: Path) -> None:
        data = content(path)
        for variant in mutate.holes(data, random.Random(4), 8 if len(data) < SMALL else 2):
            check(variant)

    def test_lines_lost_and_doubled(self, path: Path) -> None:
        data = content(path)
        for variant in mutate.lines_lost(data, random.Random(5), 15 if len(data) < SMALL else 2):
            check(variant)

    def test_two_ranks_woven_and_torn(self, path: Path) -> None:
        chance = random.Random(6)
        data = content(path)
        other = content(chance.choice([p for p in INPUTS if p.stat().st_size < SMALL]))
        ranked = [b"".join(b"[rank%d]: " % r + x for x in t.splitlines(True)) for r, t in enumerate((data, other))]
        for first, second in ((data, other), ranked):
            check(mutate.woven(first, second, chance))
            check(mutate.torn(first, second, chance))

    def test_reports_stand_on_damaged_inputs(self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        data, chance = content(path), random.Random(7)
        for variants in (
            mutate.cuts_at_lines(data),
            mutate.cuts_anywhere(data, chance, 3),
            mutate.flipped(data, chance, 3),
            mutate.holes(data, chance, 2),
            mutate.lines_lost(data, chance, 3),
        ):
            for variant in some(variants, chance, 3):
                check_report(variant, tmp_path)

    def test_line_ends_make_no_difference(self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        unix = content(path).replace(b"\r\n", b"\n")
        told = [report_on(d, tmp_path).to_json()["findings"] for d in (unix, unix.replace(b"\n", b"\r\n"))]
        assert told[0] == told[1]

    def test_pieces_make_no_difference(self, path: Path) -> None:
        """A pipe delivers a log as it is written: the records must not depend on where it was cut."""
        data = content(path)
        whole = records_of([data])
        chance = random.Random(8)
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(20))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        assert records_of(pieces) == whole
        assert records_of(data.splitlines(keepends=True)) == whole


def records_of(pieces: Iterable[bytes]) -> list[str]:
    """The records that matter, in words: runs of plain text may be cut where chunks are."""
    issues, given = Issues(), list(pieces)
    reader = reader_of(b"".join(given), "run.log", issues)
    found = list(reader(text_chunks(iter(given), "run.log", issues)))
    return [repr(r) for r in found if not isinstance(r, TextRun)]


# -- every byte, once ---------------------------------------------------------------


def assert_covered(items: list[RawLine | Gap], text: bytes) -> None:
    """The items follow each other without hole or overlap; a line feed may stand between two of them."""
    at, lines = 0, 1
    for item in items:
        assert text[at : item.start] in (b"", b"\n")
        lines += text.count(b"\n", at, item.start)
        assert item.number == lines
        if isinstance(item, RawLine):
            assert b"\n" not in text[item.start : item.end]
            assert text.startswith(item.data, item.start)
        at = item.end
        lines += text.count(b"\n", item.start, at)
    assert text[at:] in (b"", b"\n")


class Recording(Scanner):
    """A scanner that remembers what it handed out."""

    handed: Final[list[RawLine | Gap]] = []

    def scan(self, chunks: Iterable[bytes]) -> Iterator[RawLine | Gap]:
        """Hand on, and remember."""
        for item in super().scan(chunks):
            self.handed.append(item)
            yield item


@by_path
def test_the_reader_is_given_every_byte_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "Scanner", Recording)
    for size in (4 << 20, 4096, 100):
        Recording.handed.clear()
        issues = Issues()
        text = b"".join(text_chunks([content(path)], "run.log", issues))
        reader = log.LogReader("run.log", issues)
        list(reader.records(text_chunks([content(path)], "run.log", issues, size)))
        assert_covered(Recording.handed, text)
        assert reader.lines == text.count(b"\n") + (not text.endswith(b"\n") and bool(text))


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.sampled_from([b"loss", b"x" * 90, b"error", b"", b"\r", b"\n", b"\n\n", b"\xff", b"Killed"])),
    st.integers(1, 64),
    st.integers(0, 2**32),
)
def test_the_scanner_covers_any_text(parts: list[bytes], size: int, seed: int) -> None:
    text = b"".join(parts)
    chance = random.Random(seed)
    scanner = Scanner([b"error", b"Killed"], "run.log", Issues(), lambda: chance.random() < 0.5)
    chunks = list(text_chunks([text], "run.log", Issues(), size))
    assert_covered(list(scanner.scan(chunks)), b"".join(chunks))


# -- random text out of telling words -----------------------------------------------------


LINES: Final = st.builds(
    lambda prefix, parts, glue, end: prefix + glue.join(parts) + end,
    st.sampled_from(PREFIXES),
    st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=6), st.integers().map(str)), max_size=5),
    st.sampled_from([" ", "", ": ", "  "]),
    st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", ""]),
)


@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(LINES, max_size=40))
def test_any_text_can_be_read(lines: list[str]) -> None:
    check("".join(lines).encode("utf-8", "replace"))


@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(lines=st.lists(LINES, max_size=40))
def test_any_text_can_be_judged(lines: list[str], tmp_path: Path) -> None:
    check_report("".join(lines).encode("utf-8", "replace"), tmp_path)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=600))
def test_any_bytes_can_be_read(data: bytes) -> None:
    check(data)


NUMBERS: Final = ("9" * 5000, "9" * 400, "9" * 20, "1e999", "-1", "0", "٣", "²", "1.2.3", "1_000", "nan", "")


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{n[:6]}x{len(n)}")
def test_any_number_can_stand_where_a_number_stands(
    number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little_memory: None
) -> None:
    """CPython refuses to convert more than 4300 digits, floats overflow, `\\d` also means digits of other scripts."""
    monkeypatch.chdir(tmp_path)
    digits = re.compile(r"(?<![;\x1b])(?<!\x1b\[)\d+(?:\.\d+)?")
    prefixed = [w.wrap("ready\n").decode("utf-8", "replace") for w in WRAPPINGS]
    for text in [*SAMPLES, TRACE.replace("<n>", "7"), *prefixed]:
        for m in digits.finditer(text):
            check((text[: m.start()] + number + text[m.end() :] + "\n").encode("utf-8", "replace"))
    for text in SAMPLES:
        check_report((digits.sub(number, text) + "\n").encode("utf-8", "replace"), tmp_path)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Four gigabytes of address space: a rank or a size that is believed must not fill the machine."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


# -- size ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["x", "error ", "Traceback (most recent call last): ", "a.", "\r", "loss nan ", "🔥"])
def test_one_line_of_ten_megabytes(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    unit = text.encode()
    last = TRACE.replace("ValueError", "OSError").encode()
    data = TRACE.encode() + unit * (10_000_000 // len(unit)) + b"\n" + last
    check_report(data, tmp_path)
    assert {f.facts.get("exception") for f in report_on(data, tmp_path).findings} >= {"ValueError", "OSError"}


@pytest.mark.parametrize(
    "text",
    [
        "/t/Loss.cu:24: nll: block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n` failed.",
        "/home/trainer/projects/vit/data.py:12: UserWarning: labels overlap",
        "RuntimeError: DataLoader worker (pid 6403) is killed by signal: Killed. ",
        "step 12 loss nan",
        TRACE.rstrip(),
    ],
    ids=["assertion", "warning", "exception", "nan", "traceback"],
)
def test_ten_megabytes_of_one_message(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    unit = text.encode() + b"\n"
    data = unit * (10_000_000 // len(unit))
    report = report_on(data, tmp_path)
    assert len(report.findings) < 20
    assert report.inputs[0].bytes == len(data)
