"""What to analyze and under which name: paths of a workspace and documents to requests."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec import Struct
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from necropsy_lsp.analysis import Request

if TYPE_CHECKING:
    from necropsy_lsp.server import NecropsyServer


class Target(Struct, frozen=True):
    """One analysis: the `source` it is published under, how it is `called`, the request."""

    source: str
    called: str
    request: Request


def folder_of(path: Path, folders: Iterable[Path]) -> Path:
    """The innermost workspace folder that holds a file, else the folder the file is in."""
    around = [folder for folder in folders if path.is_relative_to(folder)]
    return max(around, key=lambda folder: len(folder.parts), default=path.parent)


def open_document(server: NecropsyServer, uri: str) -> TextDocument | None:
    """The document that the client has open under a URI, however it is quoted."""
    found: TextDocument | None = server.workspace.text_documents.get(unquote(uri))  # pygls' own key
    return found


def path_target(path: Path, server: NecropsyServer) -> Target:
    """A file or folder on disk, named from its workspace folder on."""
    folder = folder_of(path, server.folders())
    settings = server.session.settings_for(folder)
    inside = path.relative_to(folder).as_posix()
    # A name such as `-` would mean standard input.
    name = os.path.join(".", inside) if inside.startswith("-") else inside
    return Target(f"input:{path}", inside, Request(name, folder, None, settings.select, settings.ignore))


def text_target(document: TextDocument, server: NecropsyServer) -> Target:
    """The text of an open document, saved or not; a document that is no file is named by its URI."""
    folders = server.folders()
    found = to_fs_path(document.uri)
    if found is None or not os.path.isabs(found):
        folder = folders[0] if folders else Path.home()
        called = document.uri
    else:
        folder = folder_of(Path(found), folders)
        called = Path(found).relative_to(folder).as_posix()
        if not folder.is_dir():  # a new file in a folder that is not there yet
            folder, called = next(iter(folders), Path.home()), found
    settings = server.session.settings_for(folder)
    request = Request("-", folder, document.source, settings.select, settings.ignore)
    return Target(f"open:{document.uri}", called, request)


def grounds(server: NecropsyServer) -> object:
    """What the outcome of analyses rests on besides the inputs: equal as long as none of it changed."""
    found = []
    for folder in server.folders():
        settings = server.session.settings_for(folder)
        try:
            stamp = (folder / "pyproject.toml").stat().st_mtime_ns
        except OSError:
            stamp = 0
        found.append((folder, settings.inputs, settings.select, settings.ignore, stamp))
    return found
