"""What stands in the way of an export: the reports of `draft_export` in structured logs.

missing_fake_kernel, mismatched_fake_kernel (torch/_subclasses/fake_tensor.py), propagate_real_tensors (2.5 and later),
propagate_real_tensors_provenance and guard_added (2.7), guard_on_data_dependent_error (symbolic_shapes.py). All but
propagate_real_tensors stand in logs of TORCH_DTRACE only, and in those that `torch.export.draft_export` writes by
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy_parsers.records import Frame, Record
from necropsy_parsers.structured.entry import Entry, RawFrame
from necropsy_parsers.structured.kinds import Reader

KINDS: Final = (
    "missing_fake_kernel",
    "mismatched_fake_kernel",
    "propagate_real_tensors",
    "propagate_real_tensors_provenance",
    "guard_on_data_dependent_error",
    "guard_added",
    "exported_program",
)
_NAMES: Final = {
    "propagate_real_tensors": "data-dependent",
    "propagate_real_tensors_provenance": "data-dependent",
    "guard_on_data_dependent_error": "data-dependent error",
    "missing_fake_kernel": "missing kernel",
    "mismatched_fake_kernel": "mismatched kernel",
    "guard_added": "guard",
}


class Told(Struct, frozen=True):
    """The fields of all these kinds."""

    op: str = ""
    reason: str = ""
    expr: str = ""
    result: str = ""
    user_stack: list[RawFrame] | None = None
    stack: list[RawFrame] | None = None


class ExportFailure(Record, frozen=True):
    """One obstacle to an export.

    `kind`: data-dependent (a value was needed that only running tells; `expression` was taken for `result`),
    data-dependent error (it ended the trace), missing kernel and mismatched kernel (of `op`, for `reason`), guard (an
    `expression` that the exported program holds for only). `frames`
    is the stack, outermost first, the program's own where it is told apart, else the whole one.
    """

    kind: str
    op: str
    reason: str
    expression: str
    result: str
    frames: tuple[Frame, ...]


class _Exports:
    """Guards count only in logs of exports, which end with the exported program; compilations add theirs elsewhere."""

    def __init__(self) -> None:
        self._guards: list[ExportFailure] = []

    def read(self, entry: Entry) -> Iterator[Record]:
        """An obstacle, or the end of an export."""
        if entry.kind == "exported_program":
            yield from self._guards
            self._guards = []
            return
        told = entry.value(Told)
        if told is None or (entry.kind == "guard_added" and entry.origin.compile_id):
            return
        frames = entry.frames(told.user_stack or told.stack)
        found = ExportFailure(
            entry.anchor, _NAMES[entry.kind], told.op, told.reason, told.expr, told.result, frames, **entry.common
        )
        if entry.kind == "guard_added":
            self._guards.append(found)
        else:
            yield found

    def finish(self) -> Iterator[Record]:
        """Nothing: without its end there was perhaps no export."""
        return iter(())


def make() -> Reader:
    """A reader of obstacles."""
    return _Exports()
