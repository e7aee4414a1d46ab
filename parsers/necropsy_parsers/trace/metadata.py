"""What a trace says besides its events: devices, ranks, clock, options.

It stands before the events, behind them, or both, depending on the release; either part
may be cut or hold values that are no JSON. Values that are objects or lists may be
written as strings of JSON.
"""

from __future__ import annotations

import json
from typing import Any, Final

from necropsy_parsers.patterns import lazily
from necropsy_parsers.trace.model import Device, TraceGroup, TraceMeta
from necropsy_parsers.trace.repair import repaired

_OPTIONS: Final = ("with_stack", "record_shapes", "profile_memory", "with_modules", "with_flops")
_MEMBER: Final = lazily(
    r'"(schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|baseTimeNanosecond|with_stack|record_shapes'
    r'|profile_memory|with_modules|with_flops|cuda_driver_version|cuda_runtime_version)"\s*:\s*'
)
_MAX: Final = 1 << 20  # characters of one value


def metadata(head: bytes, tail: bytes) -> TraceMeta:
    """The metadata in the text before the events and in that behind them."""
    members = {**_members(head), **_members(tail)}
    info = _object(members.get("distributedInfo"))
    return TraceMeta(
        devices=tuple(_device(d) for d in _list(members.get("deviceProperties")) if isinstance(d, dict)),
        rank=_integer(info.get("rank")),
        world=_integer(info.get("world_size")),
        backend=str(info.get("backend") or ""),
        groups=_groups(info.get("pg_config")),
        base=_integer(members.get("baseTimeNanoseconds", members.get("baseTimeNanosecond"))) or 0,
        options=frozenset(o for o in _OPTIONS if members.get(o) in (1, True, "1", "true")),
        driver=_integer(members.get("cuda_driver_version")) or 0,
        runtime=_integer(members.get("cuda_runtime_version")) or 0,
        schema=_integer(members.get("schemaVersion")),
    )


def _members(part: bytes) -> dict[str, Any]:
    """The known members of a part of an object, each read for itself."""
    text = part.decode("utf-8", "replace")
    decoder = json.JSONDecoder(strict=False)
    found: dict[str, Any] = {}
    for m in _MEMBER.finditer(text):
        if m[1] in found:
            continue
        value = text[m.end() : m.end() + _MAX]
        try:
            found[m[1]], _ = decoder.raw_decode(value)
        except (ValueError, RecursionError):
            whole = repaired(b'{"v":' + _balanced(value).encode("utf-8", "replace") + b"}")
            if whole is not None:
                found[m[1]] = whole.get("v")
    return found


def _balanced(text: str) -> str:
    """A bracketed value up to its last bracket, else up to the comma."""
    if text[:1] not in ("{", "["):
        return text.split(",", 1)[0].split("}", 1)[0]
    depth = 0
    for n, c in enumerate(text):
        depth += (c in "{[") - (c in "}]")
        if depth == 0:
            return text[: n + 1]
    return text


def _device(row: dict[str, Any]) -> Device:
    def number(*keys: str) -> int:
        return next((n for k in keys if (n := _integer(row.get(k))) is not None), 0)

    return Device(
        number=number("id"),
        name=str(row.get("name") or "").strip(),
        memory=number("totalGlobalMem"),
        major=number("computeMajor"),
        minor=number("computeMinor"),
        units=number("numSms"),
        warp=number("warpSize"),
        threads=number("maxThreadsPerMultiprocessor"),
    )


def _groups(config: object) -> tuple[TraceGroup, ...]:
    """`pg_config`: a list of objects, ranks as a list (2024) or a string of one (2.13)."""
    listed = _list(config) or list(_object(config).values())
    groups = []
    for row in listed:
        if not isinstance(row, dict):
            continue
        ranks = [n for r in _list(row.get("ranks")) if (n := _integer(r)) is not None]
        groups.append(
            TraceGroup(
                str(row.get("pg_name", row.get("name", ""))),
                str(row.get("pg_desc", row.get("desc", ""))),
                str(row.get("backend_config", row.get("backend", ""))),
                _integer(row.get("pg_size", row.get("group_size"))) or len(ranks),
                tuple(ranks),
            )
        )
    return tuple(groups)


def _unquoted(value: object) -> object:
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value.replace("'", '"'))
        except (ValueError, RecursionError):
            return None
    return value


def _list(value: object) -> list[Any]:
    value = _unquoted(value)
    return value if isinstance(value, list) else []


def _object(value: object) -> dict[str, Any]:
    value = _unquoted(value)
    return value if isinstance(value, dict) else {}


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return None
