"""`[tool.necropsy]` of the nearest pyproject.toml, overridden by options -> `Config`.

[tool.necropsy]
select = ["OOM", "CRS015"]      # code prefixes; none = all rules
ignore = ["SYN"]
fail_on = "warning"
source = ["src"]                # folders, relative to the pyproject.toml
cache = false                   # do not keep large traces in the user's cache folder once they are read
[tool.necropsy.rules.OOM005]
some_setting = 3
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from necropsy.finding import Severity

if TYPE_CHECKING:
    from necropsy.rule import Rule

_KEYS: Final = ("select", "ignore", "fail_on", "source", "cache", "rules")
_EDITORS: Final = ("inputs", "path_mappings", "editor")  # read by the language server only


class ConfigError(ValueError):
    """The configuration cannot be used; the text is one sentence naming file and key."""


class Config(Struct, frozen=True):
    """What to judge and when to fail.

    `select` and `ignore` hold code prefixes, `source` folders that hold the user's
    sources, `rules` the settings of single rules by code, `origin` the file it was read
    from ("" for defaults). `jobs` is the number of processes that read traces, 0 for as many
    as pay; by default this one, since a caller may have threads that forbid to fork. `cache` says
    whether large traces are kept once they are read (`necropsy.trace_cache`).
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity = Severity.ERROR
    source: tuple[str, ...] = ()
    rules: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    origin: str = ""
    jobs: int = 1
    cache: bool = True

    def selects(self, code: str) -> bool:
        """Whether a rule is selected: the longer matching prefix wins, `ignore` on a tie."""
        chosen = _longest(code, self.select) if self.select else 0
        dropped = _longest(code, self.ignore)
        return chosen is not None and (dropped is None or dropped < chosen)

    def override(
        self,
        *,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        fail_on: str | None = None,
        source: Sequence[str] = (),
        jobs: int | None = None,
        cache: bool | None = None,
    ) -> Config:
        """With what the command line says instead. Raises `ConfigError`."""
        changed = self
        if select:
            changed = replace(changed, select=_codes(select))
        if ignore:
            changed = replace(changed, ignore=_codes(ignore))
        if fail_on is not None:
            changed = replace(changed, fail_on=_severity(fail_on, "option --fail-on"))
        if source:
            changed = replace(changed, source=_folders(source, Path.cwd(), "option --source"))
        if jobs is not None:
            changed = replace(changed, jobs=jobs)
        if cache is not None:
            changed = replace(changed, cache=cache)
        return changed

    def check(self, known: Iterable[Rule]) -> None:
        """Compare codes and settings with the rules that exist. Raises `ConfigError`."""
        by_code = {rule.code: rule for rule in known}
        where = f"{self.origin}: [tool.necropsy]" if self.origin else "configuration"
        check_codes(self.select, by_code, f"{where}: select")
        check_codes(self.ignore, by_code, f"{where}: ignore")
        for code, settings in self.rules.items():
            if code not in by_code:
                raise ConfigError(f"{self.origin}: [tool.necropsy.rules]: there is no rule {code}.")
            _check_settings(by_code[code], settings, f"{self.origin}: [tool.necropsy.rules.{code}]")


def check_codes(prefixes: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse a prefix with which no rule's code starts. Raises `ConfigError`."""
    for prefix in prefixes:
        if not any(code.startswith(prefix) for code in known):
            raise ConfigError(f"{where}: no rule code starts with {prefix!r}; `necropsy rules` lists them.")


def load_config(start: Path | None = None) -> Config:
    """The configuration that applies to a folder (default: the current one). Raises `ConfigError`."""
    for folder in _upwards(start or Path.cwd()):
        file = folder / "pyproject.toml"
        if file.is_file():
            return read_config(file)
    return Config()


def read_config(file: Path) -> Config:
    """`[tool.necropsy]` of one file; defaults without such a table. Raises `ConfigError`."""
    import tomllib  # half of this module's time, and most folders have no such file

    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}.") from error
    tool = document.get("tool", {})
    table = tool.get("necropsy", {}) if isinstance(tool, dict) else {}
    where = f"{file}: [tool.necropsy]"
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table.")
    for key in table:
        if key not in (*_KEYS, *_EDITORS):
            raise ConfigError(f"{where}: unknown key {key!r}; known are {', '.join((*_KEYS, *_EDITORS))}.")
    return Config(
        select=_codes(_strings(table, "select", where)),
        ignore=_codes(_strings(table, "ignore", where)),
        fail_on=_severity(table.get("fail_on", Severity.ERROR.label), f"{where}: fail_on"),
        source=_folders(_strings(table, "source", where), file.parent, f"{where}: source"),
        rules=_rule_tables(table.get("rules", {}), where),
        origin=str(file),
        cache=_switch(table.get("cache", True), f"{where}: cache"),
    )


def _upwards(folder: Path) -> list[Path]:
    here = folder.absolute()
    return [here, *here.parents]


def _longest(code: str, prefixes: Iterable[str]) -> int | None:
    return max((len(p) for p in prefixes if code.startswith(p)), default=None)


def _codes(texts: Iterable[str]) -> tuple[str, ...]:
    """Codes, of which one text may hold several: `OOM,crs015`."""
    return tuple(code.strip().upper() for text in texts for code in text.split(",") if code.strip())


def _strings(table: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{where}: {key} must be a list of strings, not {_kind(value)}.")
    return value


def _severity(value: object, where: str) -> Severity:
    try:
        return Severity.parse(value if isinstance(value, str) else "")
    except KeyError:
        names = ", ".join(s.label for s in reversed(Severity))
        raise ConfigError(f"{where} must be one of {names}, not {value!r}.") from None


def _switch(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where} must be true or false, not {_kind(value)}.")
    return value


def _folders(names: Iterable[str], base: Path, where: str) -> tuple[str, ...]:
    folders = tuple(str(base / os.path.expanduser(name)) for name in names)
    for folder in folders:
        if not os.path.isdir(folder):
            raise ConfigError(f"{where}: {folder} is not a folder.")
    return folders


def _rule_tables(value: object, where: str) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict) or not all(isinstance(item, dict) for item in value.values()):
        raise ConfigError(f"{where}: rules must hold one table of settings for each rule.")
    return {code.upper(): dict(settings) for code, settings in value.items()}


def _check_settings(rule: Rule, settings: Mapping[str, Any], where: str) -> None:
    from necropsy.rule import settings_of

    known = settings_of(rule)
    for name, value in settings.items():
        if name not in known:
            names = f"known are {', '.join(known)}" if known else "the rule has none"
            raise ConfigError(f"{where}: unknown setting {name!r}; {names}.")
        default = known[name][1]
        if not _fits(value, default):
            raise ConfigError(f"{where}: {name} must be {_kind(default)}, not {_kind(value)}.")


def _fits(value: object, default: object) -> bool:
    if isinstance(default, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, (tuple, list)):
        return isinstance(value, list) and all(_fits(item, default[0]) for item in value if default)
    return type(value) is type(default)


def _kind(value: object) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    names |= {list: "a list", tuple: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")
