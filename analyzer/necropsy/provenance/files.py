"""Files named by a log, found on this machine.

Paths in inputs come from another machine. A local file stands for one of them if it
ends in the same names *and* holds, on the quoted lines, what the log quoted. The search
looks under `--source` folders, the working folder and the project around the input, in
a bounded number of entries; it reads sources, never imports them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from necropsy.finding import Place
from necropsy.provenance.paths import MAX_SOURCE, lines_of, quotes, shared

SKIP: Final = frozenset(
    {"node_modules", "__pycache__", "site-packages", "dist-packages", "venv", "env", "build", "dist"}
)
MARKERS: Final = (".git", "pyproject.toml", "setup.py", "setup.cfg", ".hg")
ENTRIES: Final = 4000  # directory entries looked at in folders nobody named; 20 ms on a warm disk
ENTRIES_NAMED: Final = 200_000
UPWARDS: Final = 3  # folders above an input that are tried


class SourceTree:
    """Finds and reads the sources that a log names.

    `named` are folders the user gave; `inputs` the inputs analyzed, whose surroundings
    are searched too. `quoted` maps a file of the log to its quoted lines.
    """

    def __init__(
        self,
        named: Sequence[str] = (),
        inputs: Sequence[str] = (),
        quoted: Mapping[str, Mapping[int, str]] | None = None,
    ) -> None:
        self._named = [Path(n) for n in named]
        self._inputs = list(inputs)
        self._quoted = quoted if quoted is not None else {}
        self._learnt: dict[str, dict[int, str]] = {}
        self._index: dict[str, list[Path]] | None = None
        self._resolved: dict[str, Path | None] = {}
        self._text: dict[Path, list[str]] = {}

    def path(self, file: str) -> Path | None:
        """The local file that stands for `file`, or None."""
        if file not in self._resolved:
            self._resolved[file] = self._find(file)
        return self._resolved[file]

    def lines(self, file: str) -> list[str]:
        """The lines of the local file that stands for `file`; empty if there is none."""
        path = self.path(file)
        return self._read(path) if path is not None else []

    def excerpt(self, place: Place, before: int = 2, after: int = 1) -> list[tuple[int, str]]:
        """(line number, text) around a place; empty if the source is not here or has changed."""
        lines = self.lines(place.file)
        if place.line is None or not 1 <= place.line <= len(lines):
            return []
        if place.exactness != "function" and place.text.strip() and not quotes(lines[place.line - 1], place.text):
            return []
        first = max(1, place.line - before)
        return [(n, lines[n - 1]) for n in range(first, min(len(lines), place.line + after) + 1)]

    def rivals(self, file: str) -> list[Path]:
        """Other local files that are named like `file` as much as the one that stands for it, and fit as well."""
        own = self.path(file)
        if own is None or own == Path(file):
            return []
        parts = file.replace("\\", "/").split("/")
        here = own.absolute()
        named = [n.absolute() for n in self._named]
        inside = [n for n in named if n in here.parents]
        return [
            p for p in self._names().get(parts[-1], [])
            if p.absolute() != here and shared(p.parts, parts) == shared(own.parts, parts)
            and self._confirmed(p, file) == self._confirmed(own, file)
            and (not inside or any(n in p.absolute().parents for n in named))
        ]  # fmt: skip

    def nearest(self, file: str) -> Path | None:
        """The local file that is named most like `file`, whatever it holds; None where several or none are."""
        found = self.candidates(file)
        return found[0] if len(found) == 1 else None

    def read(self, path: Path) -> list[str]:
        """The lines of a local file; empty for what cannot be read."""
        return self._read(path)

    def candidates(self, file: str) -> list[Path]:
        """Local files that may stand for `file`, for callers who can tell by their content: the most alike paths.

        What lies in a folder that the user named goes before what lies around.
        """
        if file.startswith("<"):
            return []
        parts = file.replace("\\", "/").split("/")
        own = Path(file)
        if own.is_absolute() and own.is_file():
            return [own]
        found = self._names().get(parts[-1], [])
        named = {n.absolute() for n in self._named}
        alike = {c: shared(c.parts, parts) for c in found if named & set(c.absolute().parents)}
        alike = alike or {c: shared(c.parts, parts) for c in found}
        return [c for c, common in alike.items() if common == max(alike.values())]

    def python_files(self, limit: int) -> list[Path]:
        """Sources below the folders that the user named; if none was named, those around the inputs."""
        names = self._names()
        named = {n.absolute() for n in self._named}
        every = [p for paths in names.values() for p in paths if p.suffix == ".py"]
        if named:
            every = [p for p in every if named & set(p.absolute().parents)]
        return every[:limit]

    def notebooks(self, limit: int) -> list[Path]:
        """Notebooks below the folders that the user named, then those around the inputs."""
        return [p for paths in self._names().values() for p in paths if p.suffix == ".ipynb"][:limit]

    def text(self, path: Path) -> str:
        """A source as it is, line ends included; "" for what cannot be read."""
        try:
            data = path.read_bytes() if path.stat().st_size <= MAX_SOURCE else b""
        except OSError:
            data = b""
        return data.decode("utf-8", "replace")

    def learn(self, places: Iterable[Place]) -> None:
        """What places quote of files of which no traceback quoted anything: it, too, can confirm a local file."""
        known = set(self._quoted)
        told: dict[str, dict[int, str]] = {}
        for p in places:
            text = p.text.strip()
            if text and "\n" not in text and p.line is not None and p.exactness == "line" and p.file not in known:
                told.setdefault(p.file, {})[p.line] = text
        for file, lines in told.items():
            if self._resolved.get(file) is None:
                self._resolved.pop(file, None)
                self._learnt.setdefault(file, {}).update(lines)

    def stands_for(self, file: str, path: Path) -> None:
        """From now on `path` is the local file of `file`."""
        self._resolved[file] = path

    # -- finding --------------------------------------------------------------

    def _find(self, file: str) -> Path | None:
        if file.startswith("<"):
            return None
        parts = file.replace("\\", "/").split("/")
        own = Path(file)
        candidates = [own] if own.is_absolute() and own.is_file() else []
        candidates += self._names().get(parts[-1], [])
        # Of files that are named alike, those go first that lie where the user said.
        named = {n.absolute() for n in self._named}
        ranked = sorted(
            {c: shared(c.parts, parts) for c in candidates}.items(),
            key=lambda kv: (-kv[1], kv[0] != own and not named & set(kv[0].absolute().parents)),
        )
        for path, common in ranked:
            verdict = self._confirmed(path, file)
            if verdict or (verdict is None and (path == own or common >= 2)):
                return path
        return None

    def _confirmed(self, path: Path, file: str) -> bool | None:
        """Whether the quoted lines stand in `path`; None if nothing was quoted."""
        told = self._quoted.get(file) or self._learnt.get(file, {})
        quoted = {n: t.strip() for n, t in told.items() if t.strip()}
        if not quoted:
            return None
        lines = self._read(path)
        return all(n <= len(lines) and _same(lines[n - 1], text) for n, text in quoted.items())

    def _read(self, path: Path) -> list[str]:
        if path not in self._text:
            self._text[path] = lines_of(path)
        return self._text[path]

    def _names(self) -> dict[str, list[Path]]:
        if self._index is None:
            self._index = {}
            for root in self._named:
                self._walk(root, ENTRIES_NAMED)
            for root in self._surroundings():
                self._walk(root, ENTRIES)
        return self._index

    def _surroundings(self) -> Iterator[Path]:
        """The project around each input, then the working folder: up to a marker, never the home or `/`.

        The order decides between equal candidates: what lies nearest to the input is meant.
        """
        seen: set[Path] = set()
        for start in [*(Path(os.path.abspath(i)).parent for i in self._inputs[:4] if i != "-"), Path.cwd()]:
            folder = start
            for _ in range(UPWARDS + 1):
                if folder in seen or folder in (Path.home(), Path(folder.anchor)) or not folder.is_dir():
                    break
                seen.add(folder)
                yield folder
                if any((folder / m).exists() for m in MARKERS):
                    break
                folder = folder.parent

    def _walk(self, root: Path, budget: int) -> None:
        assert self._index is not None
        queue = deque([root])
        while queue and budget > 0:
            folder = queue.popleft()
            try:
                entries = sorted(os.scandir(folder), key=lambda e: e.name)
            except OSError:
                continue
            budget -= len(entries)
            for entry in entries:
                if entry.name.startswith(".") or entry.name in SKIP:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    queue.append(Path(entry.path))
                elif entry.name.endswith((".py", ".ipynb")):
                    found = self._index.setdefault(entry.name, [])
                    if (path := Path(entry.path)) not in found:
                        found.append(path)


def _same(line: str, quoted: str) -> bool:
    """Equal but for white space; the log may have cut a long line."""
    line = " ".join(line.split())
    text = " ".join(quoted.split())
    return line == text or (len(text) > 60 and line.startswith(text[:60]))
