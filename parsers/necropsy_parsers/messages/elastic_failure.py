"""torchrun's summary of failed workers, line by line, and the workers that it describes.

    Root Cause (first observed failure):
    [0]:
      time      : 2026-11-29_14:48:32
      host      : node-3
      rank      : 1 (local_rank: 1)
      exitcode  : -11 (pid: 25354)
      error_file: <N/A>
      traceback : Signal 11 (SIGSEGV) received by PID 25354

torch/distributed/elastic/multiprocessing/errors/__init__.py since 1.9; since about 2.13 the signal's name follows.
"First observed" is what the agent of one node noticed first, not what happened first. Where a worker's main function is
decorated with `@record`, the traceback of its error file stands in the summary, and is read like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import field
from msgspec.structs import replace

from necropsy_parsers.messages import Message, read_all
from necropsy_parsers.messages.process_exit import signal_of
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.text.traceback import PythonTraceback, TracebackReader

NAME: Final = "elastic_failure"
TITLE: Final = "torchrun's summary of failed workers"
TRIGGERS: Final = (
    b"time      :", b"host      :", b"rank      :", b"exitcode  :", b"error_file:", b"traceback :",
    b"Root Cause (first observed failure)",
)  # fmt: skip
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "  host      : node-3": {"name": "host", "value": "node-3"},
    "  error_file: /tmp/torchelastic_x1/none_y2/attempt_0/1/error.json": {"name": "error_file"},
    "Root Cause (first observed failure):": {"name": "root"},
}
_LINE: Final = lazily(r"\s*(?P<name>time|host|rank|exitcode|error_file|traceback) *: ?(?P<value>.*)$")
_ROOT: Final = lazily(r"\s*Root Cause \(first observed failure\):")
_RANK: Final = lazily(r"(?P<rank>\d+) \(local_rank: (?P<local>\d+)\)")
_EXIT: Final = lazily(r"(?P<code>-?\d+) \(pid: (?P<pid>\d+)\)")
_NOTHING: Final = lazily(r"<N/A>$|To enable traceback see|Signal \d+ \(\S+\) received by PID")
_FOLDER: Final = lazily(r"attempt_\d+/(\d+)/[^/]+$")
INDENT: Final = 2  # blanks before each line of an entry
NEAR: Final = 16 * 1024  # bytes between the lines of one worker's entry: error files bring whole tracebacks


class FailureLine(Record, frozen=True):
    """One line of the summary: `name` (time, host, rank, exitcode, error_file, traceback, root) and `value`."""

    name: str
    value: str


class ElasticFailure(Record, frozen=True):
    """One worker of the summary.

    `code` is the exit code as printed (negative: killed by a signal), `signal` its name or "". `first` tells that the
    agent noticed it first; `message` is what the worker's error file says of the exception ("" if none), `frames`
    the stack in that file, outermost first.
    """

    rank: int | None
    local_rank: int | None
    host: str
    pid: int | None
    code: int | None
    signal: str
    time: str
    first: bool
    error_file: str
    message: str
    frames: tuple[Frame, ...] = field(default=())


def read(message: Message) -> Iterator[Record]:
    """The line of the summary that `message` is, if it is one, and the traceback that follows it."""
    if message.exception is not None:
        return
    first, *rest = message.text.split("\n")
    if _ROOT.match(first):
        yield FailureLine(message.anchor, "root", "", **message.common)
    elif (m := _LINE.match(first)) is not None:
        yield FailureLine(message.anchor, m["name"], m["value"].strip(), **message.common)
        # The log joins the lines below "error_file" to it, for they are indented.
        if rest and (told := _LINE.match(rest[0])) is not None and told["name"] == "traceback":
            yield FailureLine(message.anchor, "traceback", told["value"].strip(), **message.common)
            yield from _embedded(message, m["value"], [told["value"], *(line[INDENT:] for line in rest[1:])])


def _embedded(message: Message, error_file: str, lines: list[str]) -> Iterator[Record]:
    """The exception of a worker's error file, and what it says; the file's folder is named after its local rank."""
    reader = TracebackReader()
    begun = reader.begin(lines[0])
    if not begun or not all(reader.feed(line) for line in lines[1:] if line.strip()):
        return
    chain = reader.take()
    if not chain[-1].complete:
        return
    folder = _FOLDER.search(error_file)
    origin = replace(message.origin, rank=None, local_rank=int(folder[1]) if folder else None, pid=None)
    anchor = replace(message.anchor, text=f"{chain[-1].type}: {chain[-1].message}".rstrip(": ")[:400])
    kind = "plain" if begun == "header" else "bare"
    seq = message.seq + 1
    trace = PythonTraceback(anchor, chain, kind, len(lines), origin=origin, seq=seq, attempt=message.attempt)
    yield trace
    for exc in chain:
        said = f"{exc.type}: {exc.text}"
        yield from read_all(Message(said, anchor, origin, seq, message.attempt, exception=trace))


def failures(lines: Sequence[FailureLine], tracebacks: Iterable[PythonTraceback] = ()) -> list[ElasticFailure]:
    """The workers that `lines` of summaries describe; `tracebacks` are those that stand inside the summaries."""
    found: list[ElasticFailure] = []
    entry: dict[str, FailureLine] = {}
    first = False
    told = {(x.anchor.input, x.seq + 1) for x in lines if x.name == "error_file"}
    stacks = [t for t in tracebacks if (t.anchor.input, t.seq) in told]
    for line in sorted(lines, key=lambda x: (x.anchor.input, x.seq)):
        if line.name in ("time", "root") and entry:
            found += _worker(entry, first, stacks)
            entry, first = {}, False
        if line.name == "root":
            first = True
        else:
            entry[line.name] = line
    found += _worker(entry, first, stacks)
    return found


def _worker(entry: dict[str, FailureLine], first: bool, stacks: Iterable[PythonTraceback]) -> Iterator[ElasticFailure]:
    """The worker of one entry, if it has an exit code; its record stands at that line."""
    at = entry.get("exitcode")
    if at is None or (ended := _EXIT.match(at.value)) is None:
        return
    value = {name: line.value for name, line in entry.items() if abs(line.seq - at.seq) < NEAR}
    ranks = _RANK.match(value.get("rank", ""))
    code = int(ended["code"])
    stack = next((s for s in stacks if s.anchor.input == at.anchor.input and 0 < s.seq - at.seq < NEAR), None)
    told = value.get("traceback", "")
    error_file = value.get("error_file", "")
    yield ElasticFailure(
        at.anchor,
        rank=int(ranks["rank"]) if ranks else None,
        local_rank=int(ranks["local"]) if ranks else None,
        host=value.get("host", ""),
        pid=int(ended["pid"]),
        code=code,
        signal=signal_of(code) if code < 0 else "",
        time=value.get("time", ""),
        first=first,
        error_file="" if error_file == "<N/A>" else error_file,
        message=_exception(stack) if stack is not None else "" if _NOTHING.match(told) else told,
        frames=tuple(stack.chain[-1].frames) if stack is not None else (),
        origin=at.origin,
        seq=at.seq,
        attempt=at.attempt,
    )


def _exception(trace: PythonTraceback) -> str:
    last = trace.chain[-1]
    return f"{last.type}: {last.message}".rstrip(": ")
