"""The VS Code extension's manifest against the server: settings, commands, translations."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from necropsy_lsp.features import commands, findings, show
from necropsy_lsp.settings import LEVELS, Settings

FOLDER = Path(__file__).parents[2] / "vscode-extension"
OWN = {"interpreter", "heat", "trace.server"}  # settings that the client reads itself


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    return data


def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((FOLDER / "src").rglob("*.ts")))


def camel(name: str) -> str:
    return re.sub("_([a-z])", lambda m: m[1].upper(), name)


def settings(manifest: dict[str, Any]) -> dict[str, Any]:
    properties = manifest["contributes"]["configuration"]["properties"]
    return {name.removeprefix("necropsy."): value for name, value in properties.items()}


def test_the_settings_are_those_of_the_server(manifest: dict[str, Any]) -> None:
    told = settings(manifest)
    assert set(told) - OWN == {camel(name) for name in Settings.__struct_fields__}


def test_their_defaults_are_those_of_the_server(manifest: dict[str, Any]) -> None:
    defaults = Settings()
    for name in Settings.__struct_fields__:
        value = getattr(defaults, name)
        expected = list(value) if isinstance(value, tuple) else value
        assert settings(manifest)[camel(name)]["default"] == expected, name


def test_severities_are_those_of_the_server(manifest: dict[str, Any]) -> None:
    assert tuple(settings(manifest)["severities"]["additionalProperties"]["enum"]) == LEVELS


def test_the_interpreter_of_an_untrusted_workspace_is_not_used(manifest: dict[str, Any]) -> None:
    trust = manifest["capabilities"]["untrustedWorkspaces"]
    assert trust["supported"] == "limited"
    assert "necropsy.interpreter" in trust["restrictedConfigurations"]
    assert manifest["extensionKind"] == ["workspace"]


def test_what_the_extension_asks_is_what_the_server_answers() -> None:
    modules = (commands, findings, show)
    known = {value for module in modules for value in vars(module).values() if str(value).startswith("necropsy.")}
    asked = set(re.findall(r'ask(?:<[^>]*>)?\(\s*"(necropsy\.[A-Za-z]+)"', sources()))
    asked |= set(re.findall(r'"(necropsy\.analyze(?:File|Folder))"', sources()))
    assert asked
    assert asked <= known


def test_commands_are_registered_and_never_those_of_the_server(manifest: dict[str, Any]) -> None:
    told = {entry["command"] for entry in manifest["contributes"]["commands"]}
    assert told == set(re.findall(r'registerCommand\(\s*"([^"]+)"', sources()))
    modules = (commands, findings, show)
    assert not told & {str(value) for module in modules for value in vars(module).values()}


@pytest.mark.parametrize("language", ["", ".zh-cn"])
def test_every_text_of_the_manifest_is_there(manifest: dict[str, Any], language: str) -> None:
    texts = json.loads((FOLDER / f"package.nls{language}.json").read_text(encoding="utf-8"))
    assert set(re.findall(r'"%([^%"]+)%"', json.dumps(manifest))) == set(texts)
    assert all(texts.values())


def test_every_text_of_the_code_is_translated() -> None:
    told = {ast.literal_eval(text) for text in re.findall(r'\bt\(\s*("(?:[^"\\]|\\.)*")', sources())}
    translated = json.loads((FOLDER / "l10n" / "bundle.l10n.zh-cn.json").read_text(encoding="utf-8"))
    assert told == set(translated)
    for text, meaning in translated.items():
        assert sorted(re.findall(r"\{\d\}", text)) == sorted(re.findall(r"\{\d\}", meaning)), text


def test_every_setting_and_command_is_in_the_readme(manifest: dict[str, Any]) -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    english = json.loads((FOLDER / "package.nls.json").read_text(encoding="utf-8"))
    for name in settings(manifest):
        assert f"`necropsy.{name}`" in page, name
    for entry in manifest["contributes"]["commands"]:
        if entry["command"] != "necropsy.menu":
            assert english[entry["title"].strip("%")] in page, entry["command"]


def test_the_manifest_has_the_version_of_the_engine(manifest: dict[str, Any]) -> None:
    from necropsy import __version__

    assert manifest["version"] == __version__


def test_no_address_of_a_registry_is_recorded() -> None:
    assert '"resolved"' not in (FOLDER / "package-lock.json").read_text(encoding="utf-8")


def test_sources_are_small() -> None:
    for path in (FOLDER / "src").rglob("*.ts"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 200, path
