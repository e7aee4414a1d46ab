"""The programs in `tests/support/trace_cases` still write the traces that are the rules' fixtures."""

from __future__ import annotations

import gzip

import pytest
from tests.support.trace_cases.write import all_cases, files_of

CASES = all_cases()


@pytest.mark.parametrize("case", CASES)
def test_written_as_committed(case: str) -> None:
    for path, trace in files_of(case, CASES[case]()).items():
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        assert text.decode() == trace.text(), f"{path}: python -m tests.support.trace_cases"
