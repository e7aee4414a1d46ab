"""A plan in words: for `--dry-run`, and as exports for job templates."""

from __future__ import annotations

import shlex
import textwrap
from typing import Final

from necropsy.capture.folder import without_secrets
from necropsy.capture.plan import COUNTERS, Plan, collectors

_WIDEST: Final = 12  # cells of a collector's name
_ROOM: Final = 66  # cells of what it collects


def dry(plan: Plan) -> str:
    """What would be run, with which environment, and what it would collect."""
    lines = [f"folder   {plan.folder}", f"command  {shlex.join(without_secrets(plan.command))}", "collect"]
    for collector in collectors():
        if collector.name in plan.collect:
            first, *more = textwrap.wrap(collector.what, _ROOM) or [""]
            lines.append(f"  {collector.name:<{_WIDEST}}{first}")
            lines += [" " * (_WIDEST + 2) + rest for rest in more]
    if COUNTERS.name in plan.collect:
        lines += ["then", "  ncu, which runs the command once more for the kernels that took the most time"]
    lines.append("environment")
    lines += [f"  {name}={shlex.quote(value)}" for name, value in sorted(plan.variables.items())]
    lines += [f"  {name} stays as you have set it" for name in plan.kept]
    return "\n".join(lines) + "\n"


def exports(plan: Plan) -> str:
    """`export NAME=VALUE` lines for the shell that starts the job on each node; folders must be the same there."""
    second = COUNTERS.name in plan.collect
    lines = [
        "# Put before the command of the job; necropsy must be installed at the same place on each node.",
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(plan.variables.items())),
        f"# Afterwards: necropsy analyze {shlex.quote(plan.folder)}",
        *(["# The second run under ncu is the launcher's: start one task with necropsy capture for it."] * second),
    ]
    return "\n".join(lines) + "\n"
