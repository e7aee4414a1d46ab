"""Jobs that were told to stop: by a scheduler, a cloud or a person."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.scheduler import JobStop

from necropsy.evidence._records import COMMON, RecordTable


class JobStops(RecordTable[JobStop]):
    """One row a notice; several may tell of one stop."""

    name = "job_stops"
    row = JobStop
    accepts = (JobStop,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "kind": "time-limit, preempted, evicted, node-shutdown, node-failure, requeued, cancelled, interrupted, "
        "hangup, terminated, or task-failure (a consequence)",
        "by": "who says it",
        "job": "job id, or empty",
        "host": "node, or empty",
        "resource": "what the node was short of, or empty",
        "limit_s": "limit in seconds, or None",
        "from_exception": "said by an exception",
    }
