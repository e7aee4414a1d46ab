"""Places as torch's compiler names them: resumed functions, stacks that end in libraries, shortened paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from necropsy_parsers.numbers import natural
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame

from necropsy.provenance.frames import innermost_user

# What Dynamo calls the rest of a function behind a graph break (torch/_dynamo/resume_execution.py, all releases).
_RESUMED: Final = lazily(r"(?:torch_dynamo_resume_in|__resume_at)_(?P<function>.+?)_at_(?P<line>\d+)(?:_\d+)?$")
_COMPILER: Final = lazily(
    r"(?:^|[/\\])(?:torch|triton|torchgen|functorch)[/\\]|^<|(?:^|[/\\])[Ll]ib(?:64)?[/\\]python[\d.]+[/\\](?!site-packages|dist-packages)"
)


def plain_function(name: str) -> str:
    """The function as the user wrote it: `torch_dynamo_resume_in_forward_at_69` is the rest of `forward`."""
    while (m := _RESUMED.match(name)) is not None:
        name = m["function"]
    return name


@lru_cache(maxsize=4096)  # each rule about breaks asks it of every compilation
def resumed_at(name: str) -> int | None:
    """The line of the graph break behind which a function goes on, or None for a whole function."""
    m = _RESUMED.match(name)
    return None if m is None else natural(m["line"])


def claimed_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's code; where all stand in packages, the innermost that is not torch's."""
    return innermost_user(frames) or next((f for f in reversed(frames) if not _COMPILER.search(f.file)), None)


def whole_path(tail: str, known: Iterable[str]) -> str:
    """The path that a shortened one stands for.

    Dynamo cuts a file name in guard comments by the length of the prefix it shares with torch's own folder
    (torch/_dynamo/guards.py, `from_user_stack`), so that `/opt/app/a.py` can become `pt/app/a.py`. Of `known`
    paths the one that ends in what is left is meant; without one, or with several, the tail stays.
    """
    ends = {k for k in known if k.replace("\\", "/").endswith(tail.replace("\\", "/"))}
    return ends.pop() if len(ends) == 1 else tail
