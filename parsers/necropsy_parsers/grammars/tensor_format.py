"""Formats of tensors as TensorRT prints them, to a type, a layout and strides.

    Half(64,1:8,448,64)                                             fp16, HWC8: builder logs
    Float((* 256 time),256,1)                                       fp32, CHW, with dynamic extents
    Row major linear FP32                                           fp32, CHW: engine inspector 8.x to 10.x
    Channel major FP16 format where channel % 8 == 0                fp16, HWC8
    Thirty-two wide channel vectorized row major Int8 format        int8, CHW32
    Eight channel BF16 format (kHWC8) where C is padded to a multiple of 8      TensorRT 10.x and 11.x
    (Linear) Row major linear format                                layout only, the type beside it: 11.x, RTX

`a:b` in strides is the stride of an axis that is held in vectors of b elements. Layouts are named as
`nvinfer1::TensorFormat` names them, without the `k`. What is not understood keeps its text and the type that is in it.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from necropsy_parsers.numbers import natural

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

MAX_LENGTH: Final = 1_000  # strides of dynamic shapes are expressions; longer ones are kept as text
GRAMMAR: Final = r"""
start: TYPE "(" [stride ("," stride)*] ")"                      -> strided
    | (wide | padded | lastly | planar | linear) rest*   -> described
stride: extent [":" INT]
extent: INT | SYMBOL | "(" operator extent+ ")"
operator: OPERATOR
wide: WORD ("wide"i "channel"i "vectorized"i) ("row"i "major"i)? TYPE? "format"i?
padded: WORD "channel"i TYPE? "format"i?
lastly: "non-vectorized"i ("channel-last"i) TYPE? "format"i?
planar: "channel"i "major"i TYPE? "format"i?
linear: "row"i "major"i "linear"i? TYPE? "format"i?
rest: "(" ENUM ")"                                              -> enum
    | "where"i CONDITION                                        -> condition
    | ("with"i | "and"i "has"i) INT "spatial"i "dimensions"i    -> spatial

TYPE.3: /(?:float|half|bfloat16|uint8|int(?:8|32|64|4)|bool|fp(?:32|16|8|4)|bf16|fp8e4m3|fp4e2m1|e8m0|complex64)\b/i
WORD.2: /(?:two|four|eight|sixteen|thirty-two|sixty-four|\d+)\b/i
ENUM: /k[A-Z0-9_]+/
CONDITION: "C is padded to a multiple of " INT
    | /(channel|column stride) (%|==) \d+( == \d+)?( and column stride % \d+ == \d+)?/
SYMBOL.-1: /[^\s(),:]+/
OPERATOR: /[^\s(),:]+(?= )/
INT.1: /-?\d+/
%ignore /\s+/
"""
_TYPES: Final = {
    "float": "fp32", "fp32": "fp32", "half": "fp16", "fp16": "fp16", "bfloat16": "bf16", "bf16": "bf16",
    "int8": "int8", "int32": "int32", "int64": "int64", "int4": "int4", "uint8": "uint8", "bool": "bool",
    "fp8": "fp8", "fp8e4m3": "fp8", "fp4": "fp4", "fp4e2m1": "fp4", "e8m0": "e8m0", "complex64": "complex64",
}  # fmt: skip
_WORDS: Final = {"two": 2, "four": 4, "eight": 8, "sixteen": 16, "thirty-two": 32, "sixty-four": 64}
_TYPE: Final = re.compile(
    r"\b(float|half|bfloat16|uint8|int8|int32|int64|int4|bool|fp32|fp16|fp8e4m3|fp8|fp4e2m1|fp4|bf16|complex64)\b", re.I
)
_DYNAMIC: Final = re.compile(r"(?:N/A|not available) due to dynamic shapes", re.I)
_PLAIN: Final = re.compile(r"(?P<type>[A-Za-z][A-Za-z0-9]*)\((?P<strides>[\d,:]*)\)")
# The descriptions that most layers have; to load the grammar takes longer than to read a log of some megabytes.
_COMMON: Final = re.compile(
    r"(?:(?P<linear>row major(?: linear)?)|(?P<planar>channel major)|(?P<word>[a-z]+(?:-[a-z]+)?) wide channel"
    r" vectorized row major)(?: (?P<type>float|half|int(?:8|32|64)|fp(?:32|16|8)|bf16|bool))?(?: format)?"
    r"(?P<where> where channel % (?P<multiple>[1-9]\d{0,2}) == 0)?",
    re.I,
)
# What the grammar's sentences begin with; of `Transposed format` it makes nothing.
_SENTENCE: Final = re.compile(
    r"[a-z]\w*\s*\(|(?:two|four|eight|sixteen|thirty-two|sixty-four|\d+)\b|non-vectorized|channel|row", re.I
)
_KIND: Final = re.compile(r"\((?P<kind>[A-Za-z][\w/]*)\) ")  # what 10.x and later put before the words
_KINDS: Final = {"Linear": "CHW", "NHWC": "HWC", "NDHWC": "DHWC", "Transposed": "transposed", "Arbitrary": "strided"}
_DLA: Final = re.compile(r"\bDLA\b|column stride")


class TensorFormat(Struct, frozen=True):
    """A tensor's type and layout.

    `dtype`: fp32, fp16, bf16, int8, int32, int64, int4, uint8, bool, fp8, fp4, e8m0, complex64, "" where untold.
    `layout`: CHW, CHW2, CHW4, CHW16, CHW32, HWC, HWC8, HWC16, DHWC8, CDHW32, DLA..., transposed, strided (Myelin's),
    "dynamic" where it depends on the shape, "" where it was not understood. `pack`: channels held together or padded
    to (1: none). `strides`: as printed, outermost first, without vectors' sizes.
    """

    raw: str
    dtype: str = ""
    layout: str = ""
    pack: int = 1
    strides: tuple[str, ...] = ()

    @property
    def channels_last(self) -> bool:
        """Whether channels are the innermost axis."""
        return self.layout.startswith(("HWC", "DHWC"))


def dtype_of(text: str) -> str:
    """The type's usual name: `Half` and `FP16` are fp16; "" of an unknown one."""
    return _TYPES.get(text.strip().lower(), "")


@lru_cache(maxsize=16_384)
def parse(text: str, dtype: str = "") -> TensorFormat:
    """What `text` says; `dtype` is the type that stands beside the format in newer JSON."""
    raw = text.strip()
    known = dtype_of(dtype)
    if (headed := _KIND.match(raw)) is not None:
        return _headed(raw, headed, dtype)
    if (m := _PLAIN.fullmatch(raw)) is not None and dtype_of(m["type"]):  # by far the most in a log
        pairs = [part.partition(":") for part in m["strides"].split(",")] if m["strides"] else []
        return _strided(raw, dtype_of(m["type"]), [(a, natural(b or "1")) for a, _, b in pairs])
    if (m := _COMMON.fullmatch(raw)) is not None and (not m["word"] or m["word"].lower() in _WORDS):
        kind = "linear" if m["linear"] else "planar" if m["planar"] else "wide"
        pack = natural(m["multiple"] or "0") or _WORDS.get((m["word"] or "").lower(), 0)
        return TensorFormat(
            raw, known or dtype_of(m["type"] or ""), _layout(kind, pack, False, m["where"] or "", ""), max(pack, 1)
        )
    loose = _TYPE.search(raw)
    fallback = TensorFormat(raw[:MAX_LENGTH], known or (dtype_of(loose[1]) if loose else ""))
    if _DYNAMIC.search(raw):
        return TensorFormat(raw, fallback.dtype, "dynamic")
    if len(raw) > MAX_LENGTH or raw.count("(") > 200 or _SENTENCE.match(raw) is None:
        return fallback
    from lark.exceptions import LarkError

    try:
        return _read(raw, grammar().parse(raw), known)
    except (LarkError, RecursionError, ValueError):
        return fallback


def _headed(raw: str, headed: re.Match[str], dtype: str) -> TensorFormat:
    """`(NHWC) Channel major format`: what the words do not tell, the head does."""
    told = parse(raw[headed.end() :], dtype)
    kind = headed["kind"]
    vector = re.fullmatch(r"NC/(\d+)D?HW\d+", kind)
    layout = told.layout or (f"CHW{vector[1]}" if vector else _KINDS.get(kind, ""))
    return TensorFormat(
        raw, told.dtype or dtype_of(dtype), layout, natural(vector[1]) if vector else told.pack, told.strides
    )


@cache
def grammar() -> Lark:
    """The parser, made at the first format that is no plain list of strides."""
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr", maybe_placeholders=False, propagate_positions=True)


def _read(raw: str, tree: Tree[Token], known: str) -> TensorFormat:
    if tree.data == "strided":
        strides = [_stride(raw, s) for s in cast("list[Tree[Token]]", tree.children[1:])]
        return _strided(raw, dtype_of(str(tree.children[0])), strides)
    tokens = list(tree.scan_values(lambda _: True))
    told = {str(t.type): str(t) for t in reversed(tokens)}
    dtype = known or dtype_of(told.get("TYPE", ""))
    kind = next(str(t.data) for t in cast("list[Tree[Token]]", [c for c in tree.children if hasattr(c, "data")]))
    conditions = " ".join(str(t) for t in tokens if t.type == "CONDITION")
    deep = any(getattr(c, "data", "") == "spatial" for c in tree.children)
    pack = _WORDS.get(told.get("WORD", "").lower(), 0) or natural(told.get("WORD") or "0")
    if (multiple := re.search(r"(?:channel % |multiple of )(\d+)", conditions)) is not None:
        pack = natural(multiple[1])
    return TensorFormat(raw, dtype, _layout(kind, pack, deep, conditions, told.get("ENUM", "")), max(pack, 1))


def _stride(raw: str, tree: Tree[Token]) -> tuple[str, int]:
    """A stride as printed, and the elements of a vector along its axis."""
    extent = cast("Tree[Token]", tree.children[0]).meta
    return raw[extent.start_pos : extent.end_pos], natural(str(tree.children[1])) if len(tree.children) > 1 else 1


def _layout(kind: str, pack: int, deep: bool, conditions: str, enum: str) -> str:
    """The name that `nvinfer1::TensorFormat` has for it."""
    if enum:
        return "CHW" if enum == "kLINEAR" else enum[1:]
    if _DLA.search(conditions):
        return f"DLA_{'LINEAR' if kind == 'linear' else 'HWC4'}"
    if kind == "linear":
        return "CDHW" if deep else "CHW"
    if kind == "wide":
        return f"{'CDHW' if deep else 'CHW'}{pack}"
    return f"{'DHWC' if deep else 'HWC'}{pack if pack > 1 else ''}"


def _strided(raw: str, dtype: str, strides: list[tuple[str, int]]) -> TensorFormat:
    """Strides count vectors: the axis of stride 1 is innermost, the last axis if it has that, too."""
    pack = max((size for _, size in strides), default=1)
    values = tuple(stride for stride, _ in strides)
    deep = len(strides) == 5
    last = not values or values[-1] == "1"
    if pack > 1:
        layout = f"{'CDHW' if deep else 'CHW'}{pack}" if last else f"{'DHWC' if deep else 'HWC'}{pack}"
    else:
        layout = ("CDHW" if deep else "CHW") if last or len(values) < 4 else "DHWC" if deep else "HWC"
        if not last and len(values) >= 4 and values[1] != "1":
            layout = ""  # another order of axes
    return TensorFormat(raw, dtype, layout, pack, values)
