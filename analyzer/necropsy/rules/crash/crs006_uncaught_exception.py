"""An exception that nobody caught ended the process

What it means
    Python raised an exception, no handler took it, and the process ended with it. This
    is the rule for exceptions that no more specific rule knows; the message is the
    exception's own.

Why it happens
    The program's own checks (assertions, `raise`), or an operation that met a value it
    cannot work with; or a file of the program that has the name of a module of Python's own
    (`pickle.py`), which libraries then import instead.

How to confirm
    Read the innermost frame of your own code: it is the place of this finding. Of a
    chain of exceptions the earliest real failure is shown; a `KeyError` or
    `ImportError` that was only a question is not.

How to fix
    Depends on the exception; see the quoted message and the line.

Limits
    An exception after which the same process reports further work was handled, and is
    a note. A log that goes on with another program after the crash can look like that.

References
    - https://docs.python.org/3/tutorial/errors.html
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, one_line
from necropsy.conditions import LIBRARY_CLASH, NO_DEVICE, NO_GRADIENTS, NOT_FINITE, PROCESS_DIED
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.sources import Sources
from necropsy.finding import Finding, Fix, Place, Severity
from necropsy.provenance.frames import is_library
from necropsy.provenance.triton import kernel_error, kernel_place
from necropsy.rule import rule

# What launchers and peers raise because somebody else died; compared with the class's last name.
_LAUNCHERS: Final = frozenset(
    {"ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "SignalException",
     "WorkerCrashedError", "ActorDiedError", "RayActorError"}
)  # fmt: skip
_PEER: Final = lazily(
    r"Connection closed by peer|Connection reset by peer|Broken pipe|ncclRemoteError|NCCL communicator was aborted"
    r"|[Ss]ee (?:the )?(?:root cause|stack trace|error|logs?) above"
    r"|[Ee]ngine (?:core|process) (?:initialization )?failed"
    r"|EngineDead"
    r"|[Ww]orkers? (?:\S+ )?(?:failed|died|exited)"
    r"|remote process exited"
    r"|Socket Timeout"
    r"|store.{0,20}(?:closed|timeout)"
    r"|DistNetworkError"
    r"|Timed out waiting \d+ms"
)
_NAN: Final = lazily(r"\bnans?\b|\binf(?:inite|inity)?\b|non-?finite|not finite|isfinite", re.IGNORECASE)
_NO_DEVICE: Final = lazily(
    r"No CUDA GPUs are available|not compiled with CUDA|cuda.{0,30}not available|Found no NVIDIA driver", re.IGNORECASE
)
_CUDNN: Final = lazily(r"unable to find an engine|CUDNN_STATUS|cudnn", re.IGNORECASE)


_CONSEQUENCE: Final = {
    "thread": "it ended a thread of the process",
    "bare": "the log has this line but no traceback of it",
}


def _shows(row: ExceptionRow) -> frozenset[str]:
    text = f"{row.name}: {row.text} {row.main.frames[-1].text if row.main.frames else ''}"
    shows = set()
    if row.name in _LAUNCHERS or _PEER.search(text):
        shows.add(PROCESS_DIED)
    if _NAN.search(text):
        shows.add(NOT_FINITE)
    if _NO_DEVICE.search(text):
        shows.add(NO_DEVICE)
    if _CUDNN.search(text):
        shows.add(LIBRARY_CLASH)
    if "No inf checks were recorded" in text or "does not require grad" in text:
        shows.add(NO_GRADIENTS)
    return frozenset(shows)


def _fixes(row: ExceptionRow) -> Iterator[Fix]:
    if row.name == "ModuleNotFoundError" and (m := re.search(r"No module named '([\w.]+)'", row.message)):
        module = m[1].split(".")[0]
        yield Fix(
            f"Install the package that provides `{module}` in the environment that runs the job, or put its folder on "
            "PYTHONPATH",
            "command",
            command=f"python -c 'import sys; print(sys.executable)' && python -m pip install {module}",
        )
    elif row.name in _LAUNCHERS:
        yield Fix("Look for the first error of the workers; this exception only reports that one ended", "investigate")


def _shadowing(row: ExceptionRow) -> str:
    """The name of the user's file that a library imported, which meant Python's own module; "" where none did."""
    for before, frame in pairwise(row.main.frames):
        name = re.split(r"[/\\]", frame.file)[-1].removesuffix(".py")
        imported = name in sys.stdlib_module_names and re.match(rf"(?:import|from)\b.*\b{name}\b", before.text)
        if imported and is_library(before.file) and not is_library(frame.file):
            return f"{name}.py"
    return ""


def _kernel(row: ExceptionRow, sources: Sources) -> Finding | None:
    """A Triton kernel that does not compile: the claim is the line inside the kernel."""
    error = kernel_error(row.main)
    if error is None:
        return None
    launch = row.places[0] if row.places else None
    place = kernel_place(error, launch, sources.tree)
    places: tuple[Place, ...] = (place,) if place is not None else ()
    places += tuple(replace(p, exactness="function", how="launch of the kernel") for p in row.places)
    return from_exception(
        row,
        f"The Triton kernel `{error.kernel}` does not compile at `{error.text}`: {one_line(error.reason)}.",
        code=places,
        facts={"exception": row.type, "kernel": error.kernel, "reason": error.reason},
        fixes=(
            Fix(
                (
                    "Correct the marked line; inside a kernel "
                    "only tl functions, constexpr values and other jitted functions exist"
                ),
                "code",
            ),
        ),
    )


@rule("CRS006", "uncaught-exception", Severity.FATAL, general=True)
def check(exceptions: Exceptions, sources: Sources) -> Iterator[Finding]:
    """One finding a traceback."""
    for row in exceptions:
        if not row.type:
            if row.handled:
                continue
            yield from_exception(
                row,
                "A traceback without its exception line: the log was cut before the reason.",
                severity=Severity.ERROR,
            )
            continue
        if row.name in ("KeyboardInterrupt", "SystemExit"):
            what = (
                "The run was interrupted by hand (KeyboardInterrupt)."
                if row.name == "KeyboardInterrupt"
                else "The program ended itself (SystemExit)."
            )
            yield from_exception(row, what, severity=Severity.NOTE, leaves=frozenset())
            continue
        if (kernel := _kernel(row, sources)) is not None:
            yield kernel
            continue
        if name := _shadowing(row):
            yield from_exception(
                row,
                f"`{name}` of the program has the name of a module of Python's own, and libraries import it instead: "
                f"{row.name}.",
                facts={"exception": row.type, "error": one_line(row.message)},
                fixes=(Fix(f"Rename {name}, and remove its compiled copy from __pycache__", "code"),),
            )
            continue
        text = one_line(row.message or next((x for x in row.text.split("\n") if re.search(r"\w", x)), "")).rstrip(":")
        sentence = f"{row.name}: {text}" if text else row.name
        last = row.chain[-1]
        if last is not row.main and last.complete and last.relation in ("cause", "context"):
            sentence = f"{sentence.rstrip('.')}, and then {last.type.rsplit('.', 1)[-1]}: {one_line(last.message, 120)}"
        consequence = "" if row.handled else f"; {_CONSEQUENCE.get(row.kind, 'nobody caught it and the process ended')}"
        yield from_exception(
            row,
            f"{sentence.rstrip('.')}{consequence}.",
            facts={"exception": row.type},
            fixes=tuple(_fixes(row)),
            shows=_shows(row),
        )
