"""Scripts among the inputs are no logs of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from necropsy_parsers.sniff import sniff

from necropsy.api import analyze

SCRIPT = '''"""Trains."""
import torch


def check(loss):
    assert not torch.isnan(loss), "loss is nan"
    raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")


print("loss: nan")
# loss: nan
'''
LOG = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    f()\nValueError: no\n'


def test_a_script_beside_the_log_accuses_nobody(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "run.log").write_text("step 1 loss 0.5\nstep 2 loss 0.4\n", encoding="utf-8")
    report = analyze([str(tmp_path)])
    assert report.findings == []
    assert {i.format for i in report.inputs} == {"log", "python_source"}


@pytest.mark.parametrize(
    ("name", "text", "format"),
    [
        ("train.py", SCRIPT, "python_source"),
        ("run.tar!src/net.py", "# a net\nfrom torch import nn\n", "python_source"),
        ("run.log", SCRIPT, "log"),
        ("train.py", LOG, "log"),
        ("run.py", "epoch 1\nimport of data done\n", "log"),
        ("run.py.log", SCRIPT, "log"),
    ],
)
def test_by_name_and_content(name: str, text: str, format: str) -> None:
    claim = sniff(text.encode(), name)
    assert claim is not None
    assert claim.format.name == format
