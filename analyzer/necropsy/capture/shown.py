"""A plan in words: for `--dry-run`, and as exports for job templates."""

from __future__ import annotations

import shlex
from typing import Final

from necropsy.capture.folder import without_secrets
from necropsy.capture.plan import COLLECTORS, Plan

_WIDEST: Final = 14  # cells of a collector's name


def dry(plan: Plan) -> str:
    """What would be run, with which environment, and what it would collect."""
    lines = [f"folder   {plan.folder}", f"command  {shlex.join(without_secrets(plan.command))}", "collect"]
    for collector in COLLECTORS:
        if collector.name in plan.collect:
            lines.append(f"  {collector.name:<{_WIDEST}}{collector.what}")
    lines.append("environment")
    lines += [f"  {name}={shlex.quote(value)}" for name, value in sorted(plan.variables.items())]
    lines += [f"  {name} stays as you have set it" for name in plan.kept]
    return "\n".join(lines) + "\n"


def exports(plan: Plan) -> str:
    """`export NAME=VALUE` lines for the shell that starts the job on each node; folders must be the same there."""
    lines = [
        "# Put before the command of the job; necropsy must be installed at the same place on each node.",
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(plan.variables.items())),
        f"# Afterwards: necropsy analyze {shlex.quote(plan.folder)}",
    ]
    return "\n".join(lines) + "\n"
