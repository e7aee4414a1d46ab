"""Collectives of one kind and size take long at their worst

What it means
    Of the collectives of one kind, size and group, the slowest one in a hundred (of fewer,
    the slowest) took longer than the threshold. It is a measure to watch, not a cause: a
    rank's collective lasts until the slowest rank has come.

Why it happens
    A late rank, a congested or slow link, NCCL on sockets instead of InfiniBand or NVLink,
    or simply many bytes.

How to confirm
    With traces of all ranks the time from the arrival of the last one is the transfer;
    it is what is judged where ranks are matched.

How to fix
    Look at DST007 first. If the transfer itself is slow, compare the bus bandwidth with
    that of `all_reduce_perf` of nccl-tests, and read NCCL_DEBUG=INFO for the transport.

Limits
    At least ten of a kind are needed. Bus bandwidth follows nccl-tests' factors.

References
    - https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.trace.claim import about, ms


class Thresholds(Struct, frozen=True):
    """`milliseconds` at the 99th percentile: 8 ms is what the article on sustained training alerts from.

    `least`: collectives of a kind, size and group from which a percentile means anything.
    """

    milliseconds: float = 8.0
    least: int = 10


@rule("DST021", "slow-collectives", Severity.NOTE, settings=Thresholds, aliases=("nccl_allreduce_p99",))
def check(traces: Traces, t: Thresholds) -> Iterator[Finding]:
    """A note a job, or a process without peers."""
    from necropsy.trace.latency import slowest_kinds

    for p, kinds, matched in slowest_kinds(traces.profiles, traces.fleets, t.least):
        over = [k for k in kinds if k.p99 > t.milliseconds * 1e6]
        if not over:
            continue
        k = over[0]
        waiting = "from the arrival of the last rank" if matched else "with waiting for the other ranks"
        yield about(
            p,
            f"The slowest of {k.count:,} {k.words} took {ms(k.p99)} at the 99th percentile ({ms(k.median)} in the "
            f"median), {waiting}: more than {t.milliseconds:g} ms.",
            Severity.NOTE,
            shows=k.words,
            event=f"latency@{p.input}",
            facts={
                "by kind": [
                    f"{k.words}: p99 {ms(k.p99)}, median {ms(k.median)}, bus bandwidth {k.bandwidth}" for k in over[:5]
                ],
            },
            fixes=(Fix("Compare the bus bandwidth with `all_reduce_perf` (nccl-tests); read `NCCL_DEBUG=INFO`"),),
        )
