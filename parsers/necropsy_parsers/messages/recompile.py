"""Recompilations: a compiled function does not fit a call, and why each compiled version of it does not.

Recompiling function forward in /home/trainer/net.py:63
    triggered by the following guard failure(s):
    - 0/0: tensor 'x' size mismatch at index 0. expected 48, actual 41
('Recompiling function forward in /home/trainer/net.py:63', "triggered by the following guard failure: L['n'] == 3")
torch._dynamo.exc.RecompileError: Recompiling function forward in /home/trainer/net.py:63
RuntimeError: Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: '/home/trainer/net.py',
function name: 'forward', line number: 63

The tuple on one line is that of torch 2.1. Since 2.2 every compiled version has its reason, since 2.5 its id; since
2.7 local names are bare (`x`, before `L['x']`), since 2.11 the user's stack may follow. `recompiles_verbose` groups
the reasons under `guard 0 failures:`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record
from necropsy_parsers.text.guard_failure import GuardFailure, failures
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "recompile"
TITLE: Final = "Recompilations of a function and the guards that failed"
TRIGGERS: Final = (
    b"Recompiling function ",
    b"triggered by the following guard failure",
    b"stance is 'fail_on_recompile'",
)
READS: Final = (
    Reads("recompiles", "2.1", "function, failed guards with source, expected and actual value, lines"),
    Reads("recompiles_verbose", "2.2", "the same of every guard"),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "('Recompiling function forward in /home/trainer/net.py:63', "
    "\"triggered by the following guard failure: L['n'] == 3\")": {
        "function": "forward",
        "file": "/home/trainer/net.py",
        "line": 63,
        "versions": 1,
        "refused": "",
    },
}
_HEAD: Final = lazily(r"Recompiling function (?P<function>.+?) in (?P<file>[^\n]+?):(?P<line>\d+)(?=['\"\s]|$)")
_STANCE: Final = lazily(
    r"filename: '(?P<file>[^'\n]+)', function name: '(?P<function>[^'\n]+)', line number: (?P<line>\d+)"
)
_REASONS: Final = lazily(r"triggered by the following guard failure(?:\(s\))?:[ \t]*")
_TUPLE_END: Final = lazily(r"""["']\)$""")


class Recompile(Record, frozen=True):
    """A function is compiled again.

    `entries` are the failed guards of the compiled versions so far (the version used last first, eight at most);
    `versions` is how many were listed. `compile_id` is that of the new compilation. `refused` names the setting
    that forbids it: error_on_recompile, fail_on_recompile. `wording` is "2.1" where it is that release's.
    """

    function: str
    file: str
    line: int | None
    compile_id: str
    entries: tuple[tuple[GuardFailure, ...], ...]
    versions: int
    refused: str
    wording: str


def read(message: Message) -> Iterator[Recompile]:
    """The recompilations that a message tells: entries with the same head may have been joined."""
    heads = list(_HEAD.finditer(message.text))
    if not heads and (stance := _STANCE.search(message.text)) is not None:
        heads = [stance]
    if not heads:
        yield _recompile(message, None, message.text)
    for i, head in enumerate(heads):
        end = heads[i + 1].start() if i + 1 < len(heads) else len(message.text)
        yield _recompile(message, head, message.text[head.start() : end])


def _recompile(message: Message, head: re.Match[str] | None, text: str) -> Recompile:
    told = _REASONS.search(text)
    body = text[told.end() :] if told else ""
    wording = ""
    if told and "(s)" not in told[0]:  # torch 2.1 prints a tuple on one line
        body, wording = _TUPLE_END.sub("", body.strip()).replace("\\'", "'").replace("\\n", "\n"), "2.1"
    elif "REPORT_GUARD_FAILURES" in text:
        wording = "2.1"
    entries, versions = failures(body.split("\n"))
    refused = ""
    if message.exception is not None:
        refused = "fail_on_recompile" if "stance is" in message.text else "error_on_recompile"
    return Recompile(
        message.anchor,
        head["function"] if head else "",
        head["file"] if head else "",
        int(head["line"]) if head else None,
        message.origin.compile_id,
        tuple(map(tuple, entries)),
        versions,
        refused,
        wording,
        **message.common,
    )
