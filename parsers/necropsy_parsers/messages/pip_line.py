"""Lines of pip that name a Python: where it found a package, and the prompt it was called from.

D:\\studio\\python_embed>pip install triton-3.1.0-cp311-cp311-win_amd64.whl
(train) trainer@node-3:~/vit$ python -m pip install triton
Requirement already satisfied: filelock in c:\\users\\trainer\\python311\\lib\\site-packages (from triton==3.1.0)
triton is already installed with the same version as the provided wheel. Use --force-reinstall to force an installation

People paste them behind an error to show that a package is there; the folders tell into which Python it went.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "pip_line"
TITLE: Final = "pip's answers, with the Python they are about"
TRIGGERS: Final = (
    b"pip install ",
    b"pip3 install ",
    b"Requirement already satisfied: ",
    b"is already installed with the",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "Requirement already satisfied: filelock in c:\\users\\trainer\\python311\\lib\\site-packages "
    "(from triton==3.1.0) (3.16.1)": {
        "kind": "found",
        "package": "filelock",
        "folder": "c:\\users\\trainer\\python311\\lib\\site-packages",
        "wanted_by": "triton",
    },
    "D:\\studio\\python_embed>pip install triton-3.1.0-cp311-cp311-win_amd64.whl": {
        "kind": "command",
        "package": "triton",
        "folder": "D:\\studio\\python_embed",
    },
    "triton is already installed with the same version as the provided wheel. Use --force-reinstall to force an "
    "installation of the wheel.": {"kind": "installed", "package": "triton"},
}

_COMMAND: Final = lazily(
    r"^(?:\([\w.-]+\) )?(?:PS )?(?:(?P<folder>[A-Za-z]:\\[^>\n]*|/[^>\n]*)>|[\w.@:~/ -]{0,80}[$#%]) ?"
    r"(?P<command>[^\n]*?\bpip3? install (?P<rest>[^\n]+))"
)
_NAME: Final = lazily(r"(?:\S*[/\\])?(?P<name>[A-Za-z][\w.]*?(?:-[A-Za-z]\w*)*)(?:-\d[\w.+-]*\.whl|[=<>!~\[].*)?$")
_FOUND: Final = lazily(
    r"^Requirement already satisfied: (?P<package>[\w.-]+)[^\s]* in (?P<folder>\S.*?)"
    r"(?: \(from (?P<by>[\w.-]+?)(?:[=<>!~(,\[].*)?\))?(?: \([\w.+!-]+\))?$"
)
_THERE: Final = lazily(r"^(?P<package>[\w.-]+) is already installed with the same version as the provided wheel")


class PipLine(Record, frozen=True):
    """One line. `kind`: command (a prompt with `pip install`), found (a package in a folder) or installed.

    `folder` is where the package was found, or the folder that the prompt shows ("" where it shows none); `wanted_by`
    the package that asked for it; `command` what was typed.
    """

    kind: str
    package: str
    folder: str
    wanted_by: str
    command: str


def read(message: Message) -> Iterator[PipLine]:
    """The line, if it is pip's or a prompt's; advice to install something is none."""
    if message.exception is not None:
        return
    text = message.first
    if (m := _FOUND.match(text)) is not None:
        yield PipLine(message.anchor, "found", m["package"], m["folder"], m["by"] or "", "", **message.common)
    elif (m := _THERE.match(text)) is not None:
        yield PipLine(message.anchor, "installed", m["package"], "", "", "", **message.common)
    elif (m := _COMMAND.match(text)) is not None:
        words = [w for w in m["rest"].split() if not w.startswith("-")]
        name = _NAME.match(words[0].strip("'\"")) if words else None
        yield PipLine(
            message.anchor,
            "command",
            name["name"] if name else "",
            m["folder"] or "",
            "",
            m["command"],
            **message.common,
        )
