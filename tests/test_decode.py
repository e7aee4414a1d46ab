"""Raw bytes to UTF-8 chunks: encodings, NULs, CRLF, line ends, and independence of how the input was cut."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from necropsy_parsers.issues import Issues
from necropsy_parsers.text import decode, utf16
from necropsy_parsers.text.decode import guess_encoding, text_chunks

LOG = "Traceback (most recent call last):\n  File “träin.py”, line 3, in <module>\nRuntimeError: ✗ │ 失败 😀\n"
ASCII = "step 12 loss=0.123 lr=1e-4 tokens/s=48123\nstep 13 loss=0.120 lr=1e-4 tokens/s=48100\n"


def cut(data: bytes, places: Sequence[int]) -> Iterator[bytes]:
    ends = [*sorted({min(p, len(data)) for p in places}), len(data)]
    start = 0
    for end in ends:
        yield data[start:end]
        start = end


def decoded(data: bytes, places: Sequence[int] = (), size: int = 4 << 20) -> tuple[bytes, int]:
    issues = Issues()
    text = b"".join(text_chunks(cut(data, places), "run.log", issues, size))
    rows = issues.rows()
    assert {row.kind for row in rows} <= {"text/nul", "text/nul-in-line"}
    assert all((row.input, row.unit) == ("run.log", "bytes") for row in rows)
    return text, sum(row.count for row in rows)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings_with_a_mark(encoding: str) -> None:
    assert decoded(LOG.encode(encoding)) == (LOG.encode(), 0)


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("utf-32-le", codecs.BOM_UTF32_LE),
        ("utf-32-be", codecs.BOM_UTF32_BE),
    ],
)
def test_both_byte_orders(encoding: str, mark: bytes) -> None:
    data = mark + LOG.replace("\n", "\r\n").encode(encoding)
    assert guess_encoding(data) == (encoding, len(mark))
    assert decoded(data) == (LOG.encode(), 0)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark(encoding: str) -> None:
    data = (LOG * 50).encode(encoding)
    assert guess_encoding(data) == (encoding, 0)
    assert decoded(data) == ((LOG * 50).encode(), 0)


def test_utf16_that_starts_with_han_characters() -> None:
    text = "错误: out of memory on device 0, see the log of the scheduler\n" * 3
    assert decoded(text.encode("utf-16-le")) == (text.encode(), 0)


def test_an_utf16_mark_before_nuls_is_not_utf32() -> None:
    data = codecs.BOM_UTF16_LE + bytes(8) + ASCII.encode("utf-16-le")
    assert decoded(data) == (ASCII.encode(), 8)


@pytest.mark.parametrize("data", [b"", b"\n", b"x", b"\r", b"\xef\xbb", b"\xff\xfe", b"\xef\xbb\xbf", b"\0", b"a\0"])
def test_very_short_inputs(data: bytes) -> None:
    text, nuls = decoded(data)
    marks = {b"\xff\xfe": 2, b"\xef\xbb\xbf": 3}
    assert len(text) + nuls + marks.get(data, 0) == len(data)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("first", [ASCII, LOG, "short\n", ASCII * 300])
def test_utf16_appended_to_utf8(first: str, newline: str) -> None:
    """What `>>` of Windows PowerShell 5 does to a file that was begun by another program."""
    data = first.encode() + (LOG * 3).replace("\n", newline).encode("utf-16-le")
    assert decoded(data) == ((first + LOG * 3).encode(), 0)


def test_the_other_byte_order_appended_to_whole_lines() -> None:
    assert decoded(ASCII.encode() + LOG.encode("utf-16-be")) == ((ASCII + LOG).encode(), 0)


def test_utf16_with_a_mark_after_utf8() -> None:
    """`cat a.log b.log` of two such files."""
    data = ASCII.encode() + codecs.BOM_UTF16_LE + LOG.encode("utf-16-le")
    assert decoded(data) == ((ASCII + LOG).encode(), 0)


def test_a_mark_inside_utf16() -> None:
    assert decoded(LOG.encode("utf-16") + LOG.encode("utf-16")) == ((LOG + LOG).encode(), 0)


@pytest.mark.parametrize("middle", [ASCII * 2, "2024-05-01 10:00:01,123 ERROR worker 3 died with exit code 1\n" * 3])
def test_utf8_between_utf16(middle: str) -> None:
    data = LOG.encode("utf-16") + middle.encode() + LOG.encode("utf-16-le")
    assert decoded(data) == ((LOG + middle + LOG).encode(), 0)


@pytest.mark.parametrize("last", ["done\n", "Killed\n", ASCII])
def test_utf8_at_the_end_of_utf16(last: str) -> None:
    assert decoded(LOG.encode("utf-16") + last.encode()) == ((LOG + last).encode(), 0)


def test_a_lost_byte_in_utf16_costs_one_character() -> None:
    data = ASCII.encode("utf-16-le") + ASCII.encode("utf-16-le")[1:] + ASCII.encode("utf-16-le")
    text, _ = decoded(data)
    assert text.startswith(ASCII.encode())
    assert text.count(b"tep 13 loss=0.120") == 3


@pytest.mark.parametrize(
    "line",
    [
        "═" * 200 + "\n",
        "─" * 200 + "\n",
        "┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼┼ loss\n",
        "训练过程中发生了错误请检查日志文件并且重新启动任务\n" * 4,
        "モデルの読み込みに失敗しましたのでさいきどうしてください\n" * 4,
        "ошибка: недостаточно памяти на устройстве\n" * 4,
    ],
)
def test_utf16_that_is_not_ascii_is_not_taken_for_8_bit_text(line: str) -> None:
    data = ("start of the run\n" + line + "end\n").encode("utf-16")
    assert decoded(data) == (("start of the run\n" + line + "end\n").encode(), 0)


def test_damaged_utf16_becomes_replacement_characters() -> None:
    lone = b"\x00\xd8"  # half of a surrogate pair
    assert decoded(codecs.BOM_UTF16_LE + "ab".encode("utf-16-le") + lone + "c\n".encode("utf-16-le")) == (
        "ab\ufffdc\n".encode(),
        0,
    )
    assert decoded(codecs.BOM_UTF16_LE + "ab".encode("utf-16-le") + b"\xe4") == ("ab\ufffd".encode(), 0)


@pytest.mark.parametrize("hole", [1, 2, 7, 63, 64, 65, 5000, 1 << 20])
def test_holes_are_dropped_and_counted(hole: int) -> None:
    data = ASCII.encode() + bytes(hole) + LOG.encode() + bytes(hole)
    assert decoded(data) == ((ASCII + LOG).encode(), 2 * hole)


def test_a_log_that_begins_with_a_hole() -> None:
    """A log truncated while its writer kept its position (`copytruncate`)."""
    assert decoded(bytes(1 << 16) + LOG.encode()) == (LOG.encode(), 1 << 16)


def test_a_hole_before_appended_utf16() -> None:
    assert decoded(ASCII.encode() + bytes(100) + ASCII.encode("utf-16-le")) == ((ASCII * 2).encode(), 100)


def test_invalid_utf8_passes_unchanged() -> None:
    data = b"caf\xe9 \xff\xff \xc3\x28 \xfe\n"
    assert decoded(data) == (data, 0)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\r\n", b"a\nb\n"),
        (b"10%\r20%\r\n", b"10%\r20%\n"),
        (b"\r\r\n", b"\r\n"),
        (b"a\r", b"a\r"),
        (b"\n\r\n\r", b"\n\n\r"),
    ],
)
def test_crlf_and_lone_carriage_returns(data: bytes, text: bytes) -> None:
    for place in range(len(data) + 1):
        assert decoded(data, [place]) == (text, 0)
    assert decoded(data, range(len(data))) == (text, 0)


PIECES = st.sampled_from(
    [
        *(bytes([b]) for b in (0, 0x09, 0x0A, 0x0D, 0x41, 0x61, 0x80, 0xC3, 0xD8, 0xDC, 0xFE, 0xFF)),
        bytes(7),
        bytes(70),
        ASCII.encode(),
        LOG.encode(),
        "short".encode("utf-16-le"),
        "│ ok\r\n".encode("utf-16-le"),
        "│ ok\r\n".encode("utf-16-be"),
        LOG.encode("utf-16-le"),
        LOG.encode("utf-16-be"),
        LOG.encode("utf-16"),
        "😀".encode("utf-16-le"),
        "═".encode("utf-16-le") * 30,
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=12).map(b"".join), st.lists(st.integers(0, 2000), max_size=12), st.integers(1, 64))
@example(b"\0" * 6 + b"a\0b\0c\0d\0", [6, 7], 1)
@example(LOG.encode("utf-16-le") + ASCII.encode(), range(300), 3)
def test_chunking_never_changes_the_text(data: bytes, places: list[int], window: int) -> None:
    expected = decoded(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utf16, "_WINDOW", window)
        assert decoded(data, places) == expected
        # The head is looked at as a whole; let it end early so that cuts fall behind it too.
        patch.setattr(decode, "_HEAD", 8)
        assert decoded(data, places) == decoded(data)
        assert decoded(data, range(len(data))) == decoded(data)


@given(st.text(st.characters(exclude_characters="\0\r\ufeff", exclude_categories=["Cs"])), st.integers(1, 9))
def test_utf16_round_trip(text: str, step: int) -> None:
    """With a mark and ASCII lines around it, any text comes back."""
    whole = ASCII + text + "\n" + ASCII
    data = whole.encode("utf-16")
    assert decoded(data, range(0, len(data), step)) == (whole.encode(), 0)


@given(
    st.text(st.sampled_from("ab\r\n\0é✗😀")).map(str.encode),
    st.sampled_from([b"", codecs.BOM_UTF8]),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_every_byte_is_delivered_or_accounted_for(body: bytes, mark: bytes, places: list[int]) -> None:
    if re.search(rb"(?s)(?:[^\0]\0){3}|(?:\0[^\0]){3}", body):
        return  # the pattern of UTF-16, which is converted instead
    text, nuls = decoded(mark + body, places)
    returns = body.replace(b"\0", b"").count(b"\r\n")
    assert nuls == body.count(0)
    assert len(mark + body) == len(text) + len(mark) + nuls + returns


def test_chunks_end_at_line_ends() -> None:
    data = b"".join(b"line %d of the log\n" % i for i in range(500)) + b"unfinished"
    chunks = list(text_chunks(cut(data, range(0, len(data), 333)), "run.log", Issues(), 1000))
    assert b"".join(chunks) == data
    assert all(chunk.endswith(b"\n") for chunk in chunks[:-1])
    assert chunks[-1] == b"unfinished"
    assert max(map(len, chunks)) < 2000


def test_a_line_longer_than_the_size_is_cut() -> None:
    data = b"short\n" + b"x" * 10_000 + b"\nshort\n"
    chunks = list(text_chunks(iter([data]), "run.log", Issues(), 1000))
    assert b"".join(chunks) == data
    assert chunks[0] == b"short\n"
    assert chunks[-1].endswith(b"short\n")
    assert max(map(len, chunks)) < 2000


def test_plain_text_costs_one_copy() -> None:
    """The common case never reaches the converter's searches: a chunk of whole lines passes through it as it is."""
    chunk = ASCII.encode() * 100
    assert next(utf16.Converter().feed(chunk)) is chunk


@pytest.mark.parametrize(
    ("nuls", "kind"), [(b"config: \x80\x02X\x03\0\0\0lrq\0(", "text/nul-in-line"), (4096 * b"\0", "text/nul")]
)
def test_single_nuls_are_no_hole(nuls: bytes, kind: str) -> None:
    issues = Issues()
    text = b"".join(text_chunks([100 * ASCII.encode() + nuls + b"\n"], "run.log", issues))
    assert text == 100 * ASCII.encode() + nuls.replace(b"\0", b"") + b"\n"
    assert [row.kind for row in issues.rows()] == [kind]
