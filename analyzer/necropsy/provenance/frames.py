"""Which frame of a stack is the user's: the innermost one that is not a library's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame
from necropsy_parsers.text.traceback import Exc

from necropsy.finding import Place

_LIBRARY: Final = lazily(
    r"(?:^|[/\\])(?:site-packages|dist-packages)[/\\]"
    r"|(?:^|[/\\])[Ll]ib(?:64)?[/\\]python\d[\d.]*[/\\]"  # the standard library, conda's and pyenv's too
    r"|[/\\][Pp]ython[\d.]*[/\\](?:[Ll]ib|DLLs)[/\\]|python\d+\.zip"
    r"|^<(?!ipython-input|module>|stdin>)"  # <frozen runpy>, <string>, <eval_with_key>.5, <decorator-gen-1>
    r"|(?:^|[/\\])bin[/\\][^/\\]+$|\.exe[/\\]"  # torchrun, accelerate, deepspeed
    r"|(?:^|[/\\])_necropsy_capture[/\\]"  # capture's collectors, also in a checkout
    r"|torchinductor_|[/\\]torch_compile_debug[/\\]"
    # a module that Inductor generated, wherever its cache is: ab/cab<hash>.py
    r"|[/\\](?P<head>[a-z2-7]{2})[/\\]c(?P=head)[a-z2-7]{40,}\.py$"
    # torch, triton and their like run from a source tree or a build folder
    r"|(?:^|[/\\])torch[/\\](?:_\w+(?:\.py)?|nn|utils|autograd|distributed|optim|cuda|functional\.py"
    r"|fx|amp|jit|onnx|export|serialization\.py)(?:[/\\]|$)"
    r"|(?:^|[/\\])triton[/\\](?:compiler|runtime|backends|language)[/\\]"
    r"|(?:^|[/\\])(?:torchgen|functorch)[/\\]"
    r"|[/\\]\.vscode(?:-server)?[/\\]extensions[/\\]|[/\\]pydevd?[\w/\\]*\.py$|_pytest[/\\]"
)


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether `file` belongs to Python, to an installed package or to generated code."""
    return _LIBRARY.search(file) is not None


def innermost_user(frames: Iterable[Frame]) -> Frame | None:
    """The last frame of the user's own code, or None if there is none."""
    found = None
    for frame in frames:
        if not is_library(frame.file):
            found = frame
    return found


def place_of(frame: Frame, *, exactness: str = "line", how: str = "traceback") -> Place:
    """A frame as a place of a finding."""
    return Place(frame.file, frame.line, None, frame.function, frame.text, exactness, how)


# Exceptions with which programs ask ("is this installed?", "is this key there?"); one that was caught and
# followed by work that failed deeper down is not the cause of that failure.
_PROBES: Final = frozenset(
    {"ImportError", "ModuleNotFoundError", "AttributeError", "KeyError", "StopIteration", "Empty",
     "NotImplementedError", "LookupError", "IndexError"}
)  # fmt: skip


def primary(chain: Sequence[Exc]) -> Exc:
    """The exception of a chain that tells the cause.

    Of `cause` (raise from) and `context` (raised while handling) the earliest wins, unless
    it was only a question (a probe). `original` is another process's own exception, of
    which the one printed before it is a copy.
    """
    index = len(chain) - 1
    while index > 0:
        later, earlier = chain[index], chain[index - 1]
        if later.relation == "original" and later.complete:
            break  # what stands before it is the copy
        if later.relation in ("original", "member") or (later.relation and _explains(earlier, later)):
            index -= 1
        else:
            break
    return _first_member(chain, chain[index])


def _first_member(chain: Sequence[Exc], best: Exc) -> Exc:
    """Of an exception group, its first member says what happened; of nested groups, the first leaf."""
    index = next(i for i, e in enumerate(chain) if e is best)
    while "Group" in chain[index].type and index + 1 < len(chain) and chain[index + 1].relation == "member":
        index += 1
    return chain[index]


def _explains(earlier: Exc, later: Exc) -> bool:
    """Whether the earlier exception is the cause of the later one.

    A probe is answered by its handler, which then raised in better words or failed by itself.
    """
    return earlier.complete and earlier.type.rsplit(".", 1)[-1] not in _PROBES


PLACES_MAX: Final = 3  # a claim, and what leads to it; a chain may have thousands of exceptions


def user_places(chain: Sequence[Exc], main: Exc) -> list[Place]:
    """Places of the user's code for a chain, the claim first.

    Dynamo's "from user code" frames say more than the call of the compiled function;
    a worker's own stack says more than the loop that met its exception.
    """
    order = [main, *(e for e in chain if e is not main)]
    places: list[Place] = []
    for exc in order:
        frames = [innermost_user(exc.user_frames), innermost_user(exc.frames)]
        for frame, how in zip(frames, ("from user code", "traceback"), strict=True):
            if frame is not None:
                place = place_of(frame, how=how)
                if all((p.file, p.line) != (place.file, place.line) for p in places):
                    places.append(place)
                if len(places) == PLACES_MAX:
                    return places
    return places
