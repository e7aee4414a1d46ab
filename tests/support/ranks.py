"""Jobs of several ranks, run for real: torchrun and gloo with the interpreter that runs the tests.

A `Job` is a program that every rank runs and what is to be set around it; a line that ends in
`# here` is where the failure is. `run` starts torchrun, as woven output or with one folder a
rank (`--log-dir`), and gives what is left of it: the inputs and the marked line. No GPU is
needed. A missing torch fails: it belongs to what the tests require.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Final

AT_ONCE: Final = 3  # jobs: most of the time they wait for each other, not for a processor
LIMIT: Final = 80  # seconds; a job that hangs longer is a fault of the program
# What would change the jobs if it were set around the tests.
SETTINGS: Final = ("TORCH", "NCCL_", "GLOO_", "MASTER_", "PYTHONFAULTHANDLER", "RANK", "LOCAL_RANK", "WORLD_SIZE")

HEAD: Final = """
import datetime, os, signal, sys, time

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8))
rank, world = dist.get_rank(), dist.get_world_size()
ones = torch.ones(4)
for step in range(3):
    dist.all_reduce(ones)
    print(f"rank {rank} step {step} loss {1 / (step + 1):.3f}", flush=True)
"""


@dataclass(frozen=True, slots=True)
class Job:
    """`body` follows `head` in the program; `apart` gives every rank files of its own."""

    name: str
    ranks: int
    body: str
    env: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False
    options: Sequence[str] = ()
    head: str = HEAD

    @property
    def source(self) -> str:
        """The whole program."""
        return self.head.lstrip() + dedent(self.body)

    @property
    def line(self) -> int | None:
        """The number of the line marked `# here`, if one is."""
        lines = self.source.splitlines()
        return next((n for n, line in enumerate(lines, 1) if line.rstrip().endswith("# here")), None)


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished job: its inputs for `analyze`, its exit status, all that it printed together."""

    job: Job
    inputs: list[str]
    status: int

    @property
    def text(self) -> str:
        """Everything, for messages of failed tests."""
        files = [p for i in self.inputs for p in ([Path(i)] if Path(i).is_file() else sorted(Path(i).rglob("*.log")))]
        return "\n".join(f"== {p}\n{p.read_text(errors='replace')}" for p in files)


def run(job: Job, folder: Path) -> Ran:
    """Run `job` in a new folder below `folder`."""
    project = folder / job.name
    project.mkdir()
    (project / "train.py").write_text(job.source)
    output, logs = project / "agent.log", project / "logs"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--monitor-interval=0.2"]
    command += [f"--nproc-per-node={job.ranks}", *job.options]
    command += [f"--log-dir={logs}", "--redirects=3"] if job.apart else []
    kept = {k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)}
    with output.open("wb") as file:
        done = subprocess.run(
            [*command, str(project / "train.py")],
            cwd=project,
            env={**kept, "OMP_NUM_THREADS": "1", **job.env},
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=LIMIT,
        )
    return Ran(job, [str(output), *([str(logs)] if job.apart else [])], done.returncode)


def run_all(jobs: Sequence[Job], folder: Path) -> dict[str, Ran]:
    """All of `jobs`, some at a time, by name."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {ran.job.name: ran for ran in pool.map(lambda job: run(job, folder), jobs)}
