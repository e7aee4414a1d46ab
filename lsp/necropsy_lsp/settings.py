"""Settings of the client (`necropsy.*`) and of `[tool.necropsy]` to one `Settings`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Settings:
    """What to show and how; the client's names are those below in camel case.

    `inputs`: globs of logs and traces to watch and analyze, relative to a workspace folder.
    `select`, `ignore`: prefixes of rule codes. `path_mappings`: prefix of a path in a report
    -> local folder. `pull`: answer the client's requests for diagnostics where it can ask;
    `push`: send them otherwise. `inlay_hints`, `code_lens`: whether those are shown.
    `severities`: prefix of a rule code -> `error`, `warning`, `information`, `hint` or `off`.
    `max_findings`: how many are shown at most in one document.
    """

    inputs: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    path_mappings: Mapping[str, str] = field(default_factory=dict)
    pull: bool = True
    push: bool = True
    inlay_hints: bool = True
    code_lens: bool = True
    stale: bool = True
    severities: Mapping[str, str] = field(default_factory=dict)
    max_findings: int = 1000
