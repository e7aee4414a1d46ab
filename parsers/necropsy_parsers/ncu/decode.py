"""A report decoded by short-lived processes, ten launches each: what came of them, and what was lost.

Measured on a report of 95 launches and 141 MB (`--set full`, ncu 2025.3.1): 0.8 s and 310 MB a process; in one
process 13 s and 960 MB, without looking at sources.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Final

import msgspec
from msgspec import Struct

from necropsy_parsers.ncu.worker import Decoded, Opened

PART: Final = 10  # launches of a process
MOST: Final = 1_000  # launches read of a report; of more the first are
PATIENCE: Final = 120  # seconds for a part: a hundred times what the slowest took
RETRIES: Final = 25  # launches that the library fails on before the rest is given up
_OPENED: Final = msgspec.msgpack.Decoder(Opened)
_DECODED: Final = msgspec.msgpack.Decoder(Decoded)


class Part(Struct, frozen=True):
    """What a process said: launches of the report (None: it could not be opened), those decoded, and why it ended."""

    launches: int | None
    decoded: list[Decoded]
    fault: str


class Outcome(Struct):
    """All that was decoded; `lost` launches were not, for the reason `fault`."""

    launches: list[Decoded]
    total: int | None = None
    lost: int = 0
    fault: str = ""


def available() -> bool:
    """Whether NVIDIA's library is installed."""
    return find_spec("ncu_report") is not None


def decode(path: str, expected: int) -> Outcome:
    """Decode the report at `path`, which its frames say has `expected` launches."""
    outcome = Outcome([])
    count = min(max(expected, 1), MOST)
    starts = range(0, count, PART)
    with ThreadPoolExecutor(max(1, min(_processors(), 4, len(starts)))) as threads:
        parts = threads.map(lambda first: list(_all_of(path, first, min(PART, count - first))), starts)
        for found in parts:
            for part in found:
                outcome.launches += part.decoded
                outcome.fault = outcome.fault or part.fault
                if part.launches is not None:
                    outcome.total = part.launches
    outcome.lost = max(0, max(outcome.total or 0, expected) - len(outcome.launches))
    return outcome


def _all_of(path: str, first: int, count: int) -> Iterator[Part]:
    """A part, and what is behind a launch that the library fails on."""
    last, tries = first + count, 0
    while first < last:
        part = _run(path, first, last - first)
        yield part
        if not part.fault or part.launches is None or tries >= RETRIES:
            return
        first = (part.decoded[-1].index if part.decoded else first - 1) + 2  # behind the one it failed on
        tries += 1


def _run(path: str, first: int, count: int) -> Part:
    command = [sys.executable, "-P", "-m", "necropsy_parsers.ncu.worker", path, str(first), str(count)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        return _part(error.stdout or b"", f"no answer within {PATIENCE} s")
    except OSError as error:
        return Part(None, [], f"no process could be started ({error.strerror})")
    return _part(done.stdout, _fault(done))


def _fault(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode == 0:
        return ""
    if done.returncode < 0:
        return f"its process was ended by signal {-done.returncode}"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:200] if lines else f"its process ended with status {done.returncode}"


def _part(output: bytes, fault: str) -> Part:
    messages = list(_messages(output))
    try:
        opened = _OPENED.decode(messages[0]).launches if messages else None
        return Part(opened, [_DECODED.decode(m) for m in messages[1:]], fault)
    except msgspec.DecodeError as error:
        return Part(None, [], fault or str(error))


def _messages(output: bytes) -> Iterator[bytes]:
    """The whole messages; the last may be cut off."""
    at = 0
    while at + 4 <= len(output):
        size = int.from_bytes(output[at : at + 4], "little")
        if at + 4 + size > len(output):
            return
        yield output[at + 4 : at + 4 + size]
        at += 4 + size


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
