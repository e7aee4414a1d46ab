"""Fixtures shared by all tests: where the checkout is, and the captures that may lie beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["NECROPSY_STRICT"] = "1"  # a rule that fails, fails its test

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the checkout: captures of real runs, too large to ship here."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no folder `shared` beside the checkout (captures of real runs are not shipped)")
    return folder
