"""The heads of TensorRT's log: which logger printed a line, and how bad the message is.

    [01/31/2024-12:00:00] [V] [TRT] Tactic: ...                     trtexec (8.x and later)
    [01/31/2024-12:00:00] [TRT] [W] Missing scale ...               the Python logger; without the time up to 8.1
    [TensorRT] ERROR: Network validation failed.                    the Python logger up to 7.x
    [E] IBuilder::buildSerializedNetwork: Error Code 10: ...        Polygraphy
    ... [W:onnxruntime:Default, tensorrt_execution_provider.h:83 log] [2024-05-17 17:06:02 WARNING] ...
    WARNING: [Torch-TensorRT TorchScript Conversion Context] - ...  Torch-TensorRT, compiled from TorchScript
    WARNING:torch_tensorrt [TensorRT Conversion Context]:...        Torch-TensorRT, compiled by Dynamo
    ERROR: [TRT]: 1: [...]                                          DeepStream
    E0131 12:00:00.000000 1 logging.cc:43] 1: [...]                 Triton
    2021-06-02 10:00:05.123456: E tensorflow/compiler/tf2tensorrt/utils/trt_logger.cc:42] DefaultLogger ...    TF-TRT

Of a line of a known message only the level is asked of whatever stands before its words, so that loggers which nobody
listed here do no harm.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from necropsy_parsers.text.clean import strip_ansi

_WORDS: Final = {
    "verbose": "V", "debug": "V", "graph": "V", "trace": "V", "info": "I", "note": "I", "warning": "W", "warn": "W",
    "error": "E", "internal error": "F", "internal_error": "F", "fatal": "F", "critical": "F", "!": "E", "x": "V",
    "u": "V", "s": "I",
}  # fmt: skip
_LEVEL: Final = re.compile(
    r"\[(?P<letter>[VIWEFXUS!])\]"
    r"|\b(?P<word>INTERNAL[_ ]ERROR|VERBOSE|DEBUG|GRAPH|INFO|WARNING|WARN|ERROR|FATAL|CRITICAL"
    r"|[Ee]rror|[Ww]arning|Info)\b"
    r"|(?:^|\s)(?P<glog>[IWEF])\d{4} \d\d:\d\d:\d\d|: (?P<tf>[IWEF]) tensorflow/"
)
# The heads of loggers that print TensorRT's own messages, with which also unknown errors and warnings are TensorRT's.
_OWN: Final = re.compile(
    r"\[TRT[^\]\n]{0,40}\]:? ?(?:\[[VIWEF]\]:? ?)?"
    r"|\[TensorRT\] (?:VERBOSE|INFO|WARNING|ERROR|INTERNAL[_ ]ERROR): ?"
    r"|\[Torch-TensorRT[^\]\n]{0,60}\] - "
    r"|torch_tensorrt \[TensorRT Conversion Context\]:? ?"
    r"|tensorrt_execution_provider\w*\.\w+:\d+ [^\]\n]{0,80}\] \[[^\]\n]{0,24} +"
    r"(?:VERBOSE|INFO|WARNING|ERROR|\w*_ERROR)\] "
    r"|(?:ERROR|WARN|WARNING|INFO) +TRT: |/trt_logger\.cc:\d+\] \w+ "
)
_TOOL: Final = re.compile(r"(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] )?\[[VIWEFXUS!]\] ?(?:Error\[\d+\]: )?")
# Another message in the same line: written by two threads at once, or without a line end.
_GLUED: Final = re.compile(
    r"(?<=\S)(?=\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[(?:[VIWEF]\]|TRT))|(?<=[^\s\]])(?=\[TRT\] \[[VIWEF]\] )"
)
# What each such line holds, as patterns that begin with a literal: found many times faster.
_DATED: Final = re.compile(rb"\[\d\d/\d\d/\d{4}-(?<=[^ \t]\[\d\d/\d\d/\d{4}-)")
_NAMED: Final = re.compile(rb"\[TRT\] \[(?<=[^ \t\]]\[TRT\] \[)")
_BEGINS: Final = re.compile(
    r"\[\d\d/\d\d/\d{4}-|\[(?:TRT|TensorRT|Torch-TensorRT)|\[[VIWEFXUS!]\] |&&&&|Traceback |[VIWEF]\d{4} \d\d:"
    r"|(?:ERROR|WARNING|INFO|DEBUG|CRITICAL)\b *[:\-\[]|\d{4}-\d\d-\d\d[ T]\d\d:|\[\d{4}-\d\d-\d\d|\[rank\d|!!!"
    r"|\S+: line \d+:"
)


class Head(Struct, frozen=True):
    """What a head tells: the level, the text behind it, and whether one of TensorRT's own loggers printed it."""

    level: str
    text: str
    own: bool


def level_in(head: str) -> str:
    """The level that the last mark of `head` tells, or ""."""
    level = ""
    for m in _LEVEL.finditer(head):
        if m["letter"]:
            level = _WORDS.get(m["letter"].lower(), m["letter"])
        elif m["glog"]:
            level = m["glog"]
        elif m["tf"]:
            level = m["tf"]
        else:
            level = _WORDS[m["word"].lower()]
    return level


def read_head(text: str) -> Head:
    """The head of a line."""
    if (own := _OWN.search(text, 0, 400)) is not None:
        return Head(level_in(text[: own.end()]), text[own.end() :], True)
    if (tool := _TOOL.match(text)) is not None:
        return Head(level_in(tool[0]), text[tool.end() :], False)
    return Head(level_in(text[:60]), text, False)


def begins(text: str) -> bool:
    """Whether a line begins a message of some logger, so that it goes on with nothing."""
    return _BEGINS.match(text) is not None


def segments(line: bytes) -> list[str]:
    """The messages of one line, cleaned: several where two writers' lines ran together."""
    line = line[: 64 * 1024]
    text = strip_ansi(line.decode("utf-8", "replace")).rstrip()
    if not may_be_glued(line):
        return [text]
    return [part for part in _GLUED.split(text) if part.strip()] or [text]


def may_be_glued(line: bytes) -> bool:
    """Whether another message may stand in the same line."""
    return _DATED.search(line, 1) is not None or _NAMED.search(line, 1) is not None
