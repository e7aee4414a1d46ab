"""The run under Nsight Compute: what is chosen from the first run, the command line, and what the job then does."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from necropsy.capture import counters
from necropsy.capture.counters import SECTIONS, Choice
from necropsy.capture.plan import BOOTSTRAP, SETTINGS, plan
from necropsy.capture.session import Session

INCIDENTS = Path(__file__).parents[2] / "fixtures" / "incidents"
JOBS = Path(__file__).parent / "jobs"
# Stands in for ncu: runs the command, and writes down its own options instead of a report.
NCU = """
    #!{python}
    import json, subprocess, sys
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36398880)")
    elif arguments == ["--list-sections"]:
        print("Identifier    Display Name  Enabled  Filename\\n------------  ------------  -------  ---------")
        print("LaunchStats   Launch Statistics  yes  LaunchStatistics.section")
        print("SpeedOfLight GPU Speed Of Light Throughput  yes  SpeedOfLight.section")
    elif arguments == ["--help"]:
        print("  --filter-mode arg (=global)  global, per-gpu, per-launch-config")
    else:
        at = arguments.index({python!r})
        status = subprocess.call(arguments[at:])
        if "REFUSES" in __import__("os").environ:
            with open(arguments[arguments.index("--log-file") + 1], "w") as file:
                print("==WARNING== Note: Running with unmodified GPU clocks. ...", file=file)
                print("==WARNING== No metrics to collect found in sections.", file=file)
                print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", file=file)
            sys.exit(1)
        with open(arguments[arguments.index("--export") + 1], "w") as file:
            json.dump(arguments[:at], file)
        sys.exit(status)
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an `ncu`, first on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ncu").write_text(textwrap.dedent(NCU).strip().format(python=sys.executable))
    (folder / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return folder


def test_what_took_the_most_time_is_chosen() -> None:
    choice = counters.choose(INCIDENTS / "captured-language-model")
    assert choice is not None
    assert choice.functions[:3] == ("Kernel2", "multi_tensor_apply_kernel", "vectorized_elementwise_kernel")
    assert (len(choice.functions), choice.launches, choice.first) == (11, 537, 3)


def test_a_name_that_was_not_demangled_is_chosen_as_ncu_knows_it() -> None:
    choice = counters.choose(INCIDENTS / "captured-image-classifier")
    assert choice is not None
    assert "Kernel" in choice.functions
    assert not any(name.startswith("_Z") for name in choice.functions)


def test_what_a_tuner_tries_decides_nothing() -> None:
    """Inductor's tuner launched two functions more than a thousand times; the program has 18 launches."""
    choice = counters.choose(INCIDENTS / "captured-kernels")
    assert choice is not None
    assert choice.functions[0].startswith("sm80_xmma_gemm_f32f32")
    assert (len(choice.functions), choice.launches, choice.first) == (9, 18, None)


def test_without_a_gpu_nothing_is_chosen(tmp_path: Path) -> None:
    assert counters.choose(tmp_path) is None


def test_without_kernels_of_the_first_run_the_first_launches_are(tmp_path: Path) -> None:
    process = {"schema": "necropsy-process/1", "versions": {"cuda": "13.0"}, "devices": [{"name": "A10"}], "notes": []}
    (tmp_path / "process-12.json").write_text(json.dumps(process))
    assert counters.choose(tmp_path) == Choice((), counters.FEW, None)
    process["versions"] = {"hip": "6.2"}
    (tmp_path / "process-12.json").write_text(json.dumps(process))
    assert counters.choose(tmp_path) is None


def test_few_launches_are_all_profiled(tmp_path: Path) -> None:
    line = counters.command("/opt/ncu", Choice(("gemm.1", "add"), 40, 3), tmp_path, (), True)
    assert line[:4] == ["/opt/ncu", "--export", str(tmp_path / "kernels.ncu-rep"), "--force-overwrite"]
    assert line[line.index("--kernel-name") + 1] == r"regex:^(gemm\.1|add)$"
    assert line[line.index("--clock-control") + 1] == "none"
    assert line[line.index("--profile-from-start") + 1] == "off"
    assert line[line.index("--launch-count") + 1] == str(counters.FEW)
    assert "--filter-mode" not in line
    assert [line[i + 1] for i, word in enumerate(line) if word == "--section"] == list(SECTIONS)


def test_of_many_launches_some_of_each_configuration_are(tmp_path: Path) -> None:
    many = Choice(("add",), 900, None)
    line = counters.command("ncu", many, tmp_path, ("SpeedOfLight", "Nvlink"), True)
    assert line[line.index("--filter-mode") + 1] == "per-launch-config"
    assert line[line.index("--launch-count") + 1] == str(counters.EACH)
    assert [line[i + 1] for i, word in enumerate(line) if word == "--section"] == ["SpeedOfLight"]
    assert "--profile-from-start" not in line
    old = counters.command("ncu", many, tmp_path, (), False)
    assert "--filter-mode" not in old
    assert old[old.index("--launch-count") + 1] == str(counters.FEW)


def counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make the second run, without the first; what went wrong."""
    monkeypatch.setattr(counters, "choose", lambda _: Choice(("addmm",), 3, 3))
    run = folder / "run"
    run.mkdir()
    return Session(plan([sys.executable, str(JOBS / "counted.py")], str(run), why="kernels")).count()


def test_the_window_is_one_step_and_the_job_ends_behind_it(
    tmp_path: Path, tool: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert counted(tmp_path, monkeypatch) == ""
    assert (tmp_path / "calls").read_text().split("\n")[:-1] == [
        "step 0", "step 1", "step 2", "start", "step 3", "stop",
    ]  # fmt: skip
    assert capfd.readouterr().out == ""  # what the second run prints has been seen
    folder = tmp_path / "run" / "ncu"
    assert not list(folder.glob("output.log*"))
    assert not (folder / "kernels.ncu-rep").exists()
    assert not (folder / counters.OVER).exists()  # an input without bytes to whoever reads the folder
    options = json.loads(lzma.decompress((folder / "kernels.ncu-rep.xz").read_bytes()))
    assert [options[i + 1] for i, word in enumerate(options) if word == "--section"] == ["SpeedOfLight", "LaunchStats"]
    (process,) = folder.glob("process-*.json")
    notes = [n for n in json.loads(process.read_text())["notes"] if n["collector"] == "ncu"]
    assert [(n["what"], n.get("step"), n.get("steps")) for n in notes] == [("window", 3, None), ("profiled", None, 1)]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert [(p["name"], p["folder"], p["status"]) for p in manifest["passes"]] == [("ncu", "ncu", 0)]


def test_a_refusal_is_told_in_the_tools_words(tmp_path: Path, tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFUSES", "1")
    trouble = counted(tmp_path, monkeypatch)
    assert trouble == "ERR_NVGPUCTRPERM - The user does not have permission"
    assert (tmp_path / "run" / "ncu" / "output.log").exists()


def test_other_ranks_wait_for_the_profiled_one(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys, types
        sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: False))
        from _necropsy_capture.process import Process
        from _necropsy_capture.collectors.ncu import Counters
        Counters(Process({"folder": sys.argv[1], "collect": {}, "first": 2}))._boundary(3)
        print("still here")
        """
    )
    environment = {**os.environ, "RANK": "1", "PYTHONPATH": str(BOOTSTRAP)}
    environment.pop(SETTINGS, None)
    job = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env=environment, stdout=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        job.wait(1.5)
    (tmp_path / counters.OVER).touch()
    out, _ = job.communicate(timeout=30)
    assert (job.returncode, out) == (0, b"")


def test_without_the_tool_the_job_is_not_begun(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "necropsy",
        "capture",
        "--why",
        "kernels",
        "--out",
        "run",
        "--",
        sys.executable,
        "-c",
        "1",
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "ncu is not on the path" in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_second_run_is_announced(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "necropsy", "capture", "--why", "kernels", "--dry-run", "--", "python", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "once more for the kernels that took the most time" in done.stdout
    assert '"ncu"' not in done.stdout.partition("environment")[2]  # it is for the second run only


def test_a_recording_from_the_start_is_given_up_for_steps(tmp_path: Path, tool: Path) -> None:
    command = [sys.executable, "-m", "necropsy", "capture", "--why", "kernels", "--out", "run", "--no-report", "--"]
    job = [sys.executable, str(JOBS / "counted.py")]
    done = subprocess.run([*command, *job], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "begins\nthe last line\n"), done.stderr
    assert "no counters: the run shows no kernels on a GPU of NVIDIA's" in done.stderr
    (process,) = (tmp_path / "run").glob("process-*.json")
    notes = [n for n in json.loads(process.read_text())["notes"] if n["collector"] == "profiler"]
    assert [(n["what"], n.get("step", n.get("why"))) for n in notes[:3]] == [
        ("recording", 0), ("discarded", "steps begin"), ("recording", 3),
    ]  # fmt: skip
    assert (notes[3]["what"], notes[3]["first"], notes[3]["steps"]) == ("recorded", 3, 3)


def test_a_job_without_steps_is_recorded_from_the_start(tmp_path: Path, tool: Path) -> None:
    program = "import torch\ntorch.ones(64, 64) @ torch.ones(64, 64)\n"
    command = [sys.executable, "-m", "necropsy", "capture", "--why", "kernels", "--out", "run", "--no-report", "--"]
    done = subprocess.run([*command, sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    (trace,) = (tmp_path / "run").glob("trace-*")
    assert "aten::mm" in trace.read_text()
    assert "ProfilerStep" not in trace.read_text()
