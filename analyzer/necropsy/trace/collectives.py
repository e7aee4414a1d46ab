"""Collectives of one process: NCCL's and RCCL's kernels, or gloo's ranges on the CPU.

Names, sizes and groups are those that torch adds to the kernels since 2.2; of older
traces only the kernel's name tells what it does.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from necropsy_parsers.trace.columns import Columns

from necropsy.trace.intervals import Cover
from necropsy.trace.profile import Profile
from necropsy.trace.rank import Mask, Rows

# Word in a name (lower case, letters only) -> what is said of it. The first that fits counts.
_WORDS: Final = (
    ("barrier", "barrier"),
    ("allreduce", "all-reduce"),
    ("crossdevicereduce", "all-reduce"),
    ("reducescatter", "reduce-scatter"),
    ("allgather", "all-gather"),
    ("alltoall", "all-to-all"),
    ("sendrecv", "send/receive"),
    ("broadcast", "broadcast"),
    ("isend", "send"),
    ("irecv", "receive"),
    ("send", "send"),
    ("recv", "receive"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
)
BETWEEN_TWO: Final = frozenset({"send", "receive", "send/receive"})
# Collectives that no rank can leave before the last has come.
MEETINGS: Final = frozenset({"all-reduce", "reduce-scatter", "all-gather", "all-to-all", "barrier"})
CPU_RANGES: Final = ("gloo:", "mpi:", "ucc:")

_SIZES: Final = {
    "double": 8, "long": 8, "complexfloat": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2, "short": 2, "byte": 1,
    "char": 1, "bool": 1, "signed char": 1, "unsigned char": 1,
}  # fmt: skip


class Signature(Struct, frozen=True):
    """What a collective is. Elements and bytes are -1 where the trace does not tell; `size` is the number of ranks."""

    name: str
    group: str
    words: str
    elements_in: int
    elements_out: int
    dtype: str
    size: int

    @property
    def bytes(self) -> int:
        """Size as nccl-tests counts it: of the larger of input and output."""
        width = width_of(self.dtype)
        elements = max(self.elements_in, self.elements_out)
        return elements * width if width and elements >= 0 else -1

    @property
    def factor(self) -> float:
        """Bus bandwidth for algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md)."""
        if self.size < 2:
            return 1.0
        part = (self.size - 1) / self.size
        return {"all-reduce": 2 * part, "all-gather": part, "reduce-scatter": part, "all-to-all": part}.get(
            self.name, 1.0
        )


class Collectives(Struct, frozen=True):
    """Collectives in order of their start: `start`, `end` in ns of the trace's clock.

    `what` is an index of `signatures`, `sequence` torch's number of the collective in its
    group (-1: not told), `row` that of the kernel or annotation. `device` says that they
    are kernels.
    """

    start: Rows
    end: Rows
    what: Rows
    sequence: Rows
    row: Rows
    signatures: list[Signature]
    device: bool

    def __len__(self) -> int:
        return len(self.start)

    def named(self, names: frozenset[str]) -> Mask:
        """Which ones have one of the names."""
        table = np.array([s.name in names for s in self.signatures], np.bool_)
        return table[self.what] if len(self) else np.zeros(0, np.bool_)


def collectives_of(p: Profile) -> Collectives:
    """The collectives of a trace; those on the CPU only where no device communicates."""
    if "collectives" not in p.memo:
        r = p.rank
        rows = np.flatnonzero(r.collective)
        if len(rows):
            told = partial(_of_kernel, _groups_of_streams(p, rows))
            p.memo["collectives"] = _of(p, r.kernels, rows, told, device=True)
        else:
            p.memo["collectives"] = on_cpu(p)
    found: Collectives = p.memo["collectives"]
    return found


def on_cpu(p: Profile) -> Collectives:
    """Ranges of gloo, MPI and UCC, in which the transfer of a collective was under way."""
    r = p.rank
    rows = np.flatnonzero(r.where(r.annotations, CPU_RANGES))
    columns = r.annotations
    if not len(rows):
        rows, columns = np.flatnonzero(r.where(r.ops, CPU_RANGES)), r.ops
    return _of(p, columns, rows, _of_range, device=False)


def exposed(p: Profile) -> Cover:
    """When a collective was under way and nothing computed: kernels on the device, operators on the CPU."""
    if "exposed" not in p.memo:
        found = collectives_of(p)
        p.memo["exposed"] = Cover.of(found.start, found.end).minus(working(p))
    cover: Cover = p.memo["exposed"]
    return cover


def working(p: Profile) -> Cover:
    """When the device computed; of programs on the CPU, when an operator did on a thread of the program's own."""
    if not p.cpu_only:
        return p.rank.computing
    r = p.rank
    leaf = np.ones(len(r.ops), np.bool_)
    parents = r.op_nest.parent
    leaf[parents[parents >= 0]] = False
    leaf &= np.isin(r.ops["thread"], p.activity.threads)
    leaf &= ~r.where(r.ops, ("c10d::", "record_param_comms", *CPU_RANGES, "autograd::"))
    return Cover.of(r.ops["start"][leaf], r.ops["end"][leaf])


def bus_bandwidth(signature: Signature, ns: NDArray[Any]) -> NDArray[np.float64]:
    """GB/s on the wire for transfers of that length; NaN where size or length is unknown."""
    size = signature.bytes
    length = np.where(ns > 0, ns, np.nan).astype(np.float64)
    return size * signature.factor / length if size > 0 else np.full(len(length), np.nan)


@lru_cache(maxsize=4096)
def spoken(name: str) -> str:
    """`_allgather_base`, `ncclDevKernel_AllGather_RING_LL(...)`, `gloo:all_gather` as `all-gather`."""
    head = re.sub(r"[^a-z]", "", name.split("(", 1)[0].lower())
    return next((said for word, said in _WORDS if word in head), "collective")


def width_of(dtype: str) -> int:
    """Bytes of an element; 0 where the type is not known."""
    name = dtype.lower().removeprefix("c10::")
    return 1 if name.startswith("float8") else _SIZES.get(name, 0)


# -- making -------------------------------------------------------------------


def _of(p: Profile, columns: Columns, rows: Rows, told: Any, *, device: bool) -> Collectives:
    """One signature for each distinct set of arguments."""
    kept = [c for c in _KEYS if c in columns.arrays]
    keys = np.stack([np.asarray(columns[c][rows], np.int64) for c in kept], axis=1) if len(rows) else None
    signatures: list[Signature] = []
    what = np.empty(0, np.int64)
    if keys is not None:
        distinct, what = np.unique(keys, axis=0, return_inverse=True)
        signatures = [told(p, dict(zip(kept, map(int, key), strict=True))) for key in distinct]
        what = what.reshape(-1)
    sequence = columns["sequence"][rows] if device else np.full(len(rows), -1, np.int64)
    return Collectives(columns["start"][rows], columns["end"][rows], what, sequence, rows, signatures, device)


_KEYS: Final = (
    "name", "collective", "group", "group_words", "group_ranks", "nelems_in", "nelems_out", "dtype", "group_size",
    "stream", "dims", "types",
)  # fmt: skip


def _groups_of_streams(p: Profile, rows: Rows) -> dict[int, tuple[int, int]]:
    """Stream -> (group, ranks) of its collectives, where all that tell theirs are of one group.

    Kernels submitted before the recording began carry no arguments; the stream tells whose they are.
    """
    k = p.rank.kernels
    told = rows[k["group"][rows] > 0]
    found = {}
    for stream in np.unique(k["stream"][told]):
        mine = told[k["stream"][told] == stream]
        groups = np.unique(np.stack([k["group"][mine], k["group_ranks"][mine]], axis=1), axis=0)
        if len(groups) == 1:
            found[int(stream)] = (int(groups[0, 0]), int(groups[0, 1]))
    return found


def _of_kernel(groups: dict[int, tuple[int, int]], p: Profile, key: dict[str, int]) -> Signature:
    t = p.trace
    name = t.text(key["collective"]) or t.names[key["name"]]
    at, ranks = (key["group"], key["group_ranks"]) if key["group"] > 0 else groups.get(key["stream"], (0, 0))
    group = t.text(at)
    where = f"{group} {t.text(ranks) or ''}".strip() if group is not None else "?"
    words = str(t.text(key["group_words"]) or "")
    return Signature(
        spoken(str(name)), where, words if words != "undefined" else "", key["nelems_in"], key["nelems_out"],
        str(t.text(key["dtype"]) or ""), key["group_size"],
    )  # fmt: skip


def _of_range(p: Profile, key: dict[str, int]) -> Signature:
    t = p.trace
    name = t.names[key["name"]]
    elements = sum(_elements(d) for d in t.text(key.get("dims", 0)) or [])
    types = [str(x) for x in t.text(key.get("types", 0)) or [] if x]
    return Signature(
        spoken(name), name.partition(":")[0], "", elements or -1, -1, types[0] if types else "", t.meta.world or -1
    )


def _elements(dims: Any) -> int:
    if isinstance(dims, list) and dims and all(isinstance(d, int) for d in dims):
        product = math.prod(dims)
        return product if 0 <= product < 1 << 62 else 0  # as no tensor has
    return sum(_elements(d) for d in dims) if isinstance(dims, list) else 0
