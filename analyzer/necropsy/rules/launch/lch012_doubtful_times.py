"""Times of the trace's events are doubtful

What it means
    One of three: the trace holds absolute times (microseconds since 1970, often as strings), which
    readers that keep numbers as doubles round to a quarter of a microsecond, so that short
    kernels seem to overlap or nest; kernels of one stream do overlap, which a stream does not
    allow; or kernels begin before they were launched, since host and device have two clocks.

Why it happens
    torch up to 2.3 and profilers of other vendors write absolute times; merged or
    edited traces hold events twice; clocks were not aligned when the profiler started.

How to confirm
    Load the trace in Perfetto: events of one stream stand in several rows.

How to fix
    A newer torch writes times relative to `baseTimeNanoseconds`. For other tools, subtract
    the first time from all, as decimals or whole nanoseconds, before making them floats.

Limits
    Absolute times are read here from their digits, so that nothing is lost. Overlaps below 20 us are
    left alone: kernels may begin before their predecessor has ended (programmatic dependent
    launch). Where clocks disagree, rules about idle time and launches are not judged.

References
    - https://github.com/Ascend/pytorch/issues/133
    - https://github.com/AMD-AGI/TraceLens/issues/669
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, ms, part

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile


class Thresholds(Struct, frozen=True):
    """`overlaps`: part of the kernels that overlap their successor on one stream from which it is told; our own."""

    overlaps: float = 0.01


@rule("LCH012", "doubtful-times", Severity.NOTE, settings=Thresholds)
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """One note a kind of doubt and trace."""
    for p in traces.gpu_profiles:
        from necropsy.trace.corrupt import clock_of
        from necropsy.trace.idle import skewed

        clock = clock_of(p)
        if clock.rounded:
            yield _note(
                p,
                f"Timestamps are absolute (microseconds since the epoch): kept as doubles they lose precision, and "
                f"{clock.rounded:,} of {clock.work:,} kernels would seem to overlap the next; here they are read from "
                "their digits.",
                "Subtract the first timestamp, as decimals, before other tools read the trace",
            )
        if clock.overlaps and clock.overlaps >= t.overlaps * clock.work:
            share = part(clock.overlaps / clock.work)
            yield _note(
                p,
                f"{clock.overlaps:,} kernels ({share}) begin before the one before them on the "
                f"same stream has ended, by up to {ms(clock.worst)}: the trace holds events twice or was edited.",
                "Record again; do not merge traces of several runs",
            )
        if skewed(p):
            yield _note(
                p,
                "Kernels begin before they were launched: the clocks of host and device disagree, so that idle time "
                "and launches are not judged.",
                "Record again, with a longer warm-up of the profiler",
            )


def _note(p: Profile, message: str, fix: str) -> Finding:
    return about(p, message, Severity.NOTE, shows="ts of kernels", fixes=(Fix(fix, "investigate"),))
