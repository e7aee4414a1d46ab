"""Triton's compile errors: from a position inside a kernel to a line of the file.

    triton.compiler.errors.CompilationError: at 3:45:
    def k(x_ptr, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(x_ptr + i, tl.load(x_ptr + i) + undefined_name)
                                                 ^
    NameError('undefined_name is not defined')

Triton counts lines from the kernel's `def` and quotes its source up to the error; the
quoted lines are looked up in the file that launched the kernel (Triton 2.0 to 3.5).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from necropsy_parsers.patterns import lazily
from necropsy_parsers.text.traceback import Exc

from necropsy.finding import Place
from necropsy.provenance.files import SourceTree

_AT: Final = lazily(r"^at (?P<line>\d+):(?P<column>\d+):")
_DEF: Final = lazily(r"\s*def (?P<name>\w+)\s*\(")
_REASON: Final = lazily(r"^\s*(?P<reason>\w+(?:Error|Exception)\(.*\)|[A-Z][^\n]{5,})$")


class KernelError(Struct, frozen=True):
    """A compile error inside a kernel: its name, the failing source line, the reason as printed."""

    kernel: str
    text: str
    reason: str
    quoted: tuple[str, ...]


def kernel_error(exc: Exc) -> KernelError | None:
    """The kernel error in a `CompilationError`, or None."""
    if not exc.type.endswith(("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct")):
        return None
    lines = [line for line in exc.detail if line.strip()]
    start = next((i for i, line in enumerate(lines) if _DEF.match(line)), None)
    caret = next((i for i, line in enumerate(lines) if line.strip() and not line.strip(" ^~")), None)
    if start is None or caret is None or caret <= start or not _AT.match(exc.message or ""):
        return None
    name = _DEF.match(lines[start])
    after = lines[caret + 1].strip() if caret + 1 < len(lines) else ""
    reason = _REASON.match(after)
    quoted = tuple(line.strip() for line in lines[start:caret])
    return KernelError(name["name"] if name else "", quoted[-1], reason["reason"] if reason else after, quoted)


def kernel_place(error: KernelError, launch: Place | None, tree: SourceTree) -> Place | None:
    """The line of the file where the quoted kernel source ends; None if it is not found once."""
    if launch is None:
        return None
    lines = [line.strip() for line in tree.lines(launch.file)]
    ends = [n + len(error.quoted) for n in range(len(lines)) if tuple(lines[n : n + len(error.quoted)]) == error.quoted]
    if len(ends) != 1:
        return None
    return Place(launch.file, ends[0], None, error.kernel, error.text, "line", "Triton's quoted kernel source")
