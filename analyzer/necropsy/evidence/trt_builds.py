"""Builds of TensorRT engines, and runs of its tools."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.records import Record
from necropsy_parsers.tensorrt_log.records import TrtBuild

from necropsy.evidence._records import COMMON, RecordTable


class TrtBuilds(RecordTable[TrtBuild]):
    """One row a build, or a run of trtexec, in the order of the log."""

    name = "trt_builds"
    row = TrtBuild
    accepts = (TrtBuild,)
    formats = ("log",)
    supply = "the log of a TensorRT build (trtexec --verbose, or a Logger of severity VERBOSE)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "build": "number of the build in its input, from 0",
        "tool": "TensorRT.trtexec, or empty",
        "release": "TensorRT's version as numbers, empty where nothing tells it",
        "rtx": "it is TensorRT for RTX",
        "command": "the command line",
        "flags": "its options, by name",
        "options": "what trtexec printed of them, by name",
        "types": "precisions that were allowed (fp32, fp16, bf16, int8, fp8, ...), None where unknown",
        "strong": "the network is strongly typed, None where unknown",
        "model": "the ONNX file",
        "opset": "its opset",
        "producer": "who wrote it, with version",
        "device": "the GPU's name",
        "capability": "its compute capability",
        "workspace": "limit of the workspace in bytes, None where none was set",
        "seconds": "time of the build in seconds, None if no end is told",
        "finished": "the log says that the engine was built",
        "outcome": "what the tool said last: passed, failed or empty",
        "verbose": "tactics or layers are told",
        "timed": "runners that were timed, those of reformats included",
        "timed_reformats": "those of reformats",
        "timing": "the log ends while tactics are timed",
        "quantized": "QuantizeLinear nodes were parsed",
        "placeholder_ranges": "tensors to which trtexec gave the range [-4, 4] for want of calibration",
    }

    def covered(self, formats: frozenset[str]) -> bool:
        """Only what TensorRT wrote tells of builds."""
        return bool(self.rows)

    def of(self, record: Record) -> TrtBuild | None:
        """The build that a row of another table belongs to."""
        number = getattr(record, "build", None)
        return next((b for b in self.rows if b.build == number and b.anchor.input == record.anchor.input), None)
