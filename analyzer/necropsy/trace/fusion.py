"""Operations that run as several kernels although one would do: known patterns, and chains of element-wise kernels.

The operators of the forward pass that launched kernels are spelled as one text a thread, a
letter an operator; known patterns are regular expressions over it, and are confirmed by the
recorded shapes. What torch.compile made, optimizers and the engine's own operators end
every pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy.trace.nesting import NONE, nearest
from necropsy.trace.opwork import opwork_of
from necropsy.trace.profile import Profile

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Letter -> operators without `aten::` and the `_` of those that work in place.
_LETTERS: Final = {
    "b": "bmm baddbmm",
    "g": "mm addmm _addmm_activation linear _scaled_mm",
    "S": "_softmax",
    "P": "pow square",
    "M": "mean",
    "V": "var var_mean std std_mean",
    "R": "rsqrt",
    "Q": "sqrt reciprocal",
    "D": "div true_divide",
    "U": "mul",
    "A": "add addcmul lerp addcdiv",
    "B": "sub rsub",
    "E": "exp",
    "T": "tanh",
    "H": "erf",
    "K": "sigmoid",
    "L": "silu",
    "G": "gelu",
    "X": "relu threshold clamp clamp_min hardtanh leaky_relu",
    "N": "neg",
    "C": "cat stack",
    "Y": "copy",
    "F": "masked_fill where",
    "O": "native_dropout dropout bernoulli _fused_dropout",
    "W": "sum",
    "I": "cos sin log abs floor eq ne gt lt ge le logical_not logical_and bitwise_and bitwise_not bitwise_or "
    "fill zero triu tril minimum maximum softplus elu mish hardswish",
}
_OPERATORS: Final = {name: letter for letter, names in _LETTERS.items() for name in names.split()}
_ELEMENTWISE: Final = frozenset("PRQDUABETHKLGXNYFOI")
_LARGEST: Final = 1 << 60  # elements; more is no tensor but damage
BREAK: Final = "|"  # another thread, or something that was fused, compiled or belongs to torch
OTHER: Final = "."

# Two products around a softmax, with whatever scales, masks and drops between them.
_BETWEEN: Final = "[DUABFOYXIPQ]{0,14}?"
ATTENTION: Final = f"b{_BETWEEN}S{_BETWEEN}b"
# Name -> pattern, as written by hand in models of the day.
PATTERNS: Final = {
    "attention": ATTENTION,
    "RMSNorm": "[PU]MA?(?:R|QD?)Y?UY?U?Y?",
    "LayerNorm": "MY?(?:V|B[PU]M|BV)Y?(?=[BAQUY]{0,4}[RD])[BAQRUY]{0,4}[DUR]Y?[UA]{0,2}",
    "GELU": "[UPA]{1,4}AU?TA[U]{1,2}|[UD]{1,2}HA[UD]{1,2}",
    "rotary embedding": "(?:UNCUA){1,2}|(?:UUB(?:UUA|UA)C){1,2}|(?:UUBUUAC){1,2}",
    "SwiGLU": "gLgU|ggLU",
}


class Chain(Struct, frozen=True):
    """A run of forward operators: positions `low` to `high` in the spelled text."""

    name: str
    low: int
    high: int


class Spelled(Struct, frozen=True):
    """Forward operators that launched kernels, in order on their threads.

    `rows` (-1 between threads), `text` with a letter for each, `frame`: row of the Python frame
    that is the innermost of the user's or a package's other than torch, `function`: its name's
    index (-1: none), `dims`: index of the shapes, `size`: elements of the largest input (-1: unknown).
    """

    rows: Rows
    text: str
    frame: Rows
    function: Rows
    dims: Rows
    size: Rows


@lru_cache(maxsize=4096)
def letter(name: str) -> str:
    """The letter of an operator."""
    if not name.startswith("aten::"):
        return BREAK
    return _OPERATORS.get(name.removeprefix("aten::").rstrip("_"), OTHER)


def spelled(p: Profile) -> Spelled:
    """The operators of a trace as text."""
    if "spelled" not in p.memo:
        p.memo["spelled"] = _spelled(p)
    found = p.memo["spelled"]
    assert isinstance(found, Spelled)
    return found


def _spelled(p: Profile) -> Spelled:
    w, ops = opwork_of(p), p.rank.ops
    if not len(ops) or not len(w.rows):
        none = np.empty(0, np.int64)
        return Spelled(none, "", none, none, none, none)
    rows = np.flatnonzero((w.op_ns > 0) & ~w.backward)
    rows = rows[np.lexsort((ops["start"][rows], ops["thread"][rows]))]
    ends = np.flatnonzero(ops["thread"][rows][1:] != ops["thread"][rows][:-1]) + 1
    rows = np.insert(rows, ends, NONE)
    known = np.maximum(rows, 0)
    unique, inverse = np.unique(ops["name"][known], return_inverse=True)
    letters = np.array([letter(p.trace.names[int(n)]) for n in unique])[inverse]
    letters = np.where((w.compiled | w.optimizing)[known] | (rows < 0), BREAK, letters)
    frame = np.where(rows >= 0, _frames(p, known), NONE)
    names = p.rank.frames["name"][np.maximum(frame, 0)] if len(p.rank.frames) else frame
    function = np.where(frame >= 0, names, NONE)
    return Spelled(rows, "".join(letters.tolist()), frame, function, ops["dims"][known], _sizes(p, known))


def _frames(p: Profile, rows: Rows) -> Rows:
    r = p.rank
    if not len(r.frames):
        return np.full(len(rows), NONE, np.int64)
    names = [n for n, f in r.frame_names.items() if f.kind == "user" or (f.kind == "package" and not _torch(f.file))]
    near = nearest(r.frame_nest.parent, np.isin(r.frames["name"], np.array(names, np.int64)))
    at = r.frame_at(r.ops["thread"][rows], r.ops["start"][rows])
    return np.where(at >= 0, near[np.maximum(at, 0)], NONE)


def _torch(file: str) -> bool:
    return file.replace("\\", "/").startswith(("torch/", "triton/", "torchgen/", "functorch/"))


def _sizes(p: Profile, rows: Rows) -> Rows:
    unique, inverse = np.unique(p.rank.ops["dims"][rows], return_inverse=True)
    table = [min(max((prod(d) for d in shapes(p, int(t)) if d), default=NONE), _LARGEST) for t in unique]
    return np.array(table, np.int64)[inverse]


def shapes(p: Profile, text: int) -> list[list[int]]:
    """The shapes of an operator's inputs, empty for scalars and lists; none where they were not recorded."""
    dims = p.trace.text(text)
    if not isinstance(dims, list):
        return []
    return [d if isinstance(d, list) and all(isinstance(x, int) for x in d) else [] for d in dims]


def patterns(p: Profile) -> list[Chain]:
    """Known patterns, each operator in one of them at most."""
    s = spelled(p)
    taken = np.zeros(len(s.rows), np.bool_)
    found = []
    for name, pattern in PATTERNS.items():
        for m in re.finditer(pattern, s.text):
            low, high = m.span()
            if taken[low:high].any() or not _one_function(s, low, high):
                continue
            if not (_attends(p, s, low, high) if name == "attention" else _one_size(s, low, high, name)):
                continue
            taken[low:high] = True
            found.append(Chain(name, low, high))
    return found


def _one_function(s: Spelled, low: int, high: int) -> bool:
    function = s.function[low:high]
    return bool((function == function[0]).all())


def _attends(p: Profile, s: Spelled, low: int, high: int) -> bool:
    """Whether the softmax is of the first product's result and the second product takes it, by their shapes."""
    softmax = low + s.text[low:high].index("S")
    scores = shapes(p, int(s.dims[softmax]))
    first = [d for d in shapes(p, int(s.dims[low])) if len(d) == 3]
    second = [d for d in shapes(p, int(s.dims[high - 1])) if len(d) == 3]
    if not scores:
        return bool(s.function[low] >= 0)  # without shapes: one function's two products and a softmax
    if len(first) < 2 or len(second) < 2 or len(scores[0]) < 2:
        return False
    a, b = first[-2:]  # baddbmm has the tensor to add before them
    return [a[1], b[2]] == scores[0][-2:] == second[-2][1:]


def _one_size(s: Spelled, low: int, high: int, name: str) -> bool:
    """Whether the operators work on one shape; a mean over its last dimension leaves some small ones."""
    if name == "SwiGLU":
        return True
    lists = np.array([c == "C" for c in s.text[low:high]])  # of tensors: their shapes are not told as one
    size = s.size[low:high][~lists]
    return bool((size > 0).all()) and int(size.max()) > 1 and 2 * int((size == size.max()).sum()) >= len(size)


def chains(p: Profile, known: list[Chain], least: int) -> list[Chain]:
    """Runs of at least so many element-wise operators on one size in one function, outside known patterns."""
    s = spelled(p)
    if not len(s.rows):
        return []
    free = np.array([c in _ELEMENTWISE for c in s.text], np.bool_)
    for c in known:
        free[c.low : c.high] = False
    same = (s.frame[1:] == s.frame[:-1]) & (s.size[1:] == s.size[:-1]) & (s.size[1:] > 0) & free[1:] & free[:-1]
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    ends = np.concatenate((starts[1:], [len(s.rows)]))
    long = (ends - starts >= least) & free[starts]
    return [Chain("chain", int(a), int(b)) for a, b in zip(starts[long], ends[long], strict=True)]
