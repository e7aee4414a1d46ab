"""One capture from start to end: runs of the command in their folders, the manifest, a sentence about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from necropsy.capture import folder as runs
from necropsy.capture import job
from necropsy.capture.packing import pack_report, pack_trace
from necropsy.capture.plan import BLOCKING, COUNTERS, SETTINGS, Plan, counters_settings
from necropsy.capture.progress import Progress
from necropsy.units import human_bytes

_PACK: Final = 1 << 20  # bytes; smaller traces stay as they are


class Session:
    """Runs the command of a plan and keeps the run folder."""

    def __init__(self, plan: Plan) -> None:
        self.folder = Path(plan.folder)
        self.collects = plan.collect
        self._plan = plan
        self._environment = {**os.environ, **plan.variables}
        self._manifest = runs.Manifest(plan, self._environment)
        self._progress = Progress(self.folder)

    def run(self) -> job.Ended:
        """Run the command; the job writes to our stdout and stderr meanwhile."""
        self._manifest.write()
        self._progress.say(f"collecting {', '.join(self._plan.collect)} into {os.path.relpath(self.folder)}")
        ended = job.run(self._plan.command, self._environment, self.folder, self._progress.tick)
        self._progress.tick(True)
        self._manifest.ended("job", "", ended)
        return ended

    def asynchronous(self) -> bool:
        """Whether the log shows a CUDA error that was reported later than it happened."""
        if self._environment.get("CUDA_LAUNCH_BLOCKING") == "1":
            return False
        from necropsy import api
        from necropsy.evidence.cuda_errors import CudaErrors
        from necropsy.evidence.device_asserts import DeviceAsserts

        evidence = api.load(sorted(str(p) for p in self.folder.glob("output.log*")))
        return bool(len(evidence.get(CudaErrors)) or len(evidence.get(DeviceAsserts)))

    def repeat(self) -> None:
        """Run the command once more with CUDA_LAUNCH_BLOCKING=1, and nothing else collected."""
        self._progress.say("once more, with CUDA_LAUNCH_BLOCKING=1")
        where = self.folder / BLOCKING.folder
        where.mkdir(exist_ok=True)
        ended = job.run(self._plan.command, self._blocking(), where, self._progress.tick)
        self._manifest.ended(BLOCKING.name, BLOCKING.folder, ended)

    def _blocking(self) -> Mapping[str, str]:
        environment = {**os.environ, **BLOCKING.variables}
        environment.pop(SETTINGS, None)
        return environment

    def count(self) -> str:
        """Run the command under Nsight Compute, its output kept apart; gives what went wrong, or ""."""
        from necropsy.capture import counters, machine

        tool = machine.ncu()
        if tool is None:
            return "ncu is not there any more"
        choice = counters.choose(self.folder)
        if choice is None:
            return "the run shows no kernels on a GPU of NVIDIA's: nothing is profiled"
        where = self.folder / COUNTERS.folder
        where.mkdir(exist_ok=True)
        what = f"{len(choice.functions)} functions" if choice.functions else f"the first {choice.launches} launches"
        self._progress.say(f"once more, under ncu, for the counters of {what}")
        before = counters.command(
            tool[0], choice, where, machine.ncu_sections(tool[0]), machine.ncu_filters_configurations(tool[0])
        )
        environment = {**self._environment, SETTINGS: counters_settings(str(where), choice.first, counters.STEPS)}
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            ended = job.run([*before, *self._plan.command], environment, where, None, (nowhere, nowhere))
        finally:
            os.close(nowhere)
        self._manifest.ended(COUNTERS.name, COUNTERS.folder, ended)
        (where / counters.OVER).unlink(missing_ok=True)
        if not (where / counters.REPORT).exists():
            return (
                counters.trouble(where) or ended.trouble or f"ncu ended with status {ended.status} and wrote no report"
            )
        pack_report(where / counters.REPORT)
        for path in where.glob("output.log*"):
            path.unlink()  # what the first run printed, once more
        return ""

    def close(self) -> None:
        """Compress traces, look at the GPU, complete the manifest."""
        for path in self.folder.glob("trace-*.json"):
            if path.stat().st_size >= _PACK:
                pack_trace(path)
        from necropsy.capture.machine import gpus

        count, size = runs.size(self.folder)
        self._manifest.add(gpus=gpus(), files=count, bytes=size)

    def summary(self, ended: job.Ended, name: str) -> str:
        """How the job ended and what there is, in one sentence."""
        how = f"was killed by signal {ended.signal}" if ended.signal else f"ended with status {ended.status}"
        count, size = runs.size(self.folder)
        took = ended.ended - ended.began
        return f"the job {how} after {took:.1f} s; {count} files, {human_bytes(size)}, are in {name}."
