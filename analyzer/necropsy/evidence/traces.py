"""Profiler traces: one row a trace. Rules that judge performance start here."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from necropsy_parsers.records import Record
from necropsy_parsers.trace.model import Trace

from necropsy.evidence import Table

if TYPE_CHECKING:
    from necropsy.trace.fleet import Fleet
    from necropsy.trace.profile import Profile


class TraceRow(Struct, frozen=True):
    """A trace in short."""

    input: str
    rank: int | None
    device: str
    events: int
    kernels: int
    steps: int
    steps_by: str
    window: int
    busy: int


class Traces(Table[TraceRow]):
    """One row a trace; `profiles` are the traces with their links, steps and partition."""

    name = "traces"
    row = TraceRow
    accepts = (Trace,)
    formats = ("kineto",)
    supply = "a trace of torch's profiler (torch.profiler.profile(...), prof.export_chrome_trace)"
    columns: ClassVar[dict[str, str]] = {
        "input": "the trace's file",
        "rank": "rank of the process, as the trace or its name tells",
        "device": "name of the first GPU",
        "events": "events read",
        "kernels": "kernels recorded",
        "steps": "steps found",
        "steps_by": "how: annotation, optimizer, function, or window (none found)",
        "window": "ns from the first to the last event",
        "busy": "ns of the window in which the device ran anything",
    }

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[Trace] = []
        self._profiles: list[Profile] | None = None
        self._fleets: list[Fleet] | None = None

    def add(self, record: Record) -> None:
        """Take a trace."""
        assert isinstance(record, Trace)
        self.traces.append(record)
        self._profiles = self._fleets = None

    @property
    def profiles(self) -> list[Profile]:
        """All traces in order of rank."""
        if self._profiles is None:
            from necropsy.trace.profile import profiles_of

            self._profiles = profiles_of(self.traces)
        return self._profiles

    @property
    def fleets(self) -> list[Fleet]:
        """The jobs of which several ranks were recorded at the same time."""
        if self._fleets is None:
            from necropsy.trace.fleet import fleets_of

            self._fleets = fleets_of(self.profiles)
        return self._fleets

    @property
    def gpu_profiles(self) -> list[Profile]:
        """Those in which a device's work was recorded."""
        return [p for p in self.profiles if not p.cpu_only]

    def covered(self, formats: frozenset[str]) -> bool:
        """Whether any trace holds events."""
        return any(t.events for t in self.traces)

    def finish(self) -> None:
        """Rows are made on request: they need numpy."""

    def _made(self) -> list[TraceRow]:
        return [_row(p) for p in self.profiles]

    def __len__(self) -> int:
        return len(self.traces)

    def frame(self):  # type: ignore[no-untyped-def]
        """The rows as a DataFrame with the documented columns."""
        self.rows = self._made()
        return super().frame()


def _row(p: Profile) -> TraceRow:
    low, high = p.rank.window
    devices = p.trace.meta.devices
    return TraceRow(
        p.input, p.origin.rank, devices[0].name if devices else "", p.trace.events, len(p.rank.kernels),
        len(p.steps), p.steps.how, high - low, p.rank.busy.total,
    )  # fmt: skip
