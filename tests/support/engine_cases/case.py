"""What a case is, and short ways to say what must be found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.engine_cases.build import Layer, engine, profile

MODEL = Path(__file__).with_name("tagger.txt")
IO = ["image", "logits"]


@dataclass(frozen=True)
class EngineCase:
    """A fixture: its folder below `fixtures/rules`, files of `input.d`, keys of `expect.toml`, and where it is from."""

    name: str
    files: Mapping[str, str | bytes]
    expect: dict[str, object]
    origin: str
    source: bool = False


def timed(layers: list[Layer]) -> dict[str, str | bytes]:
    """An engine of TensorRT 8 to 10 with its profile."""
    return {"layers.json": engine(layers, IO), "profile.json": profile(layers)}


def fires(rule: str, severity: str, *says: str, **more: object) -> dict[str, object]:
    return {"rule": rule, "severity": severity, **more, "says": list(says)}


def silent(rule: str, worst: str = "note") -> dict[str, object]:
    return {"rule": rule, "worst": worst}
