"""The run folder: what the manifest says, what it must not say, and what is read of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import necropsy
from necropsy import api
from necropsy.capture.folder import FolderError, default_folder, make, steering, task, without_secrets
from necropsy.capture.plan import BOOTSTRAP, QUESTIONS, SETTINGS, collectors, plan
from necropsy.capture.shown import dry, exports


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["python", "train.py", "--lr", "3e-4"], ["python", "train.py", "--lr", "3e-4"]),
        (
            ["python", "t.py", "--api-key", "abc", "--epochs", "3"],
            ["python", "t.py", "--api-key", "***", "--epochs", "3"],
        ),
        (["t.py", "--hub_token=abc"], ["t.py", "--hub_token=***"]),
        (["t.py", "password=abc", "data=x"], ["t.py", "password=***", "data=x"]),
        (["t.py", "--use-auth", "--lr", "1"], ["t.py", "--use-auth", "--lr", "1"]),
        (["t.py", "--store", "s3://user:pw@host/x"], ["t.py", "--store", "s3://***@host/x"]),
        (["t.py", "--monkey", "x", "--tokenizer-file", "y"], ["t.py", "--monkey", "x", "--tokenizer-file", "y"]),
    ],
)
def test_secrets_of_the_command_are_hidden(command: list[str], shown: list[str]) -> None:
    assert without_secrets(command) == shown


def test_the_environment_holds_what_steers_and_no_secret() -> None:
    kept = {"CUDA_LAUNCH_BLOCKING": "1", "NCCL_DEBUG": "INFO", "RANK": "3", "OMP_NUM_THREADS": "4", "TORCH_LOGS": "all"}
    dropped = {
        "HOME": "/home/trainer", "PATH": "/bin", "NCCL_AUTH_TOKEN": "x", "TORCH_HUB_KEY": "x", "AWS_SECRET": "x",
        "WANDB_API_KEY": "x", "MYRANK": "1", SETTINGS: "{}",
    }  # fmt: skip
    assert steering({**kept, **dropped}) == kept


@pytest.mark.parametrize(
    ("environment", "number"),
    [
        ({}, None),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}, 3),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, None),
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 1),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6"}, 5),
        ({"RANK": "x", "WORLD_SIZE": "2"}, None),
    ],
)
def test_one_of_many_launchers_knows_its_number(environment: dict[str, str], number: int | None) -> None:
    assert task(environment) == number


def test_tasks_of_a_slurm_job_agree_on_a_folder() -> None:
    assert default_folder({"SLURM_JOB_ID": "4411"}) == "run-4411"
    assert default_folder({}).startswith("run-2")


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "new" / "run")
    make(tmp_path / "new" / "run")
    (tmp_path / "new" / "run" / "manifest.json").write_text("{}")
    with pytest.raises(FolderError, match="not empty"):
        make(tmp_path / "new" / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="cannot write"):
        make(tmp_path / "file" / "run")


def test_a_question_decides_what_is_collected(tmp_path: Path) -> None:
    where = str(tmp_path)
    assert plan(["x"], where, environment={}).collect == ("logs", "trace", "profiler", "marks", "nccl")
    crash = plan(["x"], where, why="crash", environment={})
    assert crash.collect == ("logs", "nccl", "memory")
    assert crash.variables["PYTHONFAULTHANDLER"] == "1"
    chosen = plan(["x"], where, why="slow", collect=["nvtx"], options={"skip": 0, "steps": None}, environment={})
    settings = json.loads(chosen.variables[SETTINGS])
    assert settings == {"folder": where, "collect": {"marks": ["torch"]}, "skip": 0, "nvtx": True}
    with pytest.raises(ValueError, match="slow, crash"):
        plan(["x"], where, why="fast")
    with pytest.raises(ValueError, match="logs, marks"):
        plan(["x"], where, collect=["everything"])


def test_collectors_are_found_by_their_files() -> None:
    files = (BOOTSTRAP / "_necropsy_capture" / "collectors").glob("[a-z]*.py")
    found = {c.name: c for c in collectors()}
    assert set(found) == {"nvtx"} | {path.stem for path in files}
    assert all(c.what.endswith(".") or c.what for c in found.values())
    assert found["logs"].awaits == ("torch",)
    assert {name for q in QUESTIONS for name in q.collect} - {"tensorrt"} <= set(found)


def test_what_the_user_has_set_stays(tmp_path: Path) -> None:
    before = {"PYTHONFAULTHANDLER": "0", "PYTHONPATH": f"{BOOTSTRAP}:/data/lib"}
    made = plan(["x"], str(tmp_path), why="crash", environment=before)
    assert made.kept == ("PYTHONFAULTHANDLER",)
    assert "PYTHONFAULTHANDLER" not in made.variables
    assert made.variables["PYTHONPATH"] == f"{BOOTSTRAP}:/data/lib"
    # An empty entry would put the current folder on the path of every Python process.
    assert plan(["x"], str(tmp_path), environment={}).variables["PYTHONPATH"] == str(BOOTSTRAP)


def test_a_plan_in_words(tmp_path: Path) -> None:
    made = plan(
        ["python", "my train.py", "--token", "abc"], str(tmp_path), why="crash", environment={"PYTHONFAULTHANDLER": "0"}
    )
    text = dry(made)
    assert "python 'my train.py' --token '***'" in text
    assert "PYTHONFAULTHANDLER stays as you have set it" in text
    assert "abc" not in text
    lines = exports(made).splitlines()
    assert f"export PYTHONPATH={BOOTSTRAP}" in lines
    assert any(line.startswith("export NECROPSY_CAPTURE='{") for line in lines)


def test_a_manifest_is_read(root: Path) -> None:
    evidence = necropsy.load(str(root / "fixtures" / "formats" / "capture_run" / "manifest"))
    run = evidence.captured_runs.iloc[0]
    assert (run.command, run.status, run.seconds) == ("python train.py --lr 3e-4", 137, 0.01)
    settings = dict(zip(evidence.environment.name, evidence.environment.value, strict=True))
    assert settings["NCCL_DEBUG"] == "WARN"
    assert settings["torch"] == "2.11.0+cu130"
    notes = evidence.collector_notes
    assert list(notes.what) == ["started", "recording", "recorded"]
    assert notes.facts.iloc[2]["steps"] == "4"


@pytest.mark.parametrize("printed", ["", "step 1 loss 0.3\nstep 2 loss 0.2\n"])
@pytest.mark.parametrize(("status", "rule"), [(137, "CRS014"), (143, "CRS005"), (0, "")])
def test_how_the_job_ended_is_told(tmp_path: Path, status: int, rule: str, printed: str) -> None:
    data = {"schema": "necropsy-capture/1", "command": ["x"], "passes": [{"name": "job", "status": status}]}
    (tmp_path / "manifest.json").write_text(json.dumps(data, indent=1))
    if printed:
        (tmp_path / "output.log").write_text(printed)
    assert [f.rule for f in api.analyze(str(tmp_path)).findings] == ([rule] if rule else [])


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": "necropsy-capture/1", "passes": [{"status": "x"}, 3], "environment": [1], "command": {}}',
        '{"schema": "necropsy-capture/1"',
        '{"schema": "necropsy-process/1", "notes": {"a": 1}, "pid": "x", "rank": true}',
        '{"schema": "necropsy-process/1", "notes": [null, {"what": {}}]}',
    ],
)
def test_a_damaged_manifest_is_no_fault(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    report = api.analyze(str(tmp_path))
    assert [i.format for i in report.inputs] == ["capture_process" if "process" in text else "capture_run"]
