"""Lines marked as errors count as read by nothing only where no table tells them either."""

from __future__ import annotations

import pytest
from tests.support.reading import read

from necropsy_parsers.issues import ParseIssue

HEAD = "[01/31/2026-12:00:00] [E] "
TOLD = (
    HEAD + "[TRT] ModelImporter.cpp:768: While parsing node number 1 [Mish -> \"b\"]:",
    HEAD + "[TRT] ModelImporter.cpp:769: --- Begin node ---",
    HEAD + "[TRT] ModelImporter.cpp:770: input: \"a\"",
    "op_type: \"Mish\"",
    HEAD + "[TRT] ModelImporter.cpp:771: --- End node ---",
    HEAD + "[TRT] ModelImporter.cpp:774: ERROR: onnx2trt_utils.cpp:5400 In function importFallback:",
    "[8] Assertion failed: creator && \"Plugin not found\"",
    HEAD + "Failed to parse onnx file",
    HEAD + "[TRT] 10: Error Code 10: Internal Error (Could not find any implementation for node /a/Conv.)",
    "&&&& FAILED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=a.onnx",
)  # fmt: skip
OTHER = "[E] the tracker cannot be reached"


def unread(text: str) -> ParseIssue | None:
    return next((i for i in read(text).issues if i.kind == "text/unknown-error"), None)


@pytest.mark.parametrize("prefix", ["", "[rank1]: ", "2: "])
def test_what_tensorrt_says_is_read(prefix: str) -> None:
    assert unread("".join(f"{prefix}{line}\n" for line in TOLD)) is None


@pytest.mark.parametrize("place", [0, 7, 8, 9, 10])
def test_what_another_program_says_is_counted_and_shown(place: int) -> None:
    lines = [*TOLD[:place], OTHER, *TOLD[place:]]
    issue = unread("\n".join(lines) + "\n")
    assert issue is not None
    assert (issue.count, issue.detail) == (1, OTHER)
    assert issue.first is not None
    assert issue.first.line == place + 1


def test_thousands_that_are_read_hide_none_that_are_not() -> None:
    error = "[01/31/2026-12:00:00] [E] [TRT] 1: Error Code 1: Cuda Runtime (an illegal memory access)\n"
    issue = unread(error * 3000 + f"{OTHER}\n" * 2)
    assert issue is not None
    assert issue.count == 2


def test_ranks_that_write_at_once_are_read_too() -> None:
    text = "".join(f"[rank{rank}]: {line}\n" for line in TOLD for rank in range(3))
    assert unread(text) is None
    other = unread(text.replace("[rank1]: " + TOLD[7], "[rank1]: " + OTHER))
    assert other is not None
    assert (other.count, other.detail) == (1, OTHER)
