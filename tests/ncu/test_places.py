"""Where launches stand in a text that bars were drawn over: offsets and line numbers are those of the text."""

from __future__ import annotations

import pytest
from tests.support.reading import anchor_faults, read

from necropsy_parsers.ncu.records import Launch

PAGE = """[4411] python3.12@127.0.0.1
  scale(float *, int) (64, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Duration                         us        12.48
    ----------------------- ----------- ------------
"""


@pytest.mark.parametrize("bar", ["", "0%..\r50%..\r100% done\n", "\r\n", "half\r\r\n"])
def test_a_bar_moves_no_launch(bar: str) -> None:
    got = read(f"step 1\n{bar}{PAGE}")
    (launch,) = got.of(Launch)
    assert list(anchor_faults([launch.anchor], got.text)) == []
    assert launch.anchor.line == 3 + bar.count("\n")


def test_a_page_drawn_behind_a_bar_is_read() -> None:
    """`==PROF== ...100%` and a page that begins on the same line, after the carriage return."""
    first, _, rest = PAGE.partition("\n")
    got = read(f"step 1\n0%..100%\r{first}\n{rest}")
    (launch,) = got.of(Launch)
    assert launch.anchor.line == 3
