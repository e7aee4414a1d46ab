"""How processes ended, as shells, launchers and interpreters say it.

Segmentation fault (core dumped)          bash: line 1: 4411 Killed   python train.py
Fatal Python error: Segmentation fault    Aborted (core dumped)       exit code 139
Illegal instruction (core dumped)         Bus error (core dumped)     exitcode : -11 (pid: 4411)
failed (exitcode: -6) local_rank: 1 (pid: 88013) of binary: /opt/conda/bin/python        torchrun
srun: error: node-3: tasks 0-2: Aborted (core dumped)
mpirun noticed that process rank 3 with PID 4411 on node node-3 exited on signal 9 (Killed).
[rank: 1] Child process with PID 4411 terminated with code 1. Forcefully terminating ...   Lightning
['python', '-u', 'train.py'] exits with return code = -9                                   DeepSpeed
ProcessExitedException: process 1 terminated with signal SIGSEGV                           torch.multiprocessing
A worker died or was killed while executing a task by an unexpected system error. ... Worker PID: 4411 ...      Ray

段错误 (核心已转储)         Speicherzugriffsfehler (Speicherabzug geschrieben)         shells in other languages

A launcher's line says whose end it reports: that process, not the launcher, is then the record's origin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Origin, Record

# The same in the languages of glibc and bash, as far as a line of these words says nothing else.
_ABROAD: Final = {
    "段错误": "SIGSEGV", "段錯誤": "SIGSEGV", "區段錯誤": "SIGSEGV", "セグメンテーション違反": "SIGSEGV",
    "Speicherzugriffsfehler": "SIGSEGV", "Erreur de segmentation": "SIGSEGV", "Violación de segmento": "SIGSEGV",
    "Fallo de segmentación": "SIGSEGV", "Errore di segmentazione": "SIGSEGV", "Falha de segmentação": "SIGSEGV",
    "Ошибка сегментирования": "SIGSEGV", "세그멘테이션 오류": "SIGSEGV", "세그멘테이션 결함": "SIGSEGV",
    "Naruszenie ochrony pamięci": "SIGSEGV", "已放弃": "SIGABRT", "Аварийный останов": "SIGABRT",
    "已杀死": "SIGKILL", "已砍掉": "SIGKILL", "Getötet": "SIGKILL", "Убито": "SIGKILL", "Processus arrêté": "SIGKILL",
}  # fmt: skip
NAME: Final = "process_exit"
TITLE: Final = "Ends of processes: signals and exit codes"
TRIGGERS: Final = (
    b"egmentation fault",
    b"SIGSEGV",
    b"core dumped",
    b"Killed",
    b"llegal instruction",
    b"Bus error",
    b"Fatal Python error",
    b"xit code",
    b"xitcode",
    b"exit status",
    b"Aborted",
    b"SIGKILL",
    b"SIGBUS",
    b"SIGILL",
    b"SIGABRT",
    b"exit 1",
    b"exited with",
    b"SIGFPE",
    b"loating point exception",
    b"exited on",
    b"Process name: [",
    b"terminated with",
    b"with return code",
    b"died with <Signals",
    b"A worker died",
    *(word.encode() for word in _ABROAD),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "bash: line 1:  4411 Segmentation fault      (core dumped) python train.py": {"signal": "SIGSEGV", "pid": 4411},
    "段错误 (核心已转储)": {"signal": "SIGSEGV", "core": True},
    "exitcode  : -9 (pid: 4411)": {"signal": "SIGKILL", "pid": 4411},
    "['/opt/conda/bin/python', '-u', 'train.py'] exits with return code = -9": {"signal": "SIGKILL", "code": -9},
}

SIGNALS: Final = {
    1: "SIGHUP",
    2: "SIGINT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    24: "SIGXCPU",
}
_WORDS: Final = (
    (lazily(r"Segmentation fault|segmentation fault|SIGSEGV"), "SIGSEGV"),
    (lazily(r"Illegal instruction|SIGILL"), "SIGILL"),
    (lazily(r"Bus error|SIGBUS"), "SIGBUS"),
    (lazily(r"Floating point exception|SIGFPE"), "SIGFPE"),
    (lazily(r"\bKilled\b|SIGKILL"), "SIGKILL"),
    (lazily(r"\bAborted\b|SIGABRT"), "SIGABRT"),
    (lazily(r"\bTerminated\b|SIGTERM"), "SIGTERM"),
)
# A whole line of a shell or launcher; words inside prose do not count.
_SHELL: Final = lazily(
    r"(?:\S*(?:bash|sh|/\S+): (?:line \d+:|\S+:)? *)?(?:\[\d+\][+-]? +)?(?:(?P<pid>\d+) +)?"
    r"(?P<what>Segmentation fault|Killed|Aborted|Illegal instruction|Bus error|Floating point exception)"
    r"(?P<core>\s*\(core dumped\))?(?:\s{2,}\S.*|\s+(?:nohup|python|torchrun|bash|sh|accelerate|deepspeed"
    r"|\S+\.(?:sh|py)|/\S+|[\"$]\S*).*)?\s*$"
)
_SHELL_ABROAD: Final = lazily(
    r"(?:\S+[:：] ?(?:[^\d:：]{0,8}\d+[^\d:：]{0,4}[:：])? *)?(?:(?P<pid>\d+) +)?(?P<what>"
    + "|".join(_ABROAD)
    + r")(?:(?P<core>\s*[(（][^()（）]{2,40}[)）]).*|\s{2,}\S.*)?$"
)
# bash translates what it adds apart from the signal's name.
_CORE_ABROAD: Final = lazily(
    r"(?P<what>Segmentation fault|Aborted|Bus error) ?[(（][^()（）\x00-\x7f][^()（）]{1,40}[)）]"
)
_FATAL: Final = lazily(r"Fatal Python error: (?P<reason>[^\n]+)")
_SRUN: Final = lazily(r"srun: error: (?P<host>[\w.-]+): tasks? (?P<tasks>[\d,-]+): (?P<what>.+)$")
_CODE: Final = lazily(
    r"^(?:exit|exit code|Exit code|exit status)[ :=]+(?P<bare>-?\d{1,3})$"
    r"|\bexitcode\s*: ?(?P<elastic>-?\d{1,3})\b(?:.{0,40}?pid: ?(?P<pid>\d+))?"
    r"|\b(?:[Pp]rocess|[Cc]ommand|[Jj]ob|[Ss]cript|[Tt]ask|[Cc]ontainer|[Pp]rogram|main)\b.{0,100}?"
    r"(?:exit(?:ed)?(?: with)?(?: exit)?(?: error)? ?(?:code|status)|exited with|returned non-zero exit "
    r"status)[^\w-]{0,4}(?P<code>-?\d{1,3})\b"
)
_DIED: Final = lazily(
    r"died with <Signals\.(?P<signal>SIG\w+): \d+>|Signal (?P<n>\d+) \((?P<s>SIG\w+)\) received by PID (?P<pid>\d+)"
)
# Launchers that say which of their processes they mean.
_NAMED: Final = (
    lazily(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\) of (?:binary|fn): "),
    lazily(
        r"noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+) exited on(?: "
        r"signal (?P<signal>\d+)|$)"
    ),
    # PRRTE (Open MPI 5) breaks the line before "signal"; both name the first process with an exit code on its own line.
    lazily(r"^signal (?P<signal>\d+)(?: \([\w .]+\))?\.$"),
    lazily(r"^Process name: \[(?:\[\d+,\d+\],|\S+[@,])(?P<rank>\d+)\]$"),
    lazily(r"\[rank: (?P<rank>\d+)\] Child process with PID (?P<pid>\d+) terminated with code (?P<code>-?\d+)\."),
    lazily(r"\] exits with return code = (?P<code>-?\d+)$"),
    lazily(r"\bprocess (?P<local>\d+) terminated with (?:signal (?P<name>SIG\w+)|exit code (?P<code>\d+))"),
)
# Ray lists what may have happened (SIGKILL, SIGSEGV, ...) without knowing; only a number says something.
_RAY: Final = lazily(
    r"A worker died or was killed while executing .*?Worker IP address: (?P<ip>\S+) .*?Worker PID: (?P<pid>\d+)"
    r" .*?Worker exit detail: (?P<detail>(?:.*?with an exit code (?P<code>-?\d+))?.*)"
)


class ProcessExit(Record, frozen=True):
    """One reported end. `signal` ("" if none), `code` (None if untold), who said it.

    `by`: `shell`, `interpreter` (faulthandler), `launcher`, `Ray`. `reason` is the text of faulthandler or Ray.
    Rank, local rank and host of the process that ended are those of `origin`, as far as the line tells them.
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
        yield from _raised(message)
        return
    text = message.first.strip()
    if (named := _named(message, text)) is not None:
        yield named
        return
    if (m := _RAY.search(text)) is not None:
        code = int(m["code"]) if m["code"] else None
        signal = signal_of(code or 0)
        origin = replace(message.origin, host=m["ip"], pid=int(m["pid"]), source=None)
        reason = m["detail"].split(". ")[0]
        yield ProcessExit(
            message.anchor,
            signal,
            code,
            int(m["pid"]),
            "Ray",
            reason,
            False,
            origin=origin,
            seq=message.seq,
            attempt=message.attempt,
        )
        return
    signal, code, pid, by, reason = "", None, None, "shell", ""
    origin = message.origin
    core = "core dumped" in text
    if (m := _FATAL.search(text)) is not None:
        reason, by = m["reason"].strip(), "interpreter"
        signal = _signal_in(reason)
    elif (m := _SRUN.match(text)) is not None:
        by, reason = "launcher", m["what"]
        signal = _signal_in(reason)
        origin = replace(origin, host=m["host"])
        found = re.search(r"exit code (\d+)", reason)
        code = int(found[1]) if found else None
    elif (said := _by_shell(text)) is not None:
        signal, pid, abroad = said
        core = core or abroad
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
    yield ProcessExit(
        message.anchor, signal, code, pid, by, reason, core, origin=origin, seq=message.seq, attempt=message.attempt
    )


def _by_shell(text: str) -> tuple[str, int | None, bool] | None:
    """The signal, the process and whether a core was dumped, in the words of a shell."""
    if (m := _SHELL.match(text)) is not None:
        return _signal_in(m["what"]), int(m["pid"]) if m["pid"] else None, m["core"] is not None
    if (m := _SHELL_ABROAD.match(text)) is not None:
        return _ABROAD[m["what"]], int(m["pid"]) if m["pid"] else None, m["core"] is not None
    if (m := _CORE_ABROAD.match(text)) is not None:
        return _signal_in(m["what"]), None, True
    return None


def _signal_in(text: str) -> str:
    return next((s for p, s in _WORDS if p.search(text)), "")


def _named(message: Message, text: str) -> ProcessExit | None:
    """The end that a launcher reports of a process that it names."""
    m = next((found for form in _NAMED if (found := form.search(text)) is not None), None)
    if m is None:
        return None
    part = {name: value for name, value in m.groupdict().items() if value is not None}
    code = int(part["code"]) if "code" in part else None
    if code == 0:
        return None
    origin = _whose(message.origin, part)
    number = int(part.get("signal", 0))
    signal = part.get("name") or SIGNALS.get(number, f"signal {number}" if number else "") or signal_of(code or 0)
    pid = int(part["pid"]) or None if "pid" in part else None  # Open MPI 4.1.8 prints 0 for a process it has reaped
    return ProcessExit(
        message.anchor,
        signal,
        code,
        pid,
        "launcher",
        "",
        False,
        origin=origin,
        seq=message.seq,
        attempt=message.attempt,
    )


def _whose(origin: Origin, part: dict[str, str]) -> Origin:
    """The process that a launcher's line names, instead of the launcher."""
    if not {"rank", "local", "host"} & part.keys():
        return origin
    return replace(
        origin,
        rank=int(part["rank"]) if "rank" in part else None,
        local_rank=int(part["local"]) if "local" in part else None,
        host=part.get("host", origin.host),
        pid=int(part["pid"]) or None if "pid" in part else None,
    )


def _raised(message: Message) -> Iterator[ProcessExit]:
    """The end of another process that an exception reports: a launcher's own, or `torch.multiprocessing.spawn`'s."""
    text = message.first
    if "ProcessExitedException" in text:
        if (named := _named(message, text)) is not None:
            yield named
    elif "CalledProcessError" in text and (m := _DIED.search(text)) is not None and m["signal"]:
        yield ProcessExit(message.anchor, m["signal"], None, None, "launcher", "", False, **message.common)
