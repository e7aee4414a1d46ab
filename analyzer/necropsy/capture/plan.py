"""A question about a job -> what to collect, with which environment, in how many runs.

A `Pass` is one run of the command: the run itself; if asked for, one that repeats a failure with
`CUDA_LAUNCH_BLOCKING=1`; and one under Nsight Compute, for the kernels that the first one showed to matter.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

BOOTSTRAP: Final = Path(__file__).parent / "bootstrap"
SETTINGS: Final = "NECROPSY_CAPTURE"


class Collector(Struct, frozen=True):
    """Something that can be collected: what it is, and which modules the job must import for it to begin."""

    name: str
    what: str
    awaits: tuple[str, ...]


# The lines as NVTX ranges are marks in another form; nothing is started for them alone.
_NVTX: Final = Collector("nvtx", "The line of your files as NVTX ranges, for Nsight tools that are attached.", ())


@cache
def collectors() -> tuple[Collector, ...]:
    """Every collector, by name. Their files are for the job's interpreter: they are looked at, not imported.

    The first line of the docstring says what is collected, `AWAITS` the modules (torch where there is none).
    """
    found = [_NVTX]
    for path in (BOOTSTRAP / "_necropsy_capture" / "collectors").glob("[a-z]*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        awaits = ("torch",)
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "AWAITS":
                awaits = tuple(ast.literal_eval(node.value))
        found.append(Collector(path.stem, (ast.get_docstring(tree) or "").partition("\n")[0], awaits))
    return tuple(sorted(found, key=lambda c: c.name))


_ALWAYS: Final = ("logs", "trace", "profiler", "marks", "nccl")


class Question(Struct, frozen=True):
    """What the user wants to know: what to collect for it, options of collectors, variables."""

    name: str
    collect: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


QUESTIONS: Final = (
    Question("", _ALWAYS),
    Question("slow", ("logs", "trace", "profiler", "marks")),
    # faulthandler says where Python was when C code crashed; it adds nothing to stderr before that.
    Question("crash", ("logs", "nccl", "memory"), {}, {"PYTHONFAULTHANDLER": "1"}),
    Question(
        "compile",
        ("logs", "trace", "profiler", "marks"),
        # The first recompilations are the question: the recording does not wait for them to end.
        {"artifacts": ["graph_breaks", "recompiles", "perf_hints", "fusion", "cudagraphs"], "skip": 0, "settle": False},
    ),
    Question("memory", ("memory", "profiler", "marks"), {"profile_memory": True}),
    Question("tensorrt", ("tensorrt", "logs", "profiler", "marks")),
    # A job of a few launches is over before its steps could be counted: it is recorded from the import of torch on.
    Question("kernels", ("profiler", "marks", "ncu"), {"early": True}),
)


class Pass(Struct, frozen=True):
    """One run of the command: its folder below the run folder ("" for the first), and variables of its own."""

    name: str
    folder: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


# `attempt-1` is how readers of logs know a second try; the first has number 0.
BLOCKING: Final = Pass("blocking", "attempt-1", {"CUDA_LAUNCH_BLOCKING": "1"})
COUNTERS: Final = Pass("ncu", "ncu")


class Plan(Struct, frozen=True):
    """What will be run and collected. `variables` come on top of the environment of the caller."""

    command: tuple[str, ...]
    folder: str
    why: str
    collect: tuple[str, ...]
    options: Mapping[str, Any]
    variables: Mapping[str, str]
    kept: tuple[str, ...] = ()  # variables that the user has set, and that stay


def plan(
    command: Sequence[str],
    folder: str,
    *,
    why: str = "",
    collect: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Plan:
    """Plan a capture into `folder` (an absolute path). Raises `ValueError` naming an unknown question or collector."""
    question = next((q for q in QUESTIONS if q.name == why), None)
    if question is None:
        raise ValueError(f"{why!r} is not one of {', '.join(q.name for q in QUESTIONS if q.name)}")
    known = [c.name for c in collectors()]
    for name in collect:
        if name not in known:
            raise ValueError(f"{name!r} is not one of {', '.join(known)}")
    chosen = tuple(collect) or question.collect
    given = {**question.options, **{k: v for k, v in (options or {}).items() if v is not None}}
    before = os.environ if environment is None else environment
    wanted = dict(question.variables)
    kept = tuple(sorted(name for name in wanted if before.get(name)))
    variables = {name: value for name, value in wanted.items() if name not in kept}
    variables |= {"PYTHONPATH": _python_path(before.get("PYTHONPATH", "")), SETTINGS: _settings(folder, chosen, given)}
    return Plan(tuple(command), folder, why, chosen, given, variables, kept)


def _python_path(before: str) -> str:
    """The bootstrap first. An empty entry would mean the current folder: there is none unless the user has one."""
    rest = [entry for entry in before.split(os.pathsep) if entry != str(BOOTSTRAP)] if before else []
    return os.pathsep.join([str(BOOTSTRAP), *rest])


def counters_settings(folder: str, first: int | None, steps: int) -> str:
    """Settings of the run under Nsight Compute: lines as NVTX ranges, in `steps` steps from `first` (None: always)."""
    options: dict[str, Any] = {"nvtx": True}
    if first is None:
        return _written(folder, ("marks",), options)
    return _written(folder, ("marks", COUNTERS.name), {**options, "first": first, "window": steps})


def _settings(folder: str, chosen: Sequence[str], options: Mapping[str, Any]) -> str:
    names = [name for name in chosen if name not in ("nvtx", COUNTERS.name)]
    if "nvtx" in chosen:
        options = {**options, "nvtx": True}
        names += [] if "marks" in names else ["marks"]
    return _written(folder, names, options)


def _written(folder: str, names: Sequence[str], options: Mapping[str, Any]) -> str:
    awaited = {c.name: list(c.awaits) for c in collectors() if c.name in names}
    return json.dumps({"folder": folder, "collect": awaited, **options}, separators=(",", ":"))
