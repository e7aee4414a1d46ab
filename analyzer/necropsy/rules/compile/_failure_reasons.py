"""From a failed compilation to its reason: the machine's, the program's, or torch's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.messages.compile_failure import CompileFailure
from necropsy_parsers.patterns import lazily

from necropsy.claim import one_line
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.pip_lines import PipLines
from necropsy.finding import Confidence, Fact, Fix
from necropsy.provenance.frames import is_library
from necropsy.provenance.interpreters import alike, first_root, holds_python, root_of
from necropsy.provenance.triton import kernel_error
from necropsy.rules.compile._failure_causes import CAUSES, ENVIRONMENT, PROGRAM, TORCH, Cause
from necropsy.rules.compile._failure_fixes import DISABLE, MINIFY

_EMPTY: Final = lazily(r" \((?:it has |tried )?\)|(?<=[ (])`` ?")
_OPTION: Final = lazily(r"(?:-I|/I ?|-L|/LIBPATH:)(\S+)")
KERNEL: Final = Fix(
    "Correct the line inside the kernel; only tl functions, constexpr values and other jitted functions exist there",
    "code",
)
BACKEND: Final = Fix(
    "Debug the backend at this line; backend='eager' shows whether the program itself is right", "code"
)


class Reason(Struct, frozen=True):
    """Why: a clause for the finding's sentence, whose side it is on, what helps.

    `exact` tells that the innermost line of the traceback is the one to change.
    """

    key: str
    side: str
    clause: str
    fixes: tuple[Fix, ...]
    confidence: Confidence = Confidence.CERTAIN
    exact: bool = False
    facts: dict[str, Fact] = field(default_factory=dict)


def reason_of(failure: CompileFailure, row: ExceptionRow | None, pip: PipLines, exceptions: Exceptions) -> Reason:
    """The reason of a failure."""
    found = next(((c, m) for c in CAUSES if (m := c.pattern.search(failure.text)) is not None), None)
    if found is None:
        return _unknown(failure, row)
    cause, m = found
    if cause.key == "triton-missing" and (other := _elsewhere(failure, row, pip, exceptions)) is not None:
        return other
    return Reason(cause.key, cause.side, _clause(cause, m, failure), cause.fixes, cause.confidence)


def _clause(cause: Cause, m: re.Match[str], failure: CompileFailure) -> str:
    groups = {k: " ".join((v or "").split()) for k, v in m.groupdict().items()}
    groups["operation"] = f"the operation `{failure.operator}`" if failure.operator else "an operation"
    groups["reason"] = one_line(failure.reason).rstrip(".")
    return _EMPTY.sub("", cause.says.format(**groups)).strip()


def _unknown(failure: CompileFailure, row: ExceptionRow | None) -> Reason:
    """A failure in words that the table does not know: by the layer that raised it."""
    error = one_line(f"{failure.error}: {failure.reason}".removeprefix(": ")).rstrip(".") or "error untold"
    kernel = kernel_error(row.main) if row is not None else None
    if kernel is not None and not kernel.kernel.startswith("triton_"):
        clause = f"the Triton kernel `{kernel.kernel}` is wrong at `{kernel.text}` ({one_line(kernel.reason)})"
        return Reason("kernel-source", PROGRAM, clause, (KERNEL,))
    if _by_own_backend(failure):
        clause = f"the backend `{failure.backend}` raised {error}"
        return Reason("backend-raised", PROGRAM, clause, (BACKEND,), Confidence.LIKELY, exact=True)
    if failure.kind == "InternalTorchDynamoError":
        return Reason("dynamo", TORCH, f"Dynamo itself failed ({error})", (DISABLE, MINIFY), Confidence.LIKELY)
    if failure.output or failure.error in ("CppCompileError", "CUDACompileError"):
        clause = "the code that Inductor generated does not compile"
        return Reason("generated-code", TORCH, clause, (DISABLE, MINIFY), Confidence.LIKELY)
    what = f"Inductor cannot lower `{failure.operator}` ({error})" if failure.operator else ""
    by = f"the backend `{failure.backend}` failed" if failure.backend else "the compiler failed"
    return Reason(
        "lowering" if what else "backend", TORCH, what or f"{by} ({error})", (DISABLE, MINIFY), Confidence.LIKELY
    )


def _by_own_backend(failure: CompileFailure) -> bool:
    """Whether the user's own backend raised: the traceback ends in a file that is no package's."""
    if not failure.backend or failure.backend == "inductor":
        return False
    return failure.raised is not None and not is_library(failure.raised.file)


def _elsewhere(
    failure: CompileFailure, row: ExceptionRow | None, pip: PipLines, exceptions: Exceptions
) -> Reason | None:
    """Triton was installed into another Python than the one that runs: the folders that pip named tell."""
    near = [p for p in pip if p.anchor.input == failure.anchor.input]
    about = [p for p in near if "triton" in (p.package.lower(), p.wanted_by.lower())]
    if not any(p.kind in ("found", "installed") for p in about):
        return None
    installed = first_root(p.folder for p in near if p.kind == "found")
    paths = [*_paths(row), *_OPTION.findall(failure.command)]
    for other in exceptions:
        if other.anchor.input == failure.anchor.input:
            paths += _paths(other)
    running = first_root(paths) or next(
        (p.folder for p in about if p.kind == "command" and holds_python(p.folder)), None
    )
    if running is not None and installed is not None and alike(running, installed):
        return None
    where = f"the Python in {installed}" if installed else "the Python that `pip` belongs to"
    whose = f"the one that runs the program, in {running}" if running else "the one that runs the program"
    typed = next((p.command for p in about if p.kind == "command"), "pip install triton")
    python = _python(running)
    rest = typed[typed.find("install ") :]
    facts: dict[str, Fact] = {}
    if installed:
        facts["pip installs into"] = installed
    if running:
        facts["the program runs in"] = running
    return Reason(
        "triton-in-another-python",
        ENVIRONMENT,
        f"Triton is installed, but into another interpreter: {where}, not {whose}",
        (
            Fix(
                "Install Triton with the very interpreter that runs the program, instead of the first `pip` on PATH",
                "command",
                command=f"{python} -m pip {rest}",
            ),
        ),
        Confidence.CERTAIN if running and installed else Confidence.LIKELY,
        facts=facts,
    )


def _python(root: str | None) -> str:
    """How to call the interpreter in a folder."""
    if root is None:
        return "python"
    return f'"{root}\\python.exe"' if "\\" in root or root[1:2] == ":" else f"{root}/bin/python"


def _paths(row: ExceptionRow | None) -> Iterator[str]:
    """Files of installed packages in a traceback."""
    if row is not None:
        yield from (f.file for e in row.chain for f in e.frames if root_of(f.file) is not None)
