"""Recompilations: which guard of which function failed, where it comes from, and what changed."""

from __future__ import annotations

from typing import ClassVar, Final

from necropsy_parsers.grammars.guard import Guard
from necropsy_parsers.messages.recompile import Recompile
from necropsy_parsers.records import Record
from necropsy_parsers.text.guard_failure import GuardFailure

from necropsy.evidence import Table
from necropsy.evidence._records import COMMON
from necropsy.provenance.guards import deciding

ROWS_MAX: Final = 20_000


class RecompileRow(Record, frozen=True):
    """A recompilation and the guard that decided it."""

    function: str
    file: str
    line: int | None
    compile_id: str
    kind: str
    source: str
    dim: int | None
    operator: str
    expected: str
    actual: str
    guard: str
    failure: GuardFailure | None
    versions: int
    refused: str
    wording: str

    @property
    def frame_id(self) -> str:
        """The number of the function among those compiled: `4` of `[4/3]`."""
        return self.compile_id.rpartition("/")[0]


class Recompiles(Table[RecompileRow]):
    """One row a recompilation; `dropped` counts those beyond the first 20,000."""

    name = "recompiles"
    row = RecompileRow
    accepts = (Recompile,)
    formats = ("log", "elastic_error_file", "torch_trace")
    supply = "the log of a run with TORCH_LOGS=recompiles"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "function": "the function's name, resumed functions as Dynamo calls them",
        "file": "its file",
        "line": "the line at which it begins",
        "compile_id": "id of the new compilation: frame/compilation",
        "kind": "what the guard compares: int, float, bool, str, none, value, size, stride, rank, dtype, device, "
        "keyset, requires_grad, length, keys, membership, attribute, type, identity, alias, missing, deallocated, "
        "state, backend, config, condition, unknown",
        "source": "whose value it compares",
        "dim": "dimension of a size or stride",
        "operator": "comparison that should have held",
        "expected": "value of the compiled version",
        "actual": "value now, where told",
        "guard": "the guard as printed",
        "failure": "the guard with its line of code and user stack",
        "versions": "compiled versions that did not fit",
        "refused": 'the setting that forbids it: error_on_recompile, fail_on_recompile or ""',
        "wording": '"2.1" if it is that of torch 2.1, otherwise ""',
    }

    def __init__(self) -> None:
        super().__init__()
        self.dropped = 0
        self.told: object = None  # what `provenance.recompiles.stories` made of the rows
        self._seen: set[tuple[object, ...]] = set()
        self._failed: dict[tuple[object, ...], dict[str, str]] = {}  # function -> version -> whose value it failed at

    def add(self, record: Record) -> None:
        """Make a row of a recompilation."""
        assert isinstance(record, Recompile)
        if len(self.rows) >= ROWS_MAX:
            self.dropped += 1
            return
        if self._again(record):
            return
        found = self._deciding(record)
        guard = found.guard if found is not None else None
        self.rows.append(
            RecompileRow(
                record.anchor,
                record.function,
                record.file,
                record.line,
                record.compile_id,
                guard.kind if guard else "untold",
                guard.source if guard else "",
                guard.dim if guard else None,
                guard.operator if guard else "",
                guard.expected if guard else "",
                (guard.actual or _actual(record, guard)) if guard else "",
                guard.raw if guard else "",
                found,
                record.versions,
                record.refused,
                record.wording,
                origin=record.origin,
                seq=record.seq,
                attempt=record.attempt,
            )
        )

    def _deciding(self, record: Recompile) -> GuardFailure | None:
        """The failure that called for the new version, judged with what the versions failed at before."""
        o = record.origin
        function = (o.rank, o.pid, o.host, record.attempt, record.anchor.input, record.compile_id.rpartition("/")[0])
        before = self._failed.setdefault(function, {})
        found = deciding(record.entries, before)
        for entry in record.entries:
            if entry and entry[0].entry:
                before[entry[0].entry] = entry[0].guard.source
        return found

    def _again(self, record: Recompile) -> bool:
        """Whether the same entry was read before: TORCH_LOGS_OUT writes it to a file besides."""
        o = record.origin
        if o.time is None or not record.compile_id or record.refused:
            return False
        key = (o.rank, o.pid, o.host, o.time.text, record.compile_id, record.function, record.attempt)
        again = key in self._seen
        self._seen.add(key)
        return again


def _actual(record: Recompile, guard: Guard) -> str:
    """The value now, if the failure of an older version tells it."""
    for entry in record.entries if guard.kind == "size" else ():
        for other in entry:
            if other.guard.actual and (other.guard.kind, other.guard.source, other.guard.dim) == (
                guard.kind,
                guard.source,
                guard.dim,
            ):
                return other.guard.actual
    return ""
