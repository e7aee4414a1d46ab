"""Which code is the user's, and what its lines are called.

A mark's name is `necropsy:pkg/train.py:63`: the prefix, the file relative to the folder that the job was started in (or
to the entry of `sys.path` that holds it), the line. Folders outside these, which may say more than a trace should,
are never part of a name; the line's text is not either.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType

PREFIX = "necropsy:"
# Folders of installed packages, and of code that compilers generate (torch/_inductor/runtime/cache_dir_utils.py;
# triton/runtime/cache.py), wherever they are.
_FOREIGN = ("site-packages", "dist-packages", ".triton", "torch_compile_debug")
_GENERATED = "torchinductor_"
# What torch's compiler puts into the frames that it rewrites (torch/_dynamo/output_graph.py). Their lines are not told
# by their byte code, and their kernels have better ways to their lines.
_COMPILED = ("__compiled_fn", "__import_torch_dot__dynamo")
_SHALLOW = 2  # parts of a path that is below no known folder


class Lines(dict):  # type: ignore[type-arg]
    """Line -> the name of its mark, made when first asked for."""

    def __init__(self, file: str) -> None:
        self._file = file

    def __missing__(self, line: int) -> str:
        name = self[line] = f"{PREFIX}{self._file}:{line}"
        return name


class Project:
    """The folders as they are when it is made: a job may change its working folder later."""

    def __init__(self) -> None:
        self._cwd = os.getcwd()
        self._roots = [p for p in dict.fromkeys([self._cwd, *map(os.path.abspath, sys.path)]) if os.path.isdir(p)]
        self._libraries = _libraries(self._roots)
        self._files: dict[str, str | None] = {}

    def lines(self, code: CodeType) -> Lines | None:
        """Names of the lines of a code object of the user's; None for any other."""
        file = code.co_filename
        if file not in self._files:
            self._files[file] = self._named(file)
        named = self._files[file]
        if named is None or any(n.startswith(_COMPILED) for n in code.co_names):
            return None
        return Lines(named)

    def _named(self, file: str) -> str | None:
        if not file or file.startswith("<"):
            return None
        path = os.path.normpath(os.path.join(self._cwd, file))  # as given on the command line, in the main script
        parts = path.split(os.sep)
        if any(p in _FOREIGN or p.startswith(_GENERATED) for p in parts):
            return None
        if any(_below(path, folder) for folder in self._libraries):
            return None
        holding = [root for root in self._roots if _below(path, root)]
        if self._cwd in holding:
            holding = [self._cwd]
        short = os.path.relpath(path, max(holding, key=len)) if holding else os.path.join(*parts[-_SHALLOW:])
        return short.replace(os.sep, "/")


def _libraries(roots: list[str]) -> list[str]:
    """Folders of the standard library, of installed packages, and of this package."""
    found = {sysconfig.get_path(n) for n in ("stdlib", "platstdlib", "purelib", "platlib")}
    found.add(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if torch:
        found.add(os.path.dirname(os.path.abspath(torch)))  # may be a checkout
    for root in roots:  # `pip install --target`
        try:
            if any(name.endswith(".dist-info") for name in os.listdir(root)):
                found.add(root)
        except OSError:
            pass
    return [os.path.normpath(p) for p in found if p]


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)
