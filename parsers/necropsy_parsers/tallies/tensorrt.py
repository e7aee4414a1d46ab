"""TensorRT's builder, runtime, parser and tools, in any log.

[01/31/2024-12:00:00] [V] [TRT] --------------- Timing Runner: /conv/Conv + /Relu (CaskConvolution[0x80000009])
[TensorRT] ERROR: Network validation failed.
[E] IRuntime::deserializeCudaEngine: Error Code 1: Serialization (...)

A verbose build writes hundreds of thousands of lines; see `necropsy_parsers.tensorrt_log`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from necropsy_parsers.tallies import Whose

if TYPE_CHECKING:
    from necropsy_parsers.tensorrt_log.ranks import RankedReader

NAME: Final = "tensorrt"
TITLE: Final = "TensorRT"
LITERALS: Final = (
    b"[TRT", b"TensorRT", b"tensorrt", b"TRT:", b"trtexec", b"Error Code ", b"Timing Runner: ", b"engine plan file",
    b"erialized Engine", b"optimization profile", b"parsing node number", b" qps", b"[W] Dynamic dimensions",
    b"UNSUPPORTED_NODE", b"INVALID_NODE", b"(parseGraph)",
)  # fmt: skip
ALSO: Final = (b"[E] ", b"[W] ", b"[I] ", b"[V] ", b"Name: ", b"Layer(", b"ERROR", b"WARNING")
ASKS: Final = True
MAX_BYTES: Final = 0


def _reader(name: str, first_seq: int, whose: Whose) -> RankedReader:
    """Reads what TensorRT says; its patterns are compiled for logs that hold a word of it."""
    from necropsy_parsers.tensorrt_log.ranks import RankedReader

    return RankedReader(name, first_seq, whose)


Tally: Final = _reader
