"""Runs the programs of `failing` for real, by the interpreter that runs the tests.

A program that imports `truth` first also writes down what the interpreter knows of its
exception, frame by frame, so that a reader of the printed text can be compared with it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import Any, Final

from tests.support.failing import PROGRAMS, Program

TRUTH: Final = dedent(
    '''
    """Writes the exception that ends the program to truth.json, then lets Python print it."""
    import json, sys, traceback

    def frames(tb):
        return [[f.filename, f.lineno, f.name, (f.line or "").strip()] for f in traceback.extract_tb(tb)]

    def walk(exc, relation):
        if exc.__cause__ is not None:
            yield from walk(exc.__cause__, relation)
            relation = "cause"
        elif exc.__context__ is not None and not exc.__suppress_context__:
            yield from walk(exc.__context__, relation)
            relation = "context"
        name = type(exc).__qualname__
        module = type(exc).__module__
        found = frames(exc.__traceback__)
        if isinstance(exc, SyntaxError):
            found.append([exc.filename, exc.lineno, "", (exc.text or "").strip()])
        yield {
            "type": name if module in ("builtins", "__main__") else f"{module}.{name}",
            "message": (exc.msg if isinstance(exc, SyntaxError) else str(exc)).split("\\n")[0],
            "relation": relation,
            "frames": found,
        }
        for member in getattr(exc, "exceptions", ()):
            yield from walk(member, "member")

    def hook(kind, exc, tb):
        with open("truth.json", "w") as file:
            json.dump(list(walk(exc, "")), file)
        sys.__excepthook__(kind, exc, tb)

    sys.excepthook = hook
    '''
)


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished run: what it printed, what the interpreter knew, and the line marked `# here`."""

    program: Program
    output: str
    truth: list[dict[str, Any]] | None
    file: str
    line: int


BY_NAME: Final = {p.name: p for p in PROGRAMS}


@cache
def run(name: str) -> Ran:
    """Run a program in a folder of its own; everything it prints, stderr and stdout together."""
    program = BY_NAME[name]
    with TemporaryDirectory(prefix="run-") as folder:
        project = Path(folder).resolve() / "projects" / "vit"
        project.mkdir(parents=True)
        (project / "truth.py").write_text(TRUTH)
        for file, source in program.files.items():
            (project / file).write_text(source)
        done = subprocess.run(
            [sys.executable, str(project / "main.py")],
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )
        known = project / "truth.json"
        truth = json.loads(known.read_text()) if known.is_file() else None
        file, line = marked(program)
        return Ran(program, done.stdout, truth, str(project / file), line)


def marked(program: Program, mark: str = "# here") -> tuple[str, int]:
    """File and number of the line that ends in `mark`."""
    return next(
        (file, number)
        for file, source in program.files.items()
        for number, line in enumerate(source.splitlines(), 1)
        if line.rstrip().endswith(mark)
    )
