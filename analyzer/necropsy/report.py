"""The result of an analysis, and its published JSON form (`schema: necropsy/1`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final

from msgspec import Struct, field, to_builtins

from necropsy_parsers.issues import ParseIssue
from necropsy_parsers.records import Anchor

from necropsy.finding import Finding, Place, Role, Severity

SCHEMA: Final = "necropsy/1"


class InputRow(Struct, frozen=True):
    """One input that was read: its format, why that format, and what came of it."""

    path: str
    format: str
    reason: str
    bytes: int
    records: int


class NotEvaluated(Struct, frozen=True):
    """A rule that could not be judged: what is missing and what would supply it."""

    rule: str
    missing: str
    supply: str


class Run(Struct, frozen=True):
    """One process seen in the inputs: its ranks, how it ended, rule and role of its first error, its last line."""

    name: str
    ranks: tuple[int, ...] = ()
    ended: str = ""
    first_error: str = ""
    role: str = ""
    last: str = ""


class LineTime(Struct, frozen=True):
    """A line of the program and the GPU's nanoseconds in kernels that torch.compile made of it."""

    file: str
    line: int | None
    function: str
    text: str
    ns: int


class StepSummary(Struct, frozen=True):
    """Where the judged steps of one trace went; `buckets` (name -> ns) add up to `ns`, their wall time.

    `steps` is 0 where none were found and the buckets are of the whole window. `first` and
    `last` are the steps' numbers. `reliable` is False under replays of CUDA graphs, where
    idle time cannot be told. Of `lost_ns`, in which the device did not compute, findings
    above a note name `named_ns`. `behind` says that the device ran behind the host, and
    that its own steps are told: from the end of what earlier ones submitted to the end of
    what this one did. `lines` tell the time of torch.compile's kernels by line, the heaviest
    first, where generated code of the run is at hand.
    """

    input: str
    rank: int | None
    device: str
    steps: int
    found_by: str
    first: int
    last: int
    ns: int
    buckets: dict[str, int]
    reliable: bool = True
    lost_ns: int = 0
    named_ns: int = 0
    behind: bool = False
    lines: tuple[LineTime, ...] = ()


class RooflinePosition(Struct, frozen=True):
    """What a kernel reached and could reach on its GPU, a second.

    `flops` are operations of `kind` (`bfloat16`, `half`, `tf32`, `float`, `double`, ...; the kind with most, "" and 0
    for a kernel without arithmetic) and `peak` the most of them; `bytes` went to and from device memory, `bandwidth`
    is the most of those. None where it is not known. `peak_by` and `bandwidth_by` say who tells the two limits:
    `report` (measured, at the clocks of the profile), `table` (datasheet of the GPU), or "".
    """

    device: str
    kind: str
    flops: float
    peak: float | None
    bytes: float
    bandwidth: float | None
    peak_by: str = ""
    bandwidth_by: str = ""

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.bytes if self.bytes else 0.0


class KernelSummary(Struct, frozen=True):
    """Launches of one kernel, grid and line that Nsight Compute profiled.

    `ns` is their time, `share` its part (0 to 1) of what was profiled in the input; `bound_by` is `grid`, `latency`,
    `tensor cores`, `arithmetic`, `both sides`, the name of a memory, or empty where it was not collected. `metrics`
    are percent of peak: `compute`, `memory`, `occupancy`, as far as collected. `roofline` is None where operations or
    bytes were not counted. `warmup` launches of the same are left out everywhere. `grid` are its blocks, `block` the
    threads of each, in x, y, z.
    """

    input: str
    kernel: str
    launches: int
    ns: int
    share: float | None
    file: str
    line: int | None
    function: str
    bound_by: str
    metrics: dict[str, float]
    roofline: RooflinePosition | None = None
    warmup: int = 0
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None


Excerpt = Callable[[Place, int, int], list[tuple[int, str]]]


def _nothing(place: Place, before: int = 2, after: int = 1) -> list[tuple[int, str]]:
    return []


class Report(Struct):
    """Findings in reading order (root causes first), and everything that was not judged.

    `excerpt(place, before, after)` gives (line number, text) around a place where the
    source is at hand; it is not part of the JSON.
    """

    version: str
    inputs: list[InputRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_evaluated: list[NotEvaluated] = field(default_factory=list)
    issues: list[ParseIssue] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    steps: list[StepSummary] = field(default_factory=list)
    kernels: list[KernelSummary] = field(default_factory=list)
    excerpt: Excerpt = _nothing

    def worst(self) -> Severity | None:
        """The highest severity present, or None for a report without findings."""
        return max((f.severity for f in self.findings), default=None)

    def roots(self) -> list[Finding]:
        """The root-cause findings, in reading order."""
        return [f for f in self.findings if f.role is Role.ROOT]

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, ready for `json.dumps`; see `docs/json.md`."""
        return {
            "schema": SCHEMA,
            "version": self.version,
            "inputs": [
                {"path": i.path, "format": i.format, "reason": i.reason, "bytes": i.bytes, "records": i.records}
                for i in self.inputs
            ],
            "findings": [finding_to_json(f) for f in self.findings],
            "not_evaluated": [{"rule": n.rule, "missing": n.missing, "supply": n.supply} for n in self.not_evaluated],
            "issues": [issue_to_json(i) for i in self.issues],
            "runs": [
                {
                    "name": r.name,
                    "ranks": list(r.ranks),
                    "ended": r.ended,
                    "first_error": r.first_error,
                    "role": r.role,
                    "last": r.last,
                }
                for r in self.runs
            ],
            "steps": [to_builtins(s) for s in self.steps],
            "kernels": [to_builtins(k) for k in self.kernels],
        }


def _anchor(anchor: Anchor) -> dict[str, Any]:
    return {"input": anchor.input, "line": anchor.line, "start": anchor.start, "end": anchor.end, "text": anchor.text}


def finding_to_json(f: Finding) -> dict[str, Any]:
    """One finding in the contract's form."""
    return {
        "rule": f.rule,
        "name": f.name,
        "severity": f.severity.label,
        "confidence": f.confidence.value,
        "role": f.role.value,
        "message": f.message,
        "code": [
            {
                "file": p.file,
                "line": p.line,
                "end_line": p.end_line,
                "function": p.function,
                "text": p.text,
                "exactness": p.exactness,
                "how": p.how,
            }
            for p in f.code
        ],
        "anchor": _anchor(f.anchor),
        "related": [{**_anchor(r.anchor), "label": r.label} for r in f.related],
        "facts": dict(f.facts),
        "cost": {"ns": f.cost.ns, "share": f.cost.share, "basis": f.cost.basis},
        "ranks": list(f.ranks),
        "time": f.time.text if f.time else None,
        "attempts": list(f.attempts),
        "fixes": [{"title": x.title, "kind": x.kind, "safety": x.safety, "command": x.command} for x in f.fixes],
        "fingerprint": f.fingerprint,
        "count": f.count,
        "explained_by": f.explained_by,
    }


def issue_to_json(i: ParseIssue) -> dict[str, Any]:
    """One parse issue as plain data."""
    return {
        "kind": i.kind,
        "level": i.level,
        "blame": i.blame,
        "input": i.input,
        "count": i.count,
        "unit": i.unit,
        "meaning": i.meaning,
        "detail": i.detail,
        "line": i.first.line if i.first else None,
    }


def short_path(path: str) -> str:
    """The last three parts of a path: enough to recognise a file on a narrow screen."""
    parts = PurePath(path.replace("\\", "/")).parts
    return "/".join(parts[-3:]) if len(parts) > 3 else path
