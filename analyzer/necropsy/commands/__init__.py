"""The command line: one verb per file of this folder, found by walking it.

A verb is a module with a function `command`, whose annotations are its options, whose
docstring is its help and whose result is the exit status; `CONTEXT` holds settings of
click's context, if it needs any. Verbs import what they work with inside the function, so
that `--help` is instant.
"""

from __future__ import annotations

import gc
import importlib
import io
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, NoReturn

import typer

from necropsy.commands._terminal import complain
from necropsy.config import ConfigError

# Objects made between two looks for cycles; 700 is Python's own. Imports, records and tables make hundreds of thousands
# that stay, and each look goes through them: up to a seventh of a short run.
_COLLECT_AFTER: Final = 100_000


@contextmanager
def _fewer_collections() -> Iterator[None]:
    """Lets Python look for cycles less often. Of the command only: whoever imports the library decides for himself."""
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _version(wanted: bool) -> None:
    if wanted:
        from necropsy import __version__

        typer.echo(f"necropsy {__version__}")
        raise typer.Exit


def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Say why a GPU job failed or was slow, on which line of your Python."""


def application() -> typer.Typer:
    """All verbs as one typer application."""
    app = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        verb = info.name.rpartition(".")[2]
        if not verb.startswith("_"):
            module = importlib.import_module(info.name)
            app.command(verb, context_settings=getattr(module, "CONTEXT", None))(module.command)
    return app


def run(arguments: Sequence[str]) -> int:
    """Carry out `necropsy ARGUMENTS...` and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with _fewer_collections():
            command = typer.main.get_command(application())
            status = command.main(list(arguments), prog_name="necropsy", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except ConfigError as error:
        complain(str(error))
        return 2
    except Exception as error:
        # Usage errors: typer raises click's class, or its own copy of it, depending on its version.
        if (show := getattr(error, "show", None)) is None:
            raise
        show()
        return int(getattr(error, "exit_code", 2))
    return status if isinstance(status, int) else 0


def main() -> NoReturn:
    """The console script `necropsy`."""
    sys.exit(run(sys.argv[1:]))


def analyze_main() -> NoReturn:
    """The console script `analyze`: `necropsy analyze`."""
    sys.exit(run(["analyze", *sys.argv[1:]]))
