"""The run under Nsight Compute: which kernels it looks at, in which launches, and with which sections.

Profiling a launch repeats it tens of times: 34 with these sections, 2 s a launch of a language model on an H200 (torch
2.11, ncu 2025.3), since what a launch writes is saved and restored each time. So only one step is looked at of those
that were recorded in the first run: all of its launches if they are few, else functions that took the most time, in the
first launch of each configuration. Collectives are left out: a rank that repeats one waits for the others for ever.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from necropsy.capture import folder as runs

if TYPE_CHECKING:
    from necropsy.trace.profile import Profile

REPORT: Final = "kernels.ncu-rep"
LOG: Final = "ncu.log"
OVER: Final = "window-over"  # what the profiled rank leaves for the others (collectors/ncu.py)
STEPS: Final = 1  # profiled
MOST_TIME: Final = 0.9  # of the kernels' time is what the chosen functions must have,
MOST_FUNCTIONS: Final = 12  # or they are so many, or the next has less than
LEAST: Final = 0.005  # of it
FEW: Final = 60  # launches that are all profiled
EACH: Final = 1  # launch of each configuration (kernel, grid, block, shared memory) where there are more
_COLLECTIVE: Final = re.compile(r"nccl|rccl|nvshmem", re.IGNORECASE)

# What the rules on Nsight Compute read (their pages name it), in the order in which ncu lists it. Left out of `full`:
# sampling over time and the rooflines of single caches, which cost passes and decide nothing.
SECTIONS: Final = (
    "SpeedOfLight",
    "SpeedOfLight_RooflineChart",
    "SpeedOfLight_HierarchicalTensorRooflineChart",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "SchedulerStats",
    "WarpStateStats",
    "InstructionStats",
    "LaunchStats",
    "Occupancy",
    "SourceCounters",
    "WorkloadDistribution",
)


class Choice(Struct, frozen=True):
    """What is profiled: functions, the most time first (none: all), their launches in `STEPS` steps, from which step.

    `first` is None where no steps were counted: the whole run is looked at.
    """

    functions: tuple[str, ...]
    launches: int
    first: int | None


def choose(folder: Path) -> Choice | None:
    """What the first run shows to matter; None where nothing tells that the job uses a GPU of NVIDIA's."""
    from necropsy import api
    from necropsy.evidence.traces import Traces

    recorded = [
        (p, n) for p, n in runs.notes(folder) if n.get("collector") == "profiler" and n.get("what") == "recorded"
    ]
    recorded.sort(key=lambda pn: pn[0].get("rank") or 0)
    for _, note in recorded[:1]:
        traces = [str(path) for path in folder.glob(f"{note.get('file')}*")]
        for profile in api.load(traces).get(Traces).gpu_profiles:
            steps = int(note.get("steps") or 0)
            return _chosen(profile, int(note.get("first") or 0) if steps else None, steps)
    if any(p.get("devices") and "hip" not in (p.get("versions") or {}) for p in runs.processes(folder)):
        return Choice((), FEW, None)
    return None


def _chosen(profile: Profile, first: int | None, steps: int) -> Choice:
    time, count = _by_function(profile)
    steps = steps if first is not None else 1
    total, so_far, launches = sum(time.values()), 0.0, 0
    chosen: list[str] = []
    for function, n in time.most_common():
        many = launches + -(-count[function] * STEPS // steps) > FEW
        enough = so_far >= MOST_TIME * total or n < LEAST * total or len(chosen) == MOST_FUNCTIONS
        if many and enough:
            break
        chosen.append(function)
        so_far += n
        launches += -(-count[function] * STEPS // steps)
    return Choice(tuple(chosen), launches, first)


def _by_function(profile: Profile) -> tuple[Counter[str], Counter[str]]:
    """Nanoseconds and launches of the functions, without collectives and what a tuner tries while it compiles."""
    import numpy as np

    rank = profile.rank
    calls = rank.launch_of(rank.kernels)
    launched = np.where(calls >= 0, rank.calls["start"][np.maximum(calls, 0)], rank.kernels["start"])
    own = ~profile.activity.compiling.holds(launched)
    names, at = np.unique(rank.kernels["name"][own], return_inverse=True)
    ns = np.bincount(at, weights=(rank.kernels["end"] - rank.kernels["start"])[own])
    time, count = Counter[str](), Counter[str]()
    for name, n, launches in zip(names.tolist(), ns.tolist(), np.bincount(at).tolist(), strict=True):
        function = _function(rank.trace.names[name])
        if not _COLLECTIVE.match(function):
            time[function] += n
            count[function] += launches
    return time, count


def _function(kernel: str) -> str:
    """The name by which ncu knows it (`--kernel-name-base function`), also where Kineto could not demangle it."""
    from necropsy_parsers.ncu.build import function_of

    rest = re.match(r"_ZN?", kernel)
    at, name = rest.end() if rest else 0, ""
    while rest and (length := re.compile(r"\d{1,4}").match(kernel, at)):
        at = length.end() + int(length[0])
        name = kernel[length.end() : at]
    return name or function_of(kernel)


def command(tool: str, choice: Choice, folder: Path, known: Sequence[str], per_configuration: bool) -> list[str]:
    """What stands before the job's command. `known` are the sections that this ncu has (none: it does not tell).

    The clocks are left as they are: what is compared with the first run ran with them, and other users of the machine
    may not be slowed down.
    """
    options = ["--target-processes", "all", "--clock-control", "none", "--nvtx", "--import-source", "no"]
    if choice.functions:
        options += ["--kernel-name", f"regex:^({'|'.join(map(re.escape, choice.functions))})$"]
    if choice.first is not None:
        options += ["--profile-from-start", "off"]
    if choice.launches > FEW and per_configuration:
        options += ["--filter-mode", "per-launch-config", "--launch-count", str(EACH)]
    else:
        options += ["--launch-count", str(FEW)]
    for section in SECTIONS:
        if not known or section in known:
            options += ["--section", section]
    return [tool, "--export", str(folder / REPORT), "--force-overwrite", "--log-file", str(folder / LOG), *options]


def trouble(folder: Path) -> str:
    """Why there is no report, in ncu's own words; "" where it says nothing."""
    try:
        text = (folder / LOG).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    said = re.findall(r"^==(ERROR|WARNING)==\s*(?!Note:)(\S.*?)\s*$", text, re.MULTILINE)
    return next((words for _, words in sorted(said, key=lambda s: s[0] != "ERROR")), "")
