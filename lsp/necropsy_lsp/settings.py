"""Settings of the client (`necropsy.*`) over those of the project (`[tool.necropsy]`) to one `Settings`.

The client's names are the fields of `Settings` in camel case. In a `pyproject.toml` they
are in snake case: `select`, `ignore`, `inputs` and `path_mappings` in `[tool.necropsy]`,
the others in `[tool.necropsy.editor]`. What cannot be used is said and has its default.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from necropsy.config import Config

LEVELS: Final = ("error", "warning", "information", "hint", "off")
_ENGINE: Final = ("fail_on", "source", "rules", "editor")  # keys of `[tool.necropsy]` that are not read here
_MOST: Final = 10_000  # diagnostics of one document


class Settings(Struct, frozen=True):
    """What to show and how.

    `inputs`: globs of logs and traces to watch and analyze, relative to a workspace folder.
    `select`, `ignore`: prefixes of rule codes. `path_mappings`: start of a path in a report
    -> local folder, relative to a workspace folder or absolute. `pull`: answer the client's
    requests for diagnostics where it makes such; `push`: send them where it does not.
    `inlay_hints`, `code_lens`: whether those are shown. `stale`: whether findings are shown
    whose line has changed since the run. `severities`: prefix of a rule code -> one of
    `LEVELS`. `max_findings`: how many are shown at most in one document.
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

    def shows(self, code: str) -> bool:
        """Whether findings of the rule are shown."""
        chosen = Config(select=_codes(self.select), ignore=_codes(self.ignore)).selects(code)
        return chosen and self.level(code) != "off"

    def level(self, code: str) -> str | None:
        """The severity that the settings give to a rule: that of the longest prefix; None for the finding's own."""
        fitting = [prefix for prefix in self.severities if prefix and code.startswith(prefix.upper())]
        return self.severities[max(fitting, key=len)] if fitting else None


class Given(Struct, frozen=True):
    """Settings that somebody gave, by field name, and a sentence for each that cannot be used."""

    values: Mapping[str, Any] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()

    def over(self, base: Settings) -> Settings:
        """`base` with these instead."""
        return replace(base, **self.values)


def of_client(value: object) -> Given:
    """What a client sent: an object of settings, or one that holds it under `necropsy`."""
    if isinstance(value, Mapping) and isinstance(value.get("necropsy"), Mapping):
        value = value["necropsy"]
    if not isinstance(value, Mapping):
        return Given()
    return _checked({_snake(str(k)): (f"necropsy.{k}", v) for k, v in value.items() if v is not None})


def of_project(folder: Path) -> Given:
    """What the nearest `pyproject.toml` says, from `folder` upwards."""
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            return _of_file(file)
    return Given()


def _of_file(file: Path) -> Given:
    try:
        tool = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        return Given(complaints=(f"{file}: cannot be read: {error}. Its settings are not used.",))
    table = tool.get("necropsy", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        return Given(complaints=(f"{file}: [tool.necropsy] must be a table. It is not used.",))
    editor = table.get("editor", {})
    where = f"{file}: [tool.necropsy]"
    named = {k: (f"{where} {k}", v) for k, v in table.items() if k not in _ENGINE}
    if not isinstance(editor, dict):
        given = _checked(named)
        return Given(given.values, (*given.complaints, f"{where} editor must be a table. It is not used."))
    for key, value in editor.items():
        named[key] = (f"{file}: [tool.necropsy.editor] {key}", value)
    return _checked(named)


def _checked(named: Mapping[str, tuple[str, Any]]) -> Given:
    """The values that fit, by field; the name that the user knows goes into the complaints."""
    kinds = {name: str(kind) for name, kind in Settings.__annotations__.items()}
    values: dict[str, Any] = {}
    complaints: list[str] = []
    for key, (name, value) in named.items():
        if key not in kinds:
            # A client's section also holds settings of its own, such as the path of the server.
            if name.startswith("necropsy."):
                continue
            complaints.append(f"{name}: there is no such setting. It is ignored.")
            continue
        try:
            values[key] = _fitted(kinds[key], key, value)
        except ValueError as error:
            complaints.append(f"{name} {error}. The default is used.")
    return Given(values, tuple(complaints))


def _fitted(kind: str, key: str, value: Any) -> Any:
    """The value as the field holds it. Raises `ValueError` with what it must be."""
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "int" and isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST:
        return value
    if kind.startswith("tuple") and isinstance(value, list) and all(isinstance(v, str) for v in value):
        return tuple(value)
    if kind.startswith("Mapping") and isinstance(value, Mapping) and _strings(value):
        if key != "severities" or all(v in LEVELS for v in value.values()):
            return dict(value)
        raise ValueError(f"must hold only {', '.join(LEVELS)}")
    wanted = {"bool": "true or false", "int": f"a number from 1 to {_MOST}", "tuple": "a list of strings"}
    raise ValueError(f"must be {wanted.get(kind.partition('[')[0], 'a table of strings')}")


def _strings(value: Mapping[Any, Any]) -> bool:
    return all(isinstance(k, str) and isinstance(v, str) for k, v in value.items())


def _codes(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_split(texts))


def _split(texts: tuple[str, ...]) -> Iterator[str]:
    for text in texts:
        yield from (code.strip().upper() for code in text.split(",") if code.strip())


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda m: "_" + m[1].lower(), name)
