"""What the wheel ships, and how it behaves once installed next to hostile names."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("necropsy", "necropsy_lsp", "necropsy_parsers")
FOLDERS = ("analyzer", "parsers", "lsp")
HEAVY = ("dask", "jinja2", "matplotlib", "numpy", "onnx", "pandas", "plotly", "pygls", "torch")
OOM_LOG = ROOT / "fixtures" / "incidents" / "oom" / "run.log"


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run without what would lead Python to the checkout instead of the installed wheel."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONUTF8"] = "1"
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout with what is installed."""
    folder = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that holds the wheel; dependencies come from this one."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    made = run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    assert made.returncode == 0, made.stderr
    bin_folder = home / "bin"
    pip = (sys.executable, "-m", "pip", "--python", bin_folder / "python")
    done = run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=home)
    assert done.returncode == 0, done.stderr
    asked = run(bin_folder / "python", "-c", "import sysconfig as s; print(s.get_path('purelib'))", cwd=home)
    site = Path(asked.stdout.strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return bin_folder


def test_top_level_names(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)
    assert len(top) == len(PACKAGES) + 1


def test_every_module_of_the_checkout_is_shipped(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if name.endswith((".py", ".typed"))}
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    expected = {"/".join(path.relative_to(ROOT).parts[1:]) for path in sources}
    assert shipped == expected | {f"{package}/py.typed" for package in PACKAGES}


def test_console_scripts(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/entry_points.txt"))
        declared = archive.read(name).decode().split("\n")
    assert sorted(line for line in declared if "=" in line) == [
        "analyze = necropsy.commands:analyze_main",
        "necropsy = necropsy.commands:main",
        "necropsy-lsp = necropsy_lsp.__main__:main",
    ]


def test_no_user_needs_torch_or_tensorrt(metadata: Message) -> None:
    """Capture runs in the user's own environment; a pin of ours would replace their torch."""
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra == 'test'" not in line]
    assert needed
    assert [line for line in needed if line.startswith(("torch", "tensorrt"))] == []


def test_metadata(metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    extras = {"all", "capture", "cluster", "html", "lsp", "ncu", "plot", "tensorrt", "test"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras


@pytest.mark.parametrize("module", FOLDERS)
def test_no_generic_name_is_installed(scripts: Path, tmp_path: Path, module: str) -> None:
    done = run(scripts / "python", "-c", f"import {module}", cwd=tmp_path)
    assert "ModuleNotFoundError" in done.stderr


def test_the_console_script_ignores_what_lies_in_the_working_directory(scripts: Path, tmp_path: Path) -> None:
    for name in (*FOLDERS, *PACKAGES, "rich"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(99)\n", encoding="utf-8")
    for name in ("dataclasses.py", "typing.py", "sitecustomize.py"):
        (tmp_path / name).write_text("raise SystemExit(99)\n", encoding="utf-8")
    done = run(scripts / "analyze", OOM_LOG, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "OOM005" in done.stdout


def test_a_cold_analyze_loads_no_heavy_library(scripts: Path, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from necropsy.commands import analyze_main\n"
        f"sys.argv = ['analyze', {str(OOM_LOG)!r}]\n"
        "try:\n    analyze_main()\n"
        f"finally:\n    print('loaded:', sorted({set(HEAVY)!r} & sys.modules.keys()), file=sys.stderr)\n"
    )
    done = run(scripts / "python", "-c", program, cwd=tmp_path)
    assert done.stderr == "loaded: []\n", done.stderr
