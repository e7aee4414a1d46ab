"""Peels what launchers, containers and loggers put before a message.

    `[default0]:[rank0]:   File "a.py"` -> rank 0, `  File "a.py"`
    `3: 2025-06-13 20:29:55,656 model/model.py:580 : WARNING  : Skipping` -> rank 3, model.py:580, WARNING
    `[1,2]<stderr>:Traceback ...` -> rank 2, stderr

Two kinds of prefix are told apart. *Identity* prefixes say which process wrote the
line, and keep woven writers apart (`Peeled.key`); *head* prefixes (time, level,
logger, place) stand before a message of the same writer. Exactly the blanks that a
prefix writes are removed, because the indentation after it belongs to the traceback.

Prefixes that look like ordinary text (`3: `, `node-17: `, `svc-1  | `) are taken only
if `vote` found them on most lines of the input's head.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from necropsy_parsers.records import UNKNOWN, Origin
from necropsy_parsers.text.stamp import CLOCKS, glog_stamp, parse_stamp, stamp_of

Update = Callable[[Origin, "re.Match[str]"], Origin]

LEVELS: Final = (
    "DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|EXCEPTION|TRACE|SEVERE"
    "|debug|info|notice|warning|warn|error|critical|fatal"
)


class Peeled(Struct, frozen=True):
    """A line without its prefixes.

    `key` identifies the writer among woven lines; `headed` tells that a time, level or
    logger stood before the text, so that the line starts a message.
    """

    text: str
    origin: Origin
    key: str
    headed: bool


def _rank(o: Origin, m: re.Match[str]) -> Origin:
    return Origin(rank=int(m["rank"])) if o is UNKNOWN else replace(o, rank=int(m["rank"]))


def _said_rank(o: Origin, m: re.Match[str]) -> Origin:
    """A rank in a program's own words (`[Rank 1] Watchdog caught ...`): no prefix if a launcher's stands before."""
    return replace(o, rank=int(m["rank"]))


def _local(o: Origin, m: re.Match[str]) -> Origin:
    return replace(o, local_rank=int(m["local"]))


def _mpi(o: Origin, m: re.Match[str]) -> Origin:
    return replace(o, rank=int(m["rank"]), stream=m["stream"])


def _actor(o: Origin, m: re.Match[str]) -> Origin:
    rank = m["rank"] or m["tp"]
    return replace(
        o,
        source=m["actor"] or o.source,
        pid=int(m["pid"]),
        host=m["ip"] or o.host,
        rank=int(rank) if rank else o.rank,
    )


def _nccl(o: Origin, m: re.Match[str]) -> Origin:
    return replace(o, host=m["host"], pid=int(m["pid"]), level=m["level"])


def _source(o: Origin, m: re.Match[str]) -> Origin:
    return replace(o, source=m["source"])


def _journal(o: Origin, m: re.Match[str]) -> Origin:
    pid = m["pid"]
    stamp = parse_stamp(m["time"]) or o.time
    return replace(o, host=m["host"], source=m["source"], pid=int(pid) if pid else o.pid, time=stamp)


def _glog(o: Origin, m: re.Match[str]) -> Origin:
    level, time, pid, file, line, *more = m.groups()
    compile_id, artifact = more or ("", "")
    return Origin(  # a third of the time of `replace`, and half of a compiler's log comes through here
        o.rank,
        o.local_rank,
        o.host,
        int(pid) if pid else o.pid,
        o.source,
        o.stream,
        level,
        (file, int(line)),
        (glog_stamp(time) if time else None) or o.time,
        compile_id or "",
        artifact or "",
    )


@lru_cache(maxsize=1024)
def _of_rank(rank: str) -> Origin:
    return Origin(rank=int(rank))


_RANKED: Final = re.compile(r"\[rank(?P<rank>\d{1,5})\]: ?(?=\S|$| )")
# Identity prefixes: (first characters, pattern, what it tells). Tried in order while one matches.
IDENTITY: Final[tuple[tuple[str, re.Pattern[str], Update], ...]] = (
    ("[", _RANKED, _rank),
    ("[", re.compile(r"\[[Rr]ank[ =:]?(?P<rank>\d{1,5})\]:? ?(?=\S|$| )"), _said_rank),
    ("[", re.compile(r"\[(?:default|trainer|worker|role|proc|local_rank)(?P<local>\d{1,5})\]: ?(?=\[|\S|$| )"), _local),
    (
        "[",
        re.compile(
            r"\[(?:[^\]\s,<>]{0,80}[@,])?(?P<rank>\d{1,6})\](?:\[[^\]]*\])?<(?P<stream>stdout|stderr|stddiag)>: ?"
        ),
        _mpi,
    ),
    (
        "(",
        re.compile(
            r"\((?P<actor>[A-Za-z][\w.<>:-]*?(?:_TP(?P<tp>\d+))?)?(?: rank=(?P<rank>\d+))? ?"
            r"pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\w.:-]+))?\)(?: |$)"
        ),
        _actor,
    ),
    ("[", re.compile(r"\[(?:pod/)(?P<source>[^\]\s]+)\](?: |$)"), _source),
    (
        "",
        re.compile(
            r"(?:\[[\d :.T-]{15,30}\] )?(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[\d+\] "
            r"(?=(?:\S+:\d+ )?NCCL (?P<level>INFO|WARN|TRACE|VERSION)\b)"
        ),
        _nccl,
    ),
    (
        "",
        re.compile(
            r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<host>[\w.-]+) "
            r"(?P<source>[\w./@-]+?)(?:\[(?P<pid>\d+)\])?:(?: |$)"
        ),
        _journal,
    ),
)


def _dynamo(o: Origin, m: re.Match[str]) -> Origin:
    """Torch 2.1 and 2.2, and the short format, print the module of the logging call, and no line."""
    told = m.groupdict()
    return replace(
        o,
        level=told["level"],
        time=(parse_stamp(told["time"]) if told.get("time") else None) or o.time,
        place=(told["module"].replace(".", "/") + ".py", 0),
        compile_id=told.get("cid") or "",
        artifact=told["artifact"] or "",
    )


# glog of c10 ([W1129 12:29:41.75 a.cpp:15] ; months are not padded; before torch 2.2: [W a.cpp:15] ) and of
# torch's Python side (W1129 12:29:35.67 6628 torch/run.py:851] [0/1] ).
_GLOG_C10: Final = re.compile(
    r"\[?(?P<level>[IWEF])(?P<time>\d{3,4} \d\d:\d\d:\d\d\.\d+)?(?P<pid>(?!x)x)? "
    r"(?P<file>[\w./\\:-]+?\.(?:cpp|h|cc|cu)):(?P<line>\d+)\] ?"
)
_TORCH_LOG: Final = frozenset("DIWEFCV[")
_GLOG_PY: Final = re.compile(
    r"(?P<level>[DIWEFCV])(?P<time>\d{4} \d\d:\d\d:\d\d\.\d+) +(?P<pid>\d+) (?P<file>[\w./\\<>-]+):(?P<line>\d+)\]"
    r"(?: \[(?P<compile_id>[\d/_!-]+)\])?(?: \[__(?P<artifact>\w+)\])? ?"
)
_DYNAMO: Final = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\](?: \[(?P<cid>[\d/_!-]+)\])? "
    r"(?P<module>torch(?:\.\w+)+?)(?:\.__(?P<artifact>\w+))?: \[(?P<level>[A-Z]+)\] ?"
)
# TORCH_LOGS_FORMAT=short, and Python's own default (torch 2.2 and later): only the first line of a message has it.
_SHORT: Final = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?P<module>torch\.(?:_dynamo|_inductor|_functorch|fx)(?:\.\w+)*?)"
    r"(?:\.__(?P<artifact>\w+))?:"
)
_KLOG: Final = re.compile(r"(?:<\d>)?\[ *\d+\.\d{6}\] ")

_LEVEL: Final = re.compile(
    rf"(?:\[(?P<a>{LEVELS})\s*\]|\((?P<b>{LEVELS})\)|(?P<c>{LEVELS})(?=\s*[:|\-\[]|\s+\d\d?[-/ ]|\s{{2,}}|\t| \S))\s?"
)
_LETTER: Final = re.compile(r"\[(?P<level>[VIWEF])\](?= )")  # TensorRT's severities, behind a time
_PLACE: Final = re.compile(r"\[?(?P<file>[\w./\\<>+-]+\.py):(?P<line>\d+)(?::[\w<>.]+)?(?:\(\))?\]?(?=[\s:|\-\]]|$)")
_LOGGER: Final = re.compile(
    r"(?:\[(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*\]"
    r"|(?!\S*(?:Error|Exception|Exit|Interrupt)\b)(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*"
    rf"|__main__|root|__mp_main__|[A-Za-z_][\w-]*(?= - (?:{LEVELS}) - ))"
    r"(?:[:.][\w<>]+(?=:\d| - ))?(?::\d+)?"
    r"(?= - |:| \||\]| *$)"
)
_TAG: Final = re.compile(r"\[[^\]\s]{1,40}\](?= )|\[PID:? ?\d+\]|\(\w+\)|\d{1,8}(?= [:|])|\[\d+\]")
_HF: Final = re.compile(
    rf"\[(?P<level>{LEVELS})\|(?P<file>[\w./-]+):(?P<line>\d+)\](?: (?P<time>[\d-]+ [\d:,]+))? ?>> ?"
)
_SEPARATOR: Final = re.compile(r" ?(?:-|:|\||>>|») ?|\s+")


def _peel_head(text: str, origin: Origin) -> tuple[str, Origin, bool]:
    """Strips time, level, place, logger in any order; the first must be a time or a level."""
    if (m := _HF.match(text)) is not None:
        place = (m["file"], int(m["line"]))
        return text[m.end() :], replace(origin, level=m["level"], place=place), True
    told: dict[str, Any] = {}
    rest = text
    for _ in range(8):
        step = _head_token(rest, told)
        if step is None:
            break
        rest = rest[step.end() :]
        # Behind a separator the message keeps its own indentation: only one blank is the logger's.
        if (gap := _SEPARATOR.match(rest)) is not None:
            rest = rest[1:] if gap[0].isspace() and _indented(rest) else rest[gap.end() :]
    if not told:
        return text, origin, False
    told.pop("seen")
    if told:  # `replace` takes four times as long
        origin = Origin(**told) if origin is UNKNOWN else replace(origin, **told)
    return rest, origin, True


def _head_token(rest: str, told: dict[str, Any]) -> re.Match[str] | None:
    """The time, level, place, logger or tag that `rest` starts with; what it tells goes into `told`."""
    first = rest[:1]
    step: re.Match[str] | None = None
    if first.isdigit() or first == "[":
        for clock in CLOCKS:
            if (step := clock.match(rest)) is not None:
                if (stamp := stamp_of(step)) is not None:
                    told["time"] = stamp
                told["seen"] = True
                return step
    if (step := _LEVEL.match(rest)) is not None:
        told["level"] = step["a"] or step["b"] or step["c"]
    elif not told:
        return None
    elif "level" not in told and (step := _LETTER.match(rest)) is not None:
        told["level"] = step["level"]
    elif (step := _PLACE.match(rest)) is not None:
        told["place"] = (step["file"], int(step["line"]))
    else:
        step = _LOGGER.match(rest) or _TAG.match(rest)
    if step is not None:
        told["seen"] = True
    return step


def _indented(rest: str) -> bool:
    stripped = rest.lstrip()
    return stripped.startswith(('File "', "^", "~")) or (
        len(rest) - len(stripped) >= 4 and not stripped.startswith(("-", ":", "|", "["))
    )


class Peeler:
    """Peels lines of one input; `shared` are the voted prefixes (see `vote`)."""

    def __init__(self, voted: Iterable[tuple[re.Pattern[str], Update]] = ()) -> None:
        self._voted = tuple(voted)
        self._cached = lru_cache(maxsize=4096)(self._identity)
        self._glogs: dict[str, tuple[Origin, Origin]] = {}

    def key(self, text: str) -> str:
        """The writer of a cleaned line: `peel(text).key`."""
        rest, _, keys = self._identified(text)
        if not rest or rest[0] in " \t^~":
            return keys
        if (glog := _GLOG_PY.match(rest)) is not None:
            return f"{keys}glog{int(glog['pid'])};"
        return keys + "kernel;" if _KLOG.match(rest) is not None else keys

    def _identified(self, text: str) -> tuple[str, Origin, str]:
        """What stands behind the identity prefixes, and what these tell."""
        rest, origin, keys = text, UNKNOWN, ""
        for _ in range(6):
            step = self._step(rest, ranked=origin.rank is not None)
            if step is None:
                break
            end, update, match = step
            origin = update(origin, match)
            keys += self._cached(match[0])
            rest = rest[end:]
            if not rest:
                break
        if rest.startswith((" [", " 2")) and CLOCKS[0].match(rest, 1) is not None:
            rest = rest[1:]  # Megatron-LM indents its reports by one blank
        return rest, origin, keys

    def peel(self, text: str) -> Peeled:
        """Remove all prefixes of a cleaned line."""
        if not self._voted and text[:1] in _TORCH_LOG:  # half of a compiler's log, torchrun's rank before it or not
            rank = _RANKED.match(text)
            glog = _GLOG_PY.match(text, rank.end() if rank else 0)
            if glog is not None:
                origin = self._read_glog(_of_rank(rank["rank"]) if rank else UNKNOWN, glog)
                key = self._cached(rank[0]) if rank else ""
                return Peeled(text[glog.end() :], origin, f"{key}glog{origin.pid};", True)
        rest, origin, keys = self._identified(text)
        if not rest or rest[0] in " \t^~":  # indentation: inside a traceback, no head can follow
            return Peeled(rest, origin, keys, False)
        dynamo = _DYNAMO.match(rest) if rest[0] == "[" else _SHORT.match(rest)
        if dynamo is not None:
            return Peeled(rest[dynamo.end() :], _dynamo(origin, dynamo), keys, True)
        glog = _GLOG_PY.match(rest) or _GLOG_C10.match(rest)
        if glog is not None:
            origin = self._read_glog(origin, glog)
            pid = f"glog{origin.pid};" if glog.re is _GLOG_PY else ""
            return Peeled(rest[glog.end() :], origin, keys + pid, True)
        if (kernel := _KLOG.match(rest)) is not None:
            return Peeled(rest[kernel.end() :], replace(origin, source="kernel"), keys + "kernel;", True)
        rest, origin, headed = _peel_head(rest, origin)
        return Peeled(rest, origin, keys, headed)

    def _read_glog(self, origin: Origin, m: re.Match[str]) -> Origin:
        """Lines of one message of torch's log bear one head: what it tells is read once."""
        known = self._glogs.get(m[0])
        if known is None or known[0] != origin:
            if len(self._glogs) >= 1024:
                self._glogs.clear()
            known = self._glogs[m[0]] = (origin, _glog(origin, m))
        return known[1]

    def _step(self, rest: str, *, ranked: bool) -> tuple[int, Update, re.Match[str]] | None:
        first = rest[:1]
        for start, pattern, update in IDENTITY:
            if update is _said_rank and ranked:
                continue
            if (not start or start == first) and (m := pattern.match(rest)) is not None:
                return m.end(), update, m
        for pattern, update in self._voted:
            if (m := pattern.match(rest)) is not None:
                return m.end(), update, m
        if first.isdigit() or first == "[":
            # `kubectl logs --timestamps`, `docker logs -t`, `srun | ts`: a full stamp, then another prefix.
            m = _OUTER_STAMP.match(rest)
            if m is not None:
                return m.end(), lambda o, x: replace(o, time=parse_stamp(x["time"]) or o.time), m
        return None

    @staticmethod
    def _identity(prefix: str) -> str:
        """The part of a prefix that tells writers apart: no clocks, no blanks."""
        return (
            ""
            if _OUTER_STAMP.match(prefix)
            else re.sub(r"\s+|^\[[\d :.T-]{15,30}\]|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d", "", prefix) + ";"
        )


_OUTER_STAMP: Final = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))(?: |$)(?:(?:stdout|stderr) [FP](?: |$))?"
)
