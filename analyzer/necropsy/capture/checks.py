"""Whether a capture will work here: what is there, what is missing, and how to mend it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from necropsy.capture import machine
from necropsy.capture.plan import BOOTSTRAP
from necropsy.units import human_bytes

OK, NOTE, BAD = "ok", "note", "missing"
OLDEST_PYTHON: Final = (3, 10)
OLDEST_TORCH: Final = (2, 1)
_PATIENCE: Final = 120.0  # seconds; importing torch from a network disk takes its time
_ROOM: Final = 10 << 30  # bytes; a recording of a large model takes some of them


class Check(Struct, frozen=True):
    """One thing: `state` (ok, note, missing), what was found, and how to mend it ("" if there is nothing to mend)."""

    state: str
    name: str
    found: str
    fix: str = ""


def checks(python: str | None, folder: Path) -> list[Check]:
    """All checks; `python` is the job's interpreter, by default the one on the path."""
    interpreter = python or shutil.which("python") or shutil.which("python3") or sys.executable
    found, error = _probe(interpreter)
    rows = [_python(interpreter, found, error)]
    if found is not None:
        rows += [_torch(found), _cuda(found), _profiler(found), _bootstrap(interpreter)]
        rows += [_module(found, *row) for row in _OPTIONAL]
        rows.append(_tensorrt(found))
    return [*rows, _ncu(), _disk(folder)]


_OPTIONAL: Final = (
    ("nvtx", "marks for Nsight tools (--collect nvtx)", "python -m pip install nvtx"),
    ("triton", "kernels of torch.compile on GPUs", "it comes with torch for CUDA; install that"),
)


def _probe(interpreter: str) -> tuple[dict[str, Any] | None, str]:
    script = Path(__file__).with_name("probe.py")
    try:
        done = subprocess.run(
            [interpreter, str(script)], capture_output=True, text=True, timeout=_PATIENCE, check=False, cwd=os.sep
        )
    except subprocess.TimeoutExpired:
        return None, f"gave no answer within {_PATIENCE:.0f} s"
    except OSError as error:
        return None, str(error.strerror)
    try:
        data = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return None, (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return (data, "") if isinstance(data, dict) else (None, "no answer")


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.partition("+")[0].split(".")[:2] if part.isdigit())


def _python(interpreter: str, found: dict[str, Any] | None, error: str) -> Check:
    if found is None:
        return Check(BAD, "Python of the job", f"{interpreter}: {error}", "name the job's interpreter with --python")
    text = f"{found['python']} ({interpreter})"
    if _release(found["python"]) < OLDEST_PYTHON:
        return Check(BAD, "Python of the job", text, "capture needs Python 3.10 or newer in the job's environment")
    return Check(OK, "Python of the job", text)


def _torch(found: dict[str, Any]) -> Check:
    module = found["modules"]["torch"]
    if module["version"] is None:
        why = module["error"] or "not installed in that interpreter"
        return Check(BAD, "torch", why, "install torch there, or name the right interpreter with --python")
    if _release(module["version"]) < OLDEST_TORCH:
        return Check(BAD, "torch", module["version"], "capture needs torch 2.1 or newer")
    return Check(OK, "torch", module["version"])


def _cuda(found: dict[str, Any]) -> Check:
    gpus, newest = machine.gpus(), machine.driver_cuda()
    driver = f"driver {gpus[0]['driver']}" + (f" (up to CUDA {newest})" if newest else "") if gpus else ""
    built = found.get("cuda") or found.get("hip") or ""
    if found.get("available"):
        names = found["devices"]
        text = f"{len(names)} x {names[0]}, torch for {built}, {driver or 'no nvidia-smi'}"
        return Check(OK, "GPU", text)
    if not gpus:
        return Check(NOTE, "GPU", "none here (nvidia-smi finds no driver)", "captures of CPU work only")
    if not built:
        fix = "this torch is built for the CPU; install the build for CUDA from pytorch.org/get-started"
    elif newest and _release(built) > _release(newest):
        fix = f"torch wants CUDA {built}, the driver runs up to {newest}: a newer driver, or torch for CUDA {newest}"
    else:
        fix = "see what `python -c 'import torch; torch.cuda.init()'` says; CUDA_VISIBLE_DEVICES may hide the GPU"
    return Check(BAD, "GPU", f"{gpus[0]['name']}, {driver}, but torch cannot use it", fix)


def _profiler(found: dict[str, Any]) -> Check:
    kinds = found.get("profiler") or []
    if found.get("available") and not {"CUDA", "XPU", "MTIA", "HPU"} & set(kinds):
        fix = "this build of torch lacks CUPTI; install an official one"
        return Check(BAD, "torch's profiler", "records no GPU work here", fix)
    return Check(OK, "torch's profiler", ", ".join(kinds) or "CPU")


def _bootstrap(interpreter: str) -> Check:
    """Whether the interpreter reads PYTHONPATH: a wrapper with -E or -I would not."""
    environment = {**os.environ, "PYTHONPATH": str(BOOTSTRAP)}
    environment.pop("NECROPSY_CAPTURE", None)
    code = "import sys; print('_necropsy_capture' in sys.modules)"
    try:
        done = subprocess.run(
            [interpreter, "-c", code], env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Check(BAD, "bootstrap", "did not answer", "try another interpreter with --python")
    if done.stdout.strip() == "True":
        return Check(OK, "bootstrap", "is loaded through PYTHONPATH")
    return Check(BAD, "bootstrap", "is not loaded", "start Python without -E, -I and -S, so that it reads PYTHONPATH")


def _module(found: dict[str, Any], name: str, use: str, fix: str) -> Check:
    module = found["modules"][name]
    if module["version"] is not None:
        return Check(OK, name, module["version"])
    return Check(NOTE, name, module["error"] or f"not installed; for {use}", fix)


def _tensorrt(found: dict[str, Any]) -> Check:
    versions = {n: found["modules"][n]["version"] for n in ("tensorrt", "tensorrt_rtx")}
    there = [f"{name} {version}" for name, version in versions.items() if version]
    if there:
        return Check(OK, "TensorRT", ", ".join(there))
    fix = "only for jobs that build engines: python -m pip install tensorrt, or tensorrt-rtx"
    return Check(NOTE, "TensorRT", "not installed", fix)


def _ncu() -> Check:
    tool = machine.ncu()
    if tool is None:
        return Check(
            NOTE, "Nsight Compute", "no ncu on the path", "for kernel counters: it comes with the CUDA toolkit"
        )
    text = f"ncu {tool[1]} ({tool[0]})"
    if machine.counters_permitted() is False:
        fix = "run as root, or put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d and reboot"
        return Check(
            NOTE, "Nsight Compute", f"{text}, but counters are for administrators only (ERR_NVGPUCTRPERM)", fix
        )
    return Check(OK, "Nsight Compute", text)


def _disk(folder: Path) -> Check:
    room = shutil.disk_usage(folder).free
    text = f"{human_bytes(room)} free in {folder}"
    if room < _ROOM:
        return Check(NOTE, "disk", text, "recordings may take gigabytes: put the run folder elsewhere with --out")
    return Check(OK, "disk", text)
