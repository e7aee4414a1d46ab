"""The messages of TensorRT that mean something to somebody, by their own words.

A kind is found by one of its literals and read by its pattern; the head before it may be any logger's. Wordings follow
NVIDIA's binaries and the open-source parser and trtexec of 7.x to 11.x; versions are named where they differ.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from msgspec import Struct


class Kind(Struct, frozen=True):
    """A kind of message.

    `subject` is the group of its pattern that names a layer, tensor or operator, `more` how many lines without a head
    may belong to it, `level` its level where no head tells.
    """

    name: str
    literals: tuple[str, ...]
    pattern: str
    subject: str = ""
    more: int = 0
    level: str = ""

    @property
    def regex(self) -> re.Pattern[str]:
        """Compiled on first use."""
        return _compiled(self.pattern)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _kind(
    name: str, literal: str | tuple[str, ...], pattern: str = "", subject: str = "", more: int = 0, level: str = ""
) -> Kind:
    literals = (literal,) if isinstance(literal, str) else literal
    return Kind(name, literals, pattern or "|".join(map(re.escape, literals)), subject, more, level)


_PARSER: Final = (
    _kind(
        "model-file",
        ("Input file cannot be found", "Could not open file", "Failed to open file", "Could not find ONNX"),
        r"Input file cannot be found, or is not a regular file: (?P<missing>\S+)"
        r"|(?:Could not open|Failed to open(?: the)?) (?:external )?file:? ?(?P<file>\S*)", "file", level="E",
    ),
    _kind(
        "node-error", "In node ",
        r"In node (?P<number>-?\d{1,9})(?: with name: (?P<name>.*?) and operator: (?P<op>[\w.:]+))?"
        r" \((?P<function>\w+)\): (?P<status>[A-Z_]+): (?P<assertion>.*)", level="E",
    ),
    _kind(
        "no-importer", ("No importer registered for op: ", "No checker registered for op: "),
        r"No (?:importer|checker) registered for op: (?P<op>[\w:]+(?:\.[\w:]+)*)", "op",
    ),
    _kind(
        "plugin-missing",
        ("could not find plugin", "could not find Plugin", "Cannot find plugin", "Could not find plugin"),
        r"[Cc](?:ould not|annot) find [Pp]lugin:? (?P<plugin>[\w.:]+),? version:? ?(?P<version>\w*)",
        "plugin", level="E",
    ),
    _kind("int64-cast", "has been generated with INT64 weights"),
    _kind("clamped", "outside the range of INT32 was clamped"),
    _kind(
        "shape-tensor",
        ("shape tensor must have", "used as a shape tensor", "as shape tensor", "used to compute a shape tensor"),
        r"(?P<tensor>[^\s(][^\n]*?): (?:[\w ]{0,40} )?"
        r"(?:shape tensor must have (?P<want>[\w ]+)|[^\n]*as (?:a )?shape tensor"
        r"|[^\n]*cannot be used to compute a shape tensor)",
        "tensor", level="E",
    ),
    _kind("network-invalid", ("Network validation failed", "Network must have at least one output"), level="E"),
    _kind("no-profile", "no optimization profile has been defined", level="E"),
    _kind(
        "profile-incomplete",
        ("missing dimensions in profile", "does not match network definition", "Invalid optimization profiles",
         "Dimension mismatch for tensor", "has static dimensions that don't", "violate shape constraints"),
        r"Dimension mismatch for tensor (?P<a>\S+) and (?P<at>profile \d+[^\n]*)"
        r"|Input tensor (?P<b>\S+) (?P<static>has static dimensions that don't[^\n]*)"
        r"|(?P<shapes>k(?:MIN|OPT|MAX) values for profile \d+ violate shape constraints[^\n]*)"
        r"|(?P<tensor>[^\s(][^\s:]*):? (?:dynamic input )?(?:is )?(?P<what>missing dimensions in profile \d+"
        r"|for dimension number \d+ in profile \d+ does not match network definition[^\n]*)"
        r"|Invalid optimization profiles[^\n]*", "tensor", level="E",
    ),
    _kind(
        "mixed-types", "must have same input types",
        r"(?P<layer>[^\s(][^\n]*?): (?P<operation>\w+ \w+|\w+) must have same input types\. But they are of types "
        r"(?P<first>\w+) and (?P<second>\w+)", "layer", level="E",
    ),
    _kind(
        "hardware", ("is not supported by this TensorRT release", "require hardware with", "does not support this GPU"),
        r"Target GPU (?P<gpu>SM ?\d+) is not supported by this TensorRT release"
        r"|(?P<what>[\w /]+?) require hardware with (?P<need>[\w ]+?) support|does not support this GPU", level="E",
    ),
    _kind(
        "shape-overridden", "Dynamic dimensions required for input",
        r"Dynamic dimensions required for input: (?P<tensor>.+?), but no shapes were provided\."
        r" Automatically overriding shape to: (?P<shape>\S+)", "tensor", level="W",
    ),
)  # fmt: skip
_BUILDER: Final = (
    _kind(
        "no-implementation", "Could not find any implementation for node ",
        r"Could not find any implementation for node (?P<layer>.+?)(?: due to (?P<why>insufficient [\w ]+))?\.?"
        r"(?: See verbose log[^\n]*|\)[^)\n]*| Try increasing[^\n]*)?\s*(?:\n|$)", "layer", level="E",
    ),
    _kind(
        "tactic-memory", ("due to insufficient memory on requested", "due to insuficient memory on requested"),
        r"Skipping tactic (?P<tactic>\S+) due to insuff?icient memory on requested size of (?P<size>\d{1,18})\b",
        more=1, level="W",
    ),
    _kind(
        "tactic-device", "Tactic Device request:",
        r"Tactic Device request: (?P<size>\d{1,18}) ?(?P<unit>[KMG]i?B|bytes)? "
        r"Available: (?P<free>\d{1,18}) ?(?P<free_unit>[KMG]i?B)?",
        level="W",
    ),
    _kind(
        "tactic-failed", ("due to exception", "due to kernel timing error", "due to oom error"),
        r"Skipping tactic ?(?P<tactic>\S+) due to (?P<why>exception [\s\S]*|[\w ]+ error[\s\S]*)", "tactic", more=8,
        level="W",
    ),
    _kind("workspace-short", "do not have sufficient workspace memory to run", level="I"),
    _kind(
        "workspace-more", "enables more tactics for profiling",
        r"Setting workspace to (?P<bytes>\d{1,18}) ?enables more tactics",
    ),
    _kind(
        "scratch-short", "skipped. Scratch requested:",
        r"Tactic: (?P<tactic>\S+) skipped\. Scratch requested: (?P<bytes>\d{1,18}), available: (?P<free>\d{1,18})\b",
    ),
    _kind(
        "out-of-memory", ("OutOfMemory", "(out of memory)", "could not be allocated"),
        r"(?:Requested amount of GPU memory \((?P<bytes>\d{1,18}) bytes\) )?could not be allocated"
        r"|OutOfMemory|Cuda [^\n(]*\(out of memory\)", level="E",
    ),
    _kind(
        "cuda-error", ("Cuda Runtime (", "Cuda Driver (", "Cuda failure:"),
        r"Cuda (?:Runtime|Driver) \((?P<what>[^()\n]+)|Cuda failure: (?P<failure>[^\n]+)", level="E",
    ),
    _kind("engine-null", ("Assertion enginePtr != nullptr", "Assertion engine != nullptr"), level="E"),
    _kind(
        "timing-cache",
        ("invalid timing cache", "timing cache will not be used", "Failed to deserialize timing cache",
         "timing cache is not compatible", "timing cache entry"), level="W",
    ),
    _kind(
        "conv-strong", "No low-precision conv kernel available for this strongly-typed",
        r"Failing node: (?P<layer>.+?)\.?\)?\s*$|No low-precision conv kernel available", "layer", level="E",
    ),
)  # fmt: skip
_PRECISION: Final = (
    _kind(
        "missing-scale", ("Missing scale and zero-point for tensor ", "Missing dynamic range for tensor "),
        r"Missing (?:scale and zero-point|dynamic range) for tensor (?P<tensor>.+?), expect fall ?back",
        "tensor", level="W",
    ),
    _kind(
        "int8-rejected", "due to missing int8 scales",
        r"Rejecting (?:some )?int8 implementations? of layer (?P<layer>.+?) due to missing int8 scales(?P<why>[^\n]*)",
        "layer", level="V",
    ),
    _kind("calibration-failed", "Calibration failure occurred", level="E"),
    _kind(
        "strong-flag", ("!config.getFlag(BuilderFlag::k", "cannot be called for a strongly typed network"),
        r"condition: !config\.getFlag\(BuilderFlag::k(?P<flag>\w+)\)"
        r"|(?P<call>[\w:]+) cannot be called for a strongly typed network", level="E",
    ),
    _kind("no-calibrator", "Calibrator is not being used", level="W"),
    _kind("calibrator-unused", "Calibrator won't be used in explicit", level="W"),
    _kind(
        "not-obeyed", "obeys the requested constraints",
        r"No implementation of layer (?P<layer>.+?) obeys the requested constraints", "layer", level="W",
    ),
    _kind("not-free", "obeys reformatting-free rules"),
    _kind(
        "weak-typing",
        ("Superseded by strong", "weak typing", "Weak typing", "weakly typed", "Weakly typed", "weakly-typed",
         "is deprecated", "no longer supported", "does not expose the FP16"),
        r"Superseded by strong(?:ly)?[ -]typ\w+|[Ww]eak(?:ly)?[ -]typ(?:ing|ed)[^\n]{0,80}(?:deprecat|remov|no longer)"
        r"|(?P<option>--(?:fp16|int8|bf16|fp8|best|calib|precisionConstraints|layerPrecisions|layerOutputTypes)\b)"
        r"[^\n]{0,60}(?:deprecat|remov|no longer)|does not expose the (?P<flag>FP16|INT8|BF16) builder flag",
        "option", level="W",
    ),
    _kind("unknown-option", "Unknown option: ", r"Unknown option: (?P<option>--\S+)", "option", level="E"),
    _kind(
        "preamble",
        ("TensorRT encountered issues when converting weights",
         "If this is not the desired behavior, please modify the weights",
         "Check verbose logs for the list of affected weights"),
    ),
    _kind(
        "weights-converted", ("weights are affected by this issue", "outside of fp16 range"),
        r"- (?P<number>\d{1,9}) weights are affected by this issue: (?P<what>[^\n]+)"
        r"|(?P<old>[Ww]eights (?:are )?outside of fp16 range)", level="W",  # up to 7.x, an error
    ),
    _kind("affected-weights", "List of affected weights: ", r"List of affected weights: (?P<weights>[^\n]*)"),
    _kind(
        "layernorm-half", ("unning layernorm after self-attention", "Detected layernorm nodes in FP16"),
        r"Running layernorm after self-attention|Detected layernorm nodes in FP16(?:: (?P<layer>[^\n]+))?", "layer",
        level="W",
    ),
)  # fmt: skip
_RUNTIME: Final = (
    _kind(
        "plan-tag", "Serialized Engine Version:",
        r"Current Version: (?P<runtime>\d{1,9}), Serialized Engine Version: (?P<plan>\d{1,9})\b", level="E",
    ),
    _kind(
        "plan-library", "expecting library version",
        r"expecting library version (?P<runtime>[\d.]{1,40}) got (?P<plan>[\d.]{1,40})", level="E",
    ),
    _kind(
        "plan-device", "on an incompatible device",
        r"incompatible device, expecting compute (?P<runtime>[\d.]+) got compute (?P<plan>[\d.]+)", level="E",
    ),
    _kind("plan-magic", ("MAGIC_TAG failed", "Magic tag does not match"), level="E"),
    _kind("plan-newer", "old deserialization call on a newer plan file", level="E"),
    _kind("plan-model", "Using an engine plan file across different models of devices", level="W"),
    _kind(
        "load-failed",
        ("Engine deserialization failed", "Assertion engine->deserialize", "Could not deserialize engine",
         "could not deserialize engine", "Failed to deserialize engine"), level="E",
    ),
    _kind(
        "input-shape",
        ("Static dimension mismatch", "does not satisfy any optimization profile", "exceed min ~ max range",
         "Supplied binding dimension"), level="E",
    ),
    _kind(
        "linked-against", "was linked against",
        r"TensorRT was linked against (?P<library>\w+) (?P<want>[\d.]+) but loaded \w+ (?P<got>[\d.]+)",
        "library", level="W",
    ),
    _kind("enqueue-bound", "Throughput may be bound by Enqueue Time", level="W"),
    _kind("transfer-bound", "Throughput may be bound by host-to-device transfers", level="W"),
    _kind("unstable-compute", "GPU compute time is unstable", level="W"),
    _kind(
        "tool-failed",
        ("Failed to parse onnx file", "Parsing model failed", "Engine creation failed", "Engine set up failed",
         "Engine could not be created from network", "Building engine failed", "Failed to create engine from model",
         "Network And Config setup failed", "Inference set up failed", "Got invalid engine",
         "Build serialized network failed",
         "Failed building engine", "Failed to build engine", "Could not build engine",
         "Failed to create TensorRT engine"),
        level="E",
    ),
)  # fmt: skip

KINDS: Final = (*_PARSER, *_BUILDER, *_PRECISION, *_RUNTIME)

# Errors and warnings of TensorRT's own loggers that are none of these; `Error Code` stands in all errors since 8.0.
UNKNOWN: Final = (
    "[E] [TRT]", "[TRT] [E]", "[F] [TRT]", "[TRT] [F]", "[W] [TRT]", "[TRT] [W]", "[TensorRT] ERROR",
    "[TensorRT] WARNING",
    "[TensorRT] INTERNAL", "Error Code ", "Error Code: ", "ERROR: [T", "WARNING: [T", "[Error][TRT]", "[Warning][TRT]",
    "ERROR] ", "WARNING] ", "/trt_logger.cc:",
    "torch_tensorrt [TensorRT Conversion Context]", "[E] Error[", "ERROR TRT: ",
)  # fmt: skip


def kind_in(text: str) -> tuple[Kind, re.Match[str]] | None:
    """The kind of a message, and what its pattern found."""
    for kind in KINDS:
        if any(literal in text for literal in kind.literals) and (m := kind.regex.search(text)) is not None:
            return kind, m
    return None
