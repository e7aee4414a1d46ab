"""`necropsy capture -- COMMAND...`: run a job under collectors, as it is, then say what happened."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from necropsy.commands._terminal import ascii_only, colour, complain, emit, width

if TYPE_CHECKING:
    from necropsy.capture.job import Ended
    from necropsy.capture.plan import Plan
    from necropsy.report import Report

# What follows the first word of the command belongs to the command, also without `--`.
CONTEXT: Final = {"allow_interspersed_args": False}


Words = Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...", show_default=False)]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="The run folder; default: run-DATE-TIME.")]
Why = Annotated[
    str,
    typer.Option(
        "--why", metavar="QUESTION", help="What you want to know: slow, crash, compile, memory, tensorrt or kernels."
    ),
]
Collect = Annotated[
    str,
    typer.Option(
        "--collect",
        metavar="NAMES",
        help="Collect just these: logs, trace, profiler, marks, memory, nccl, ncu, nvtx, tensorrt.",
    ),
]
Skip = Annotated[
    int | None, typer.Option("--skip", metavar="N", help="Steps to pass over before the profiler (default 2).")
]
Steps = Annotated[int | None, typer.Option("--steps", min=1, metavar="N", help="Steps to record (default 4).")]
Rerun = Annotated[
    bool,
    typer.Option(
        "--rerun", help="After an asynchronous CUDA error, run the command again with CUDA_LAUNCH_BLOCKING=1."
    ),
]
Save = Annotated[bool, typer.Option("--save", help="Also store the report for editors, as analyze does.")]
WithReport = Annotated[bool, typer.Option("--report/--no-report", help="Print the report after the job.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print command and environment; run nothing.")]
PrintEnv = Annotated[
    bool, typer.Option("--print-env", help="Print exports for a job template (Slurm, Kubernetes); run nothing.")
]


def command(
    context: typer.Context,
    *,
    words: Words = None,
    out: Out = None,
    why: Why = "",
    collect: Collect = "",
    skip: Skip = None,
    steps: Steps = None,
    rerun: Rerun = False,
    save: Save = False,
    report: WithReport = True,
    dry_run: DryRun = False,
    print_env: PrintEnv = False,
) -> int:
    """Run a job with collectors in its Python processes, without a change to it, then say what happened.

    COMMAND is what you would type: python train.py --lr 3e-4, torchrun ..., python -m pkg.
    Its output, input, signals and exit status are what they are without necropsy; the report
    goes to standard error, and `necropsy analyze DIR` says it again.

    Exit status: that of the job; 2 for wrong use.
    """
    if not (words or print_env):
        print(context.get_usage(), file=sys.stderr)
        complain("no command: put it after --, as in: necropsy capture -- python train.py")
        return 2
    if os.name != "posix":
        complain("capture needs Linux or another Unix.")
        return 2
    names = [name.strip() for name in collect.split(",") if name.strip()]
    options: dict[str, Any] = {"skip": skip, "steps": steps}
    from necropsy.capture import folder as runs
    from necropsy.capture.plan import plan

    whole = Path(out or runs.default_folder(os.environ)).absolute()
    number = None if print_env else runs.task(os.environ)
    where = whole if number is None else whole / f"rank-{number}"
    try:
        made = plan(words or (), str(where), why=why, collect=names, options=options)
    except ValueError as error:
        complain(f"{error}.")
        return 2
    if print_env or dry_run:
        from necropsy.capture.shown import dry, exports

        emit(exports(made) if print_env else dry(made))
        return 0
    if "ncu" in made.collect and (missing := _without_ncu()):
        complain(missing)
        return 2
    try:
        runs.make(where)
    except runs.FolderError as error:
        complain(f"{error}.")
        return 2
    if number is not None:
        complain(f"this is one of several tasks; necropsy analyze {os.path.relpath(whole)} reads them together.")
    return _capture(made, rerun=rerun, save=save and number is None, report=report and number is None)


def _without_ncu() -> str:
    """Why a second run under Nsight Compute would be in vain, known before the first one; "" if nothing is."""
    from necropsy.capture import machine

    if machine.ncu() is None:
        return "ncu is not on the path, so kernels cannot be profiled: install the CUDA toolkit, or use --why slow."
    if machine.counters_permitted() is False:
        return (
            "this user may not read the GPU's counters, so kernels cannot be profiled: run as root, or see "
            "necropsy doctor; --why slow needs no counters."
        )
    return ""


def _capture(made: Plan, *, rerun: bool, save: bool, report: bool) -> int:
    from necropsy.capture.session import Session

    session = Session(made)
    ended = session.run()
    if ended.trouble:
        complain(f"{ended.trouble}.")
        return ended.status
    try:
        _afterwards(session, ended, rerun=rerun, save=save, report=report)
    except KeyboardInterrupt:
        complain("no report: interrupted.")
    except Exception as error:  # the job's status is worth more than our report
        if os.environ.get("NECROPSY_STRICT"):
            raise
        complain(f"no report: {type(error).__name__}: {error}.")
    return ended.status


def _afterwards(session: Any, ended: Ended, *, rerun: bool, save: bool, report: bool) -> None:
    """Repeat the failure if it is worth it, then tell what was collected, and what it says."""
    if ended.status and session.asynchronous():
        if rerun:
            session.repeat()
        else:
            complain(
                "a CUDA error was reported later than it happened; add --rerun to run the command once more with "
                "CUDA_LAUNCH_BLOCKING=1, which names the line."
            )
    if "ncu" in session.collects and not ended.status and (trouble := session.count()):
        complain(f"no counters: {trouble}.")
    session.close()
    name = os.path.relpath(session.folder)
    complain(session.summary(ended, name))
    if not (report or save):
        return
    from necropsy import api
    from necropsy.commands._progress import progress_bar
    from necropsy.config import load_config

    with progress_bar() as progress:
        found = api.analyze([name], config=load_config().override(jobs=0), progress=progress)
    if report:
        _print(found)
        complain(f"to see this again: necropsy analyze {name}")
    if save:
        from necropsy.store import project_folder
        from necropsy.store import save as store

        stored = store(found, [name], project_folder())
        complain(f"report stored as {os.path.relpath(stored)}.")


def _print(report: Report) -> None:
    """The report on standard error: standard output is the job's."""
    from necropsy.commands._sources import locator, teller
    from necropsy.render import View, renderers

    view = View(
        width=width(),
        colour=colour(sys.stderr),
        ascii=ascii_only(sys.stderr),
        base=os.getcwd(),
        excerpt=report.excerpt,
        locate=locator(report),
        standing=teller(report),
    )
    sys.stderr.write(renderers()["text"].render(report, view))
    sys.stderr.flush()
