"""How processes ended, as shells, launchers and interpreters say it.

Segmentation fault (core dumped)          bash: line 1: 4411 Killed   python train.py
Fatal Python error: Segmentation fault    Aborted (core dumped)       exit code 139
Illegal instruction (core dumped)         Bus error (core dumped)     exitcode : -11 (pid: 4411)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.records import Record

NAME: Final = "process_exit"
TITLE: Final = "Ends of processes: signals and exit codes"
TRIGGERS: Final = (
    b"egmentation fault", b"SIGSEGV", b"core dumped", b"Killed", b"llegal instruction", b"Bus error", b"Fatal Python error",
    b"xit code", b"xitcode", b"exit status", b"Aborted", b"SIGKILL", b"SIGBUS", b"SIGILL", b"SIGABRT", b"exit 1", b"exited with",
    b"SIGFPE", b"loating point exception",
)  # fmt: skip
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "bash: line 1:  4411 Segmentation fault      (core dumped) python train.py": {"signal": "SIGSEGV", "pid": 4411},
    "exitcode  : -9 (pid: 4411)": {"signal": "SIGKILL", "pid": 4411},
}

SIGNALS: Final = {
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
    2: "SIGINT",
}
_WORDS: Final = (
    (re.compile(r"Segmentation fault|segmentation fault|SIGSEGV"), "SIGSEGV"),
    (re.compile(r"Illegal instruction|SIGILL"), "SIGILL"),
    (re.compile(r"Bus error|SIGBUS"), "SIGBUS"),
    (re.compile(r"Floating point exception|SIGFPE"), "SIGFPE"),
    (re.compile(r"\bKilled\b|SIGKILL"), "SIGKILL"),
    (re.compile(r"\bAborted\b|SIGABRT"), "SIGABRT"),
)
# A whole line of a shell or launcher; words inside prose do not count.
_SHELL: Final = re.compile(
    r"(?:\S*(?:bash|sh|/\S+): (?:line \d+:|\S+:)? *)?(?:\[\d+\][+-]? +)?(?:(?P<pid>\d+) +)?"
    r"(?P<what>Segmentation fault|Killed|Aborted|Illegal instruction|Bus error|Floating point exception)"
    r"(?P<core>\s*\(core dumped\))?(?:\s{2,}\S.*|\s+(?:nohup|python|torchrun|bash|sh|accelerate|deepspeed|\S+\.(?:sh|py)|/\S+|[\"$]\S*).*)?\s*$"
)
_FATAL: Final = re.compile(r"Fatal Python error: (?P<reason>[^\n]+)")
_SRUN: Final = re.compile(r"srun: error: (?P<host>[\w.-]+): tasks? (?P<tasks>[\d,-]+): (?P<what>.+)$")
_CODE: Final = re.compile(
    r"^(?:exit|exit code|Exit code|exit status)[ :=]+(?P<bare>-?\d{1,3})$"
    r"|\bexitcode\s*: ?(?P<elastic>-?\d{1,3})\b(?:.{0,40}?pid: ?(?P<pid>\d+))?"
    r"|\b(?:[Pp]rocess|[Cc]ommand|[Jj]ob|[Ss]cript|[Tt]ask|[Cc]ontainer|[Pp]rogram|main)\b.{0,100}?"
    r"(?:exit(?:ed)?(?: with)?(?: exit)?(?: error)? ?(?:code|status)|exited with|returned non-zero exit status)[^\w-]{0,4}(?P<code>-?\d{1,3})\b"
)
_DIED: Final = re.compile(
    r"died with <Signals\.(?P<signal>SIG\w+): \d+>|Signal (?P<n>\d+) \((?P<s>SIG\w+)\) received by PID (?P<pid>\d+)"
)


@dataclass(frozen=True, slots=True)
class ProcessExit(Record):
    """One reported end. `signal` ("" if none), `code` (None if untold), who said it.

    `by`: `shell`, `interpreter` (faulthandler), `launcher`. `reason` is faulthandler's text.
    """

    signal: str
    code: int | None
    pid: int | None
    by: str
    reason: str
    core: bool


def signal_of(code: int) -> str:
    """The signal behind an exit code (`139`, `-11`), or ""."""
    return SIGNALS.get(-code if code < 0 else code - 128 if code > 128 else 0, "")


def read(message: Message) -> Iterator[ProcessExit]:
    """The end that `message` reports, if it does."""
    if message.exception is not None:
        return
    text = message.first.strip()
    signal, code, pid, by, reason = "", None, None, "shell", ""
    core = "core dumped" in text
    if (m := _FATAL.search(text)) is not None:
        reason, by = m["reason"].strip(), "interpreter"
        signal = next((s for p, s in _WORDS if p.search(reason)), "")
    elif (m := _SRUN.match(text)) is not None:
        by, reason = "launcher", m["what"]
        signal = next((s for p, s in _WORDS if p.search(reason)), "")
        found = re.search(r"exit code (\d+)", reason)
        code = int(found[1]) if found else None
    elif (m := _SHELL.match(text)) is not None:
        signal = next((s for p, s in _WORDS if p.search(m["what"])), "")
        pid = int(m["pid"]) if m["pid"] else None
    elif (m := _DIED.search(text)) is not None:
        signal, by = m["signal"] or m["s"], "launcher"
        pid = int(m["pid"]) if m["pid"] else None
    elif (m := _CODE.search(text)) is not None:
        code = int(m["code"] or m["elastic"] or m["bare"])
        pid = int(m["pid"]) if m["pid"] else None
        signal, by = signal_of(code), "launcher"
    else:
        return
    if code == 0 and not signal:
        return
    yield ProcessExit(message.anchor, signal, code, pid, by, reason, core, **message.common)
