"""What a rank's graphs will ask of the other ranks: collectives in their order, and the metadata of tensors.

inductor_collective_schedule (torch/_inductor/debug.py, 2.9), inductor_runtime_and_tensor_meta (2.9), and what torch's
own comparison reports, inductor_spmd_graph_mismatch (torch/_inductor/fx_passes/spmd_check.py, 2.12).
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Struct

from necropsy_parsers.records import Record
from necropsy_parsers.structured.entry import Entry
from necropsy_parsers.structured.kinds import Plain, Reader

KINDS: Final = (
    "artifact:inductor_collective_schedule",
    "artifact:inductor_runtime_and_tensor_meta",
    "artifact:inductor_spmd_graph_mismatch",
)
MAX_OPS: Final = 10_000


class Op(Struct, frozen=True):
    """One operation of a compiled graph."""

    name: str | None = None
    type: str = ""
    outputs: list[dict[str, Any]] | None = None


class Ops(Struct, frozen=True):
    """The payload of inductor_runtime_and_tensor_meta."""

    ops: list[Op]


class GraphPlan(Record, frozen=True):
    """What one graph does, to be compared between ranks. `kind`: collectives, tensors or report.

    `steps` are the collectives in their order, or the operations with shape and type of their results; `told` is
    torch's own report of a difference.
    """

    kind: str
    steps: tuple[str, ...]
    digest: str
    told: str = ""


def make() -> Reader:
    """A reader of plans."""
    return Plain(_read)


def _read(entry: Entry) -> Iterator[Record]:
    if entry.name == "inductor_spmd_graph_mismatch":
        yield GraphPlan(entry.anchor, "report", (), "", entry.payload[:4000], **entry.common)
        return
    if entry.name == "inductor_collective_schedule":
        schedule = entry.decoded(list[str | None])
        kind, steps = "collectives", tuple(name or "?" for name in (schedule or ())[:MAX_OPS])
    else:
        ops = entry.decoded(Ops)
        kind, steps = "tensors", tuple(_told(op) for op in (ops.ops if ops else ())[:MAX_OPS])
    if steps:
        digest = blake2b("\n".join(steps).encode(), digest_size=8).hexdigest()
        yield GraphPlan(entry.anchor, kind, steps, digest, **entry.common)


def _told(op: Op) -> str:
    """Kind and results; buffers are named by number, which differs without meaning.

    What a collective changes in place has no type: it is not told here.
    """
    told = (o for o in op.outputs or () if o.get("dtype"))
    results = "; ".join(f"{o['dtype']}{msgspec.json.encode(o.get('shape')).decode()}" for o in told)
    return f"{op.name if op.type == 'collective' else op.type} {results}".strip()
