"""An event that is not JSON, read all the same.

Seen in the field: `inf`, `nan` and `N/A` as values (kineto#105), quotes and control
characters in names (kineto#1459, pytorch#136180, #146900), invalid UTF-8, bad escapes of
Windows paths, trailing commas, empty values, decimal commas of a locale, missing or
mistyped arguments.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import msgspec

from necropsy_parsers.trace.event import NO_ARGS, AnyEvent, Event, ExactEvent

_NO_NUMBER: Final = re.compile(rb"(?<=[:\[,])(\s*)[-+]?(?:nan(?:\([^)\s]*\))?|inf(?:inity)?|N/A)(?=\s*[,\]}])", re.I)
_EMPTY: Final = re.compile(rb"(:\s*)(?=[,}])")
_TRAILING: Final = re.compile(rb",(\s*[}\]])")
_LOCALE: Final = re.compile(rb'("(?:ts|dur)"\s*:\s*"?-?\d+),(\d+)(?="?\s*[,}])')
_CONTROL: Final = re.compile(rb"[\x00-\x1f]")
_ESCAPE: Final = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BACKSLASH: Final = re.compile(rb'\\(?!")')
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
# The writer's keys are known: a string ends where the next of them begins, whatever quotes it holds.
_NAMES: Final = re.compile(
    rb'("(?:name|cat)"\s*:\s*")(.*?)(?="\s*(?:,\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s|cname)"\s*:|\}\s*$))',
    re.S,
)
_STACKS: Final = re.compile(
    rb'("(?:kernel_file|Call stack|Module Hierarchy)"\s*:\s*")(.*?)(?="\s*(?:,\s*"[A-Z][\w .%/()]*"\s*:|\}))', re.S
)
_BARE_QUOTE: Final = re.compile(rb'(?<!\\)"')


def repaired(written: bytes) -> dict[str, Any] | None:
    """The event's members, or None if it cannot be read."""
    text = _LOCALE.sub(rb"\1.\2", _TRAILING.sub(rb"\1", _EMPTY.sub(rb"\1null", _NO_NUMBER.sub(rb"\1null", written))))
    found = _loaded(text)
    if found is None:
        found = _loaded(_STACKS.sub(_requoted, _NAMES.sub(_requoted, _CONTROL.sub(b" ", text))))
    return found


def _loaded(text: bytes) -> dict[str, Any] | None:
    if _ESCAPE.search(text) is not None:  # nobody escaped here: `\t` of `C:\dir\train.py` is no tab
        text = _BACKSLASH.sub(rb"\\\\", text)
    clean = text.decode("utf-8", "replace")
    try:
        value = json.loads(clean, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _requoted(m: re.Match[bytes]) -> bytes:
    return m[1] + _BARE_QUOTE.sub(rb'\\"', m[2])


def event_of(members: dict[str, Any], exact: bool) -> AnyEvent:
    """An event of what was read; members of another type than theirs count as absent."""
    args = members.get("args")
    shared: dict[str, Any] = {
        "ph": _text(members.get("ph")),
        "name": _text(members.get("name")),
        "cat": _text(members.get("cat")),
        "pid": _lane(members.get("pid")),
        "tid": _lane(members.get("tid")),
        "id": _lane(members.get("id")),
        "args": msgspec.Raw(msgspec.json.encode(_plain(args))) if isinstance(args, dict) else NO_ARGS,
    }
    times = members.get("ts", 0), members.get("dur", 0)
    if exact:
        ts, dur = (msgspec.Raw(_digits(t)) for t in times)
        return ExactEvent(**shared, ts=ts, dur=dur)
    start, length = (_number(t) for t in times)
    return Event(**shared, ts=start, dur=length)


def _text(value: object) -> str:
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else ""


def _lane(value: object) -> int | str:
    if isinstance(value, bool) or value is None:
        return -1
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else -1
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else -1
    return _text(value)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _digits(value: object) -> bytes:
    return b"0" if value is None else str(value).encode()


def _plain(value: Any, depth: int = 0) -> Any:
    """What msgspec can write: no numbers above 64 bits, no NaN, no lone surrogates, no deep nesting."""
    if isinstance(value, dict) and depth < 8:
        return {_text(k): _plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list) and depth < 8:
        return [_plain(v, depth + 1) for v in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else -1
    return value if isinstance(value, float) and math.isfinite(value) else None
