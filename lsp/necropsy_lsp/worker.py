"""The process that analyzes for the server: a request in `argv`, frames on standard output.

The server starts it through `analysis`; a crash, an endless loop or a full memory here
costs one analysis and never the editor. Frames are lines of JSON: `{"read": 1, "size": 9}`
on the way, then `{"error": "..."}` or `{"report": 1234}` and that many bytes of report.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from necropsy.report import Report

BEAT_S: Final = 0.25  # between progress frames; also how long an orphan outlives its server


class Channel:
    """Standard output as frames; what anything else prints goes to standard error."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._progress: tuple[int, int | None] = (0, None)

    def progress(self, read: int, size: int | None) -> None:
        """Remember how far the reading is; the next beat tells it."""
        self._progress = (read, size)

    def beat(self) -> None:
        """Tell the progress until the end; ends the process when nobody listens any more."""
        while not self._ended.wait(BEAT_S):
            read, size = self._progress
            try:
                self._send({"read": read, "size": size})
            except OSError:
                os._exit(1)

    def end(self, frame: dict[str, object], data: bytes = b"") -> None:
        """Send the last frame."""
        self._ended.set()
        self._send(frame, data)

    def _send(self, frame: dict[str, object], data: bytes = b"") -> None:
        with self._lock:
            if not self._stream.closed:
                self._stream.write(json.dumps(frame).encode() + b"\n" + data)
                self._stream.flush()


def private_stdout() -> IO[bytes]:
    """The pipe to the server, taken away from everything that prints."""
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return stream


def limit_memory(most: int) -> None:
    """Let allocations beyond `most` bytes fail, where the system can do that."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with contextlib.suppress(OSError, ValueError):  # macOS refuses
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def yield_to_others() -> None:
    """Run with lower priority than the editor."""
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(10)


def analyze(request: dict[str, object], channel: Channel) -> bytes:
    """The report's JSON. Raises whatever goes wrong."""
    from necropsy import api
    from necropsy.config import load_config
    from necropsy.render.json import dumps

    config = load_config().override(select=_texts(request, "select"), ignore=_texts(request, "ignore"))
    report: Report = api.analyze([str(request["path"])], config=config, progress=channel.progress)
    return dumps(report.to_json()).encode("utf-8", "replace")


def _texts(request: dict[str, object], key: str) -> Sequence[str]:
    value = request.get(key)
    return [str(item) for item in value] if isinstance(value, list) else []


def reason(error: BaseException) -> str:
    """One sentence about an exception, with the place in Necropsy that raised it."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "it needs more memory than it may have"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


def main() -> None:
    """Answer the one request; the exit status says nothing that the last frame does not say."""
    channel = Channel(private_stdout())
    threading.Thread(target=channel.beat, daemon=True).start()
    frame: dict[str, object]
    data = b""
    try:
        request = json.loads(sys.argv[-1])
        yield_to_others()
        limit_memory(int(request["memory"]))
        data = analyze(request, channel)
        frame = {"report": len(data)}
    except ValueError as error:  # among them ConfigError, whose text names file and key
        from necropsy.config import ConfigError

        frame = {"error": str(error).rstrip(".") if isinstance(error, ConfigError) else reason(error)}
    except (Exception, RecursionError) as error:  # MemoryError too: the boundary that turns it into a message
        frame = {"error": reason(error)}
        if not isinstance(error, MemoryError):
            traceback.print_exc()
    channel.end(frame, data)


if __name__ == "__main__":
    main()
