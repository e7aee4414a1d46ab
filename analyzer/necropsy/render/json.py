"""Report -> JSON (`schema: necropsy/1`), strictly: NaN and infinities become strings.

ASCII only, so that it survives any terminal, pipe or code page.
"""

from __future__ import annotations

import json
import math
from typing import Any

from necropsy.render import View
from necropsy.report import Report

NAME = "json"


def render(report: Report, view: View) -> str:
    """The whole report as one indented JSON document."""
    return dumps(report.to_json())


def dumps(value: Any) -> str:
    """Plain data as JSON text that ends in a newline."""
    return json.dumps(strict(value), indent=2, allow_nan=False) + "\n"


def strict(value: Any) -> Any:
    """`value` without floats that JSON cannot hold: a diverged loss is a fact, `"nan"`."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strict(item) for item in value]
    return value
