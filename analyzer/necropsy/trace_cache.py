"""Large traces that were read before: kept as columns in the user's cache folder, so that they are decoded once.

A trace is known by its path, size, time of change, inode and the bytes at its two ends, and by the code that
read it: another release reads it again. The folder is the user's alone and bounded in size; what was used
longest ago goes first. Whatever fails here (no room, no permission, a damaged file) costs a reading, nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from necropsy_parsers.issues import Issues

if TYPE_CHECKING:
    from necropsy_parsers.records import Record
    from necropsy_parsers.source import Source
    from necropsy_parsers.trace.model import Trace

EVENTS: Final = 200_000  # from which a trace is kept: it takes a second to read
SMALLEST: Final = 1 << 20  # bytes on disk (compressed, perhaps) below which no trace has so many
MOST: Final = 4 << 30  # bytes of all that is kept
_SPARE: Final = 2  # times its size must be free on the disk
_END: Final = 64 << 10  # bytes at each end of a file that must be the same
_SUFFIX: Final = ".trace"
_STALE: Final = 24 * 3600  # seconds after which a file that is still being written was left by a process that died


def folder() -> Path:
    """Where traces are kept: `NECROPSY_CACHE`, else `necropsy/traces` of the user's cache folder."""
    if named := os.environ.get("NECROPSY_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "necropsy", "traces")


def read_trace(source: Source, seq: int, issues: Issues, *, keep: bool) -> tuple[list[Record], int]:
    """The records of a trace that is a file of its own, and the bytes they come of; from the cache if `keep`."""
    from necropsy_parsers.formats import kineto

    key = key_of(source.name) if keep else ""
    if key and (found := _kept(key)) is not None:
        trace, read = found
        source.close()
        kineto.tell(trace.losses, source.name, issues)
        return [kineto.of_input(trace, source.name, seq)], read
    own = Issues()
    records = list(kineto.parse(source, own, seq))
    rows = own.rows()
    issues.take(rows)
    # Trouble with the file itself (a damaged gzip) is met again only by reading it again; one that changed meanwhile
    # is another one.
    if key and all(i.kind.startswith("trace/") for i in rows) and key_of(source.name) == key:
        for record in records:
            _keep(record, key, source.read)  # type: ignore[arg-type]
    return records, source.read


def key_of(path: str) -> str:
    """What a trace is known by; "" for files that are small or cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""  # a pipe, which can be read once
        with open(path, "rb") as file:
            state = os.fstat(file.fileno())
            if state.st_size < SMALLEST:
                return ""
            ends = file.read(_END)
            file.seek(-_END, os.SEEK_END)
            ends += file.read(_END)
        facts = (os.path.realpath(path), state.st_size, state.st_mtime_ns, state.st_ino, state.st_dev, _reader())
    except (OSError, ValueError):
        return ""
    return hashlib.blake2b(repr(facts).encode("utf-8", "surrogatepass") + ends, digest_size=20).hexdigest()


@cache
def _reader() -> str:
    """The code that reads traces, so that none is kept beyond it."""
    from necropsy_parsers import trace
    from necropsy_parsers.formats import kineto

    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(Path(trace.__file__ or "").parent.glob("*.py")):
        digest.update(file.read_bytes())
    digest.update(Path(kineto.__file__).read_bytes())
    return digest.hexdigest()


def _kept(key: str) -> tuple[Trace, int] | None:
    path = folder() / f"{key}{_SUFFIX}"
    try:
        if not _own(path.stat()):
            return None
    except OSError:
        return None
    from necropsy_parsers.trace.kept import kept

    found = kept(str(path), key)
    with contextlib.suppress(OSError):
        if found is None:
            path.unlink()
        else:
            os.utime(path)
    return found


def _own(state: os.stat_result) -> bool:
    """Whether nobody else can have written the file."""
    return stat.S_ISREG(state.st_mode) and (os.name != "posix" or state.st_uid == os.geteuid())


def _keep(trace: Trace, key: str, read: int) -> None:
    from msgspec import MsgspecError

    from necropsy_parsers.trace.kept import keep, size_of

    size = size_of(trace)
    if trace.events < EVENTS or size > MOST // 2:
        return
    place = folder()
    started = place / f".{key}.{os.getpid()}"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _has_room(place, size):
            return
        with os.fdopen(os.open(started, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            keep(trace, key, read, file)
        os.replace(started, place / f"{key}{_SUFFIX}")
        _forget(place)
    except (OSError, ValueError, OverflowError, TypeError, MsgspecError):
        with contextlib.suppress(OSError):
            started.unlink()


def _has_room(place: Path, size: int) -> bool:
    import shutil

    return shutil.disk_usage(place).free > _SPARE * size


def _forget(place: Path) -> None:
    """Remove what was used longest ago, beyond the bound, and what nobody finished writing."""
    files = []
    for file in place.iterdir():
        with contextlib.suppress(OSError):
            state = file.stat()
            if file.suffix == _SUFFIX:
                files.append((state.st_mtime, state.st_size, file))
            elif file.name.startswith(".") and state.st_mtime < time.time() - _STALE:
                file.unlink()
    total = sum(size for _, size, _ in files)
    for _, size, file in sorted(files):
        if total <= MOST:
            return
        with contextlib.suppress(OSError):
            file.unlink()
            total -= size
