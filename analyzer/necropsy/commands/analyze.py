"""`necropsy analyze [PATH...]`: read what a job left behind and say what went wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from necropsy.commands._plots import draw_roofline
from necropsy.commands._terminal import ascii_only, colour, complain, emit, width

if TYPE_CHECKING:
    from necropsy.config import Config
    from necropsy.report import Report


Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=0,
        metavar="N",
        help="Processes that read traces; 0 (default): as many as pay.",
        show_default=False,
    ),
]

NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Neither look for large traces that were read before nor keep them.")
]

Roofline = Annotated[
    Path | None,
    typer.Option(
        "--roofline", metavar="FILE", help="Draw kernels of Nsight Compute under the limits of their GPU (PNG or SVG)."
    ),
]


def command(
    context: typer.Context,
    *,
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATH", hidden=True)] = None,
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="NAME", help="Form of the report: text, md or json.")
    ] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to FILE instead.")
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Also store the report under .necropsy/ of the project, for editors.")
    ] = False,
    roofline: Roofline = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="DIR", help="Look for the job's source files in DIR; may be repeated."),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="SEVERITY",
            help="Exit with 1 for findings from this severity on: fatal, error (default), warning or note.",
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="CODES", help="Judge only rules whose code starts so, as in OOM,CRS015."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="CODES", help="Leave out rules whose code starts so; the longer match wins."),
    ] = None,
    jobs: Jobs = 0,
    no_cache: NoCache = False,
) -> int:
    """Say what went wrong in a job, on which line, and what to do.

    PATH is a log, a trace, an archive or a folder of them; - or a pipe is read as a log.

    Exit status: 0 nothing at or above --fail-on, 1 findings at or above it, 2 wrong use
    or nothing that could be read.
    """
    inputs = _inputs(context, paths or [])
    _check_format(format)
    config = _config(select or [], ignore or [], fail_on, source or []).override(jobs=jobs)
    config = config.override(cache=False) if no_cache else config
    report = _analyze(inputs, config)
    trouble = nothing_read(report)
    if trouble:
        complain(trouble)
    if (not trouble or format == "json") and not _deliver(report, format, output):
        return 2
    if trouble or (save and not _save(report, inputs)) or (roofline and not draw_roofline(report, roofline)):
        return 2
    worst = report.worst()
    return int(worst is not None and worst >= config.fail_on)


def _inputs(context: typer.Context, paths: list[str]) -> list[str]:
    """The given paths; without any, what is piped in. Ends the program with 2 if there is neither."""
    if paths:
        return paths
    if not sys.stdin.isatty():
        return ["-"]
    print(context.get_usage(), file=sys.stderr)
    complain("nothing to read: name a log, a trace or a folder, or pipe a log in.")
    raise typer.Exit(2)


def _check_format(name: str) -> None:
    from necropsy.render import renderers

    if name not in renderers():
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(renderers())}.", param_hint="--format")


def _config(select: list[str], ignore: list[str], fail_on: str | None, source: list[str]) -> Config:
    """The file's configuration under the options; codes are compared with the rules that exist."""
    from necropsy.config import check_codes, load_config

    stored = load_config()
    config = stored.override(select=select, ignore=ignore, fail_on=fail_on, source=source)
    if config.select or config.ignore or config.rules:
        from necropsy.rule import all_rules

        stored.check(all_rules())
        codes = [rule.code for rule in all_rules()]
        check_codes(config.select, codes, "option --select")
        check_codes(config.ignore, codes, "option --ignore")
    return config


def _analyze(inputs: list[str], config: Config) -> Report:
    from necropsy import api
    from necropsy.commands._progress import progress_bar

    with progress_bar() as progress:
        return api.analyze(inputs, config=config, progress=progress)


def nothing_read(report: Report) -> str:
    """Why there is no report to speak of, in one sentence; "" when at least one input was read."""
    causes = {"source/unreadable", "source/empty", "sniff/unknown"}
    lost = {issue.input: issue for issue in report.issues if issue.kind in causes}
    if any(row.path not in lost for row in report.inputs):
        return ""
    if not lost:
        return "" if report.inputs else "no input was found there."
    first = next(iter(lost.values()))
    detail = f" ({first.detail})" if first.detail else ""
    more = f"; and {len(lost) - 1:,} more like it" if len(lost) > 1 else ""
    return f"{first.input}: {first.meaning}{detail}{more}."


def _deliver(report: Report, name: str, output: Path | None) -> bool:
    """Write the report where it was asked for; False (and a line on stderr) if that fails."""
    from necropsy.commands._sources import locator, teller
    from necropsy.render import View, renderers

    view = View(
        width=width(),
        colour=output is None and colour(sys.stdout),
        ascii=output is None and ascii_only(sys.stdout),
        base=os.getcwd(),
        excerpt=report.excerpt,
        locate=locator(report),
        standing=teller(report),
    )
    text = renderers()[name].render(report, view)
    if output is None:
        emit(text)
        return True
    try:
        output.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        complain(f"cannot write {output}: {error.strerror}.")
        return False
    return True


def _save(report: Report, inputs: list[str]) -> bool:
    from necropsy.store import project_folder, save

    project = project_folder()
    try:
        stored = save(report, inputs, project)
    except OSError as error:
        complain(f"cannot store the report below {project}: {error.strerror}.")
        return False
    print(f"Report stored as {os.path.relpath(stored)}", file=sys.stderr)
    return True
