"""Programs and scripts that shells and launchers could not start."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.shell_refusal import ShellRefusal

from necropsy.evidence._records import COMMON, RecordTable


class ShellRefusals(RecordTable[ShellRefusal]):
    """One row a refusal."""

    name = "shell_refusals"
    row = ShellRefusal
    accepts = (ShellRefusal,)
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "path": "the path or command",
        "reason": "in the system's words",
        "by": "who said it: bash, python, slurmstepd, ...",
    }
