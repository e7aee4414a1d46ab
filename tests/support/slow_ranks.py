"""A report on the traces of three ranks, made by hand."""

from __future__ import annotations

from necropsy_parsers.records import Anchor

from necropsy.finding import Cost, Finding, Place, Severity
from necropsy.report import InputRow, Report, StepSummary


def slow_ranks() -> Report:
    """Traces of three ranks: where their steps went, in figures and bars."""

    def steps(rank: int, loading: int) -> StepSummary:
        buckets = {"compute": 61_000_000, "communication": 9_400_000, "data loading": loading, "dispatching": 1_200_000}
        whole = sum(buckets.values()) + 40_000
        return StepSummary(
            f"traces/rank{rank}.json.gz", rank, "NVIDIA H100 80GB HBM3", 3, "annotation", 5, 7, whole,
            {**buckets, "Python": 30_000, "queue": 10_000}, lost_ns=whole - 61_000_000, named_ns=loading,
        )  # fmt: skip

    slow = Finding(
        rule="DAT001",
        name="loading-dominates",
        severity=Severity.WARNING,
        message="Each step waits 31 ms for the DataLoader in train (42% of the time) while the GPU does nothing.",
        anchor=Anchor("traces/rank1.json.gz", 0, 0, 1, "enumerate(DataLoader)#...__next__ on the main thread"),
        code=(Place("train.py", 44, None, "train", "", "function", "profiler"),),
        cost=Cost(93_000_000, 0.42, "measured"),
        ranks=(1,),
    )
    report = Report("0.1", [InputRow(f"traces/rank{r}.json.gz", "kineto", "r", 9_000_000, 1) for r in range(3)], [slow])
    report.steps = [steps(0, 800_000), steps(1, 93_000_000), steps(2, 0)]
    return report
