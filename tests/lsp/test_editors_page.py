"""`docs/editors.md`: its snippets can be read, start the server, and its settings are those that exist."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from necropsy_lsp.edit import all_edits
from necropsy_lsp.settings import Settings, of_client

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "editors.md").read_text(encoding="utf-8")


def snippet(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)\n```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


@pytest.mark.parametrize("name", ["neovim", "emacs", "helix", "zed", "sublime"])
def test_each_set_up_starts_the_server(name: str) -> None:
    assert '"necropsy-lsp"' in snippet(name)


def test_settings_in_the_set_ups_are_taken() -> None:
    helix = tomllib.loads(snippet("helix"))
    zed = json.loads(snippet("zed"))
    sublime = json.loads(snippet("sublime"))["clients"]["necropsy"]
    nested: list[Any] = [
        helix["language-server"]["necropsy"]["config"],
        zed["lsp"]["pylsp"]["initialization_options"],
        {"necropsy": {key.removeprefix("necropsy."): value for key, value in sublime["settings"].items()}},
    ]
    for given in map(of_client, nested):
        assert dict(given.values) == {"inputs": ()}
        assert given.complaints == ()
    assert helix["language"][0]["language-servers"][0] in helix["language-server"]
    assert zed["languages"]["Python"]["language_servers"][0] in zed["lsp"]


def test_every_setting_is_described() -> None:
    table = PAGE[PAGE.index("## Settings") : PAGE.index("## Commands")]
    described = {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert described == {camel(field.name) for field in msgspec.structs.fields(Settings)}


def test_every_edit_is_named() -> None:
    for edit in all_edits():
        assert edit in PAGE
