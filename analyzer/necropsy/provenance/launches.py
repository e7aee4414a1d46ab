"""Which line launched a kernel that Nsight Compute profiled, and whether the program or a tuner launched it.

What the launch itself carries, the surest first: an NVTX range that names a line, as capture's marks do; the Python
stack that ncu recorded (`--call-stack-type python`), whose innermost frame of the user counts; the source file of a
kernel of the user's own (Triton, or CUDA with `-lineinfo`), which is where it is written, not launched.

The frame of a compiled function stands at the function's head whatever it computes: below one of torch.compile's frames
a line is claimed as a function only (`necropsy.provenance.launched` asks generated code and traces for more).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from necropsy_parsers.numbers import natural
from necropsy_parsers.patterns import lazily

from necropsy.finding import Place
from necropsy.provenance.frames import is_library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from necropsy_parsers.ncu.records import Launch, NvtxRange
    from necropsy_parsers.records import Frame

MARK: Final = "capture mark"
STACK: Final = "python stack of ncu"
SOURCE: Final = "source of the kernel"

# `necropsy:pkg/train.py:63`, as capture names its marks (`necropsy_parsers.trace.marks`), or `train.py:63` by hand.
_MARK: Final = lazily(
    r"(?:necropsy:(?P<marked>[^:][^\n]*)|(?P<file>[^\s:][^\n]*?\.pyw?)):(?P<line>[1-9]\d{0,8})"
    r"(?:[ :,]+(?:in )?(?P<function>[A-Za-z_<][\w.<>]*))?\s*$"
)
_COMPILED: Final = lazily(
    r"[/\\]torch[/\\](?:_dynamo|_functorch|_inductor)[/\\]|torchinductor_|[/\\]torch_compile_debug[/\\]"
)
# Functions that time candidates: torch/_inductor (runtime/benchmarking.py, runtime/triton_heuristics.py,
# select_algorithm.py, autotune_process.py; 2.1 to 2.13), triton/testing.py, triton/runtime/autotuner.py.
_TUNING_FILE: Final = lazily(
    r"[/\\]torch[/\\]_inductor[/\\](?:autotune_process|select_algorithm|runtime[/\\]benchmarking|utils)\.py$"
    r"|[/\\]torch[/\\]_inductor[/\\](?:runtime[/\\])?triton_heuristics\.py$"
    r"|[/\\]triton[/\\](?:testing|runtime[/\\]autotuner)\.py$"
)
_TUNING: Final = lazily(
    r"(?:do_)?bench\w*$|_bench$|benchmark\w*$|autotune_to_one_config$|coordinate_descent_tuning$|_do_bench\w*$|kernel_call$"
)

# A range or function that says so itself (`warmup`, `warm-up 3`, `run_warm_up`), and no file or learning rate so named.
_WARMUP: Final = lazily(r"(?i)(?:.*[\W_])?warm[ _-]?(?:up|ing)(?:s|[ _-]?up)?(?:[\W_]?\d+|[\W_].*)?$")
_OTHER_WARMUP: Final = lazily(r"(?i)\.pyw?\b|(?:\b|_)(?:lr|learning|sched\w*|rate|optim\w*|loss|after|post|no)(?:\b|_)")


def place_of_launch(launch: Launch) -> Place | None:
    """The place that the launch carries with it, or None."""
    return _marked(launch.ranges) or _stacked(launch.stack) or _written(launch.source, launch.function)


def is_tuning(stack: Sequence[Frame]) -> bool:
    """Whether a tuner timed candidates: its launches are not the program's work."""
    return any(_TUNING_FILE.search(f.file) and _TUNING.match(f.function or "") for f in stack)


def is_warmup(launch: Launch) -> bool:
    """Whether its own name, an NVTX range or a function around it says that it warms up."""
    names = [launch.function, *(r.name for r in launch.ranges), *(f.function or "" for f in launch.stack)]
    return any(_WARMUP.match(name) and not _OTHER_WARMUP.search(name) for name in names)


def is_compiled(stack: Sequence[Frame]) -> bool:
    """Whether generated code of torch.compile made the launch."""
    frames = list(stack)
    while frames and is_library(frames[-1].file):
        if _COMPILED.search(frames.pop().file):
            return True
    return False


def _marked(ranges: Sequence[NvtxRange]) -> Place | None:
    """The innermost range that is a line: the last one pushed."""
    for r in reversed(ranges):
        if (m := _MARK.match(r.name)) is not None and not is_library(file := m["marked"] or m["file"]):
            return Place(file, natural(m["line"]), function=m["function"] or "", how=MARK)
    return None


def _stacked(stack: Sequence[Frame]) -> Place | None:
    for frame in reversed(stack):
        if not is_library(frame.file):
            exact = "function" if is_compiled(stack) else "line"
            return Place(frame.file, frame.line, function=frame.function, exactness=exact, how=STACK)
    return None


def _written(source: Frame | None, function: str) -> Place | None:
    """A kernel of the user's own; generated and installed code is nobody's line."""
    if source is None or source.line is None or is_library(source.file):
        return None
    return Place(source.file, source.line, function=function, exactness="function", how=SOURCE)
