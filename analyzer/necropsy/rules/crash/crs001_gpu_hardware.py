"""A GPU, its memory or its link failed

What it means
    The driver or the kernel reported a failure of the device itself: it fell off the bus,
    its memory has uncorrectable errors, NVLink or PCIe broke, the machine overheated. The
    program is not at fault, and it will fail again on that device.

Why it happens
    Worn or defective hardware, power, heat, a loose card or cable. Firmware or driver faults
    (Xid 119, 120, 62) look alike and often go with a failing device.

How to confirm
    `dmesg -T | grep -i -E 'xid|nvrm|aer'` on the node, `nvidia-smi -q -d ECC,ROW_REMAPPER`,
    `dcgmi diag -r 3` on the drained node.

How to fix
    Drain the node, reset the GPU (`nvidia-smi --gpu-reset -i BUS`) or reboot, run the
    diagnostics. If it comes back, replace the device (RMA) with `nvidia-bug-report.sh`'s output.

Limits
    Xid 13, 31, 43 and others are the program's own doing as a rule and are only noted; 45 is
    bookkeeping. A kernel log holds old errors too: one that names a process of another job
    explains nothing here. An uncorrectable NVLink error without any word of the driver stays
    with the exception.

References
    - https://docs.nvidia.com/deploy/xid-errors/index.html
    - https://docs.nvidia.com/deploy/gpu-debug-guidelines/index.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from necropsy_parsers.messages.driver_error import DriverError
from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, from_record, ranks_of
from necropsy.conditions import DEVICE_FAULT, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.cuda_errors import CudaErrors
from necropsy.evidence.driver_errors import DriverErrors
from necropsy.evidence.elastic_failures import ElasticFailures
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.nccl_communicators import NcclCommunicators
from necropsy.finding import Confidence, Fact, Finding, Fix, Related, Role, Severity
from necropsy.provenance.ranks import rank_of_process, ranks_of_device
from necropsy.provenance.xids import Blame, Xid, xid
from necropsy.rule import rule

_RAISED: Final = lazily(
    r"(?:CUDA (?:driver )?error: ?|[Cc]uda failure (?:\d+ )?')"
    r"(?P<error>(?P<ecc>uncorrectable ECC error encountered)|uncorrectable NVLink error[\w ]*)"
)
_LINKS: Final = frozenset({74, 136, 137, *range(144, 151)})
_MEMORY: Final = frozenset({48, 63, 64, 94, 95, 140, 171, 172})
_GRAVE: Final = frozenset({79, 95, 140})  # of several numbers these say best what became of the device
_ACTION: Final = lazily(r"changed from \S+ \([^)]*\) to \S+ \((?P<action>[^)]+)\)")
_SAYS: Final = {
    "lost": Xid("the GPU does not answer any more: the driver lost it", Blame.DEVICE),
    "pcie": Xid("the PCIe bus reports a fatal error", Blame.DEVICE),
    "heat": Xid("the node reached its critical temperature and shut down", Blame.DEVICE),
    "sxid": Xid("an NVSwitch reports a fatal error", Blame.DEVICE),
}


class _Event(Struct, frozen=True):
    """An error with its meaning."""

    error: DriverError
    means: Xid

    @property
    def label(self) -> str:
        """The number as people look it up, or the kind."""
        names = {"lost": "GPU lost", "pcie": "PCIe AER", "heat": "critical temperature"}
        prefix = {"xid": "Xid", "sxid": "SXid"}.get(self.error.kind)
        return f"{prefix} {self.error.code}" if prefix else names[self.error.kind]


def _event(error: DriverError) -> _Event:
    if error.kind == "xid" and error.code is not None:
        return _Event(error, xid(error.code))
    means = _SAYS[error.kind]
    return _Event(error, means if error.fatal else Xid(means.means.replace("fatal ", ""), Blame.EVENT, fatal=False))


def _devices(errors: DriverErrors) -> list[list[_Event]]:
    """The events of each device (of an attempt and host); one without an address joins the only other one."""
    groups: dict[tuple[int, str, str], list[_Event]] = {}
    for error in sorted(errors, key=lambda e: e.seq):
        groups.setdefault((error.attempt, error.origin.host or "", error.bus), []).append(_event(error))
    nameless = [key for key in groups if not key[2]]
    for key in nameless:
        others = [k for k in groups if k[:2] == key[:2] and k[2]]
        if len(others) == 1 and groups[key][0].error.kind == "lost":
            groups[others[0]] += groups.pop(key)
    return list(groups.values())


def _gravity(event: _Event) -> tuple[bool, bool, bool, bool, int]:
    """What a device's finding is about: a failure before an event, the earliest of equals."""
    error, failed = event.error, event.means.blame in (Blame.DEVICE, Blame.DRIVER)
    return failed, event.means.fatal, error.code in _GRAVE, error.kind in ("xid", "sxid"), -error.seq


def _fixes(worst: _Event, events: Sequence[_Event]) -> tuple[Fix, ...]:
    bus = worst.error.bus
    told = next((m["action"] for e in reversed(events) if (m := _ACTION.search(e.error.detail))), "")
    where = f" {worst.error.origin.host}" if worst.error.origin.host else ""
    if worst.error.kind == "heat":
        return (Fix(f"Drain the node{where} and have its cooling checked before it takes jobs again", "investigate"),)
    asked = f" (the driver asks for: {told})" if told and told != "None" else ""
    reset = f"nvidia-smi --gpu-reset -i {bus}" if bus and worst.error.kind not in ("pcie", "sxid") else ""
    what = "reboot (all GPUs of the switch are concerned)" if worst.error.kind == "sxid" else "reset the GPU or reboot"
    return (
        Fix(f"Drain the node{where}, then {what}{asked}, and check it", "command", command=reset),
        Fix("Look at its memory and links", "command", command="nvidia-smi -q -d ECC,ROW_REMAPPER ; dcgmi diag -r 3"),
        Fix(
            "If the error comes back, have the device replaced; the vendor wants this report",
            "command",
            "display-only",
            "nvidia-bug-report.sh",
        ),
        Fix("Restart the job from its last checkpoint on other nodes (Slurm: --exclude this one)", "config"),
    )


def _severity(worst: _Event) -> Severity:
    if worst.means.blame in (Blame.PROGRAM, Blame.EVENT):
        return Severity.NOTE
    return Severity.FATAL if worst.means.fatal else Severity.WARNING


def _sentence(worst: _Event, device: str) -> str:
    ours = worst.means.blame is Blame.PROGRAM
    end = "; that is the program's doing as a rule, not the hardware's" if ours else ""
    return f"{worst.label}{device}: {worst.means.means}{end}."


def _finding(
    events: Sequence[_Event], workers: ElasticFailures, nccl: NcclCommunicators, activity: Activity
) -> Finding:
    worst = max(events, key=_gravity)
    error = worst.error
    host, bus = error.origin.host or "", error.bus
    what = "NVSwitch" if error.kind == "sxid" else "device" if error.kind == "pcie" else "GPU"
    device = (f" on {what} {bus}" if bus else "") + (f" of node {host}" if host else "")
    rank = next(
        (
            r
            for e in events
            if (r := rank_of_process(e.error.process, e.error.attempt, workers, nccl, activity)) is not None
        ),
        None,
    )
    ranks = (rank,) if rank is not None else ranks_of_device(bus, host, nccl)
    severity = _severity(worst)
    facts: dict[str, Fact] = {"reported": list(dict.fromkeys(e.label for e in events))}
    for name, value in (("PCI address", bus), ("node", host), ("pid", error.process), ("driver's words", error.detail)):
        if value not in ("", None):
            facts[name] = value
    failing = severity >= Severity.WARNING
    return from_record(
        error,
        _sentence(worst, device),
        Severity.NOTE if failing and activity.job_went_on(error.seq, error.attempt) else severity,
        confidence=Confidence.LIKELY
        if worst.means.blame is Blame.DRIVER or error.kind == "pcie"
        else Confidence.CERTAIN,
        ranks=ranks,
        process=f"rank {ranks[0]}" if len(ranks) == 1 else "",
        role=Role.ROOT if failing else Role.SYMPTOM,
        facts=facts,
        fixes=_fixes(worst, events) if failing else (),
        related=tuple(Related(e.error.anchor, e.label) for e in events if e is not worst)[:4],
        leaves=frozenset({DEVICE_FAULT, PROCESS_DIED}) if severity is Severity.FATAL else frozenset(),
        confirms=severity is Severity.FATAL,
    )


def _raised(m: re.Match[str], follows: str) -> tuple[str, dict[str, Any]]:
    """The sentence about a CUDA error that only a failing device causes, and what belongs to it."""
    what = "the GPU's memory has an error that cannot be corrected" if m["ecc"] else "an NVLink connection failed"
    return f"CUDA error: {m['error']}: {what}; the hardware failed, not this line.", {
        "facts": {"error": m["error"]},
        "fixes": (
            Fix("Find the GPU in the node's kernel log", "command", command="dmesg -T | grep -i -E 'xid|nvrm'"),
            Fix("Drain the node, reset the GPU, and restart the job from its checkpoint elsewhere", "config"),
        ),
        "leaves": frozenset({DEVICE_FAULT, PROCESS_DIED}),
        "shows": frozenset({DEVICE_FAULT}),
        "follows": follows,
    }


def _driver_says(m: re.Match[str], ranks: tuple[int, ...], devices: Sequence[tuple[Finding, set[int | None]]]) -> str:
    """The event of the driver's report of the same failure, or ""."""
    codes = _MEMORY if m["ecc"] else _LINKS
    fitting = [
        f for f, said in devices if f.severity is Severity.FATAL and (said & codes or (None in said and not m["ecc"]))
    ]
    own = [f for f in fitting if set(f.ranks) & set(ranks)]
    return next((f.event for f in own or fitting), "")


@rule("CRS001", "gpu-hardware", Severity.FATAL, aliases=("X01", "xid"))
def check(
    errors: DriverErrors,
    cuda: CudaErrors,
    exceptions: Exceptions,
    workers: ElasticFailures,
    nccl: NcclCommunicators,
    activity: Activity,
) -> Iterator[Finding]:
    """One finding a device that the driver complains of, one an error that only hardware can cause."""
    devices: list[tuple[Finding, set[int | None]]] = []
    for events in _devices(errors):
        finding = _finding(events, workers, nccl, activity)
        # A switch's own numbers are many; it counts as a link.
        devices.append((finding, {e.error.code if e.error.kind == "xid" else None for e in events}))
        yield finding
    linked = any(None in said or said & _LINKS for f, said in devices if f.severity is Severity.FATAL)
    for row in exceptions:
        if (m := _RAISED.search(row.everything)) is not None and (m["ecc"] or linked):
            sentence, rest = _raised(m, _driver_says(m, ranks_of(row.origin), devices))
            yield from_exception(row, sentence, **rest)
    for error in cuda:
        m = _RAISED.search(f"CUDA error: {error.error}")
        if m is not None and not error.from_exception and (m["ecc"] or linked):
            sentence, rest = _raised(m, _driver_says(m, ranks_of(error.origin), devices))
            yield from_record(error, sentence, Severity.FATAL, activity=activity, **rest)
