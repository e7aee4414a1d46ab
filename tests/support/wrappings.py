"""What launchers, containers, loggers and shells make of a program's output.

A `Wrapping` turns plain text into the bytes of a log and names what its prefixes tell.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

BAR: Final = "\r".join(
    f"{p:3d}%|{'#' * (p // 10):10s}| {p}/100 [00:{p // 2:02d}<00:30,  2.00it/s]" for p in range(0, 60, 5)
)


@dataclass(frozen=True, slots=True)
class Wrapping:
    """`wrap` makes the log; `origin` holds the attributes of the origin that it must yield."""

    name: str
    wrap: Callable[[str], bytes]
    origin: dict[str, Any] = field(default_factory=dict)


def prefixed(prefix: str) -> Callable[[str], bytes]:
    """`prefix` on every line, `{n}` counting them."""
    return lambda text: "".join(prefix.format(n=i % 60) + line for i, line in enumerate(text.splitlines(True))).encode()


def _each(name: str, prefix: str, **origin: Any) -> Wrapping:
    return Wrapping(name, prefixed(prefix), origin)


def coloured_lines(text: str) -> bytes:
    """Every line in red, as log viewers and `srun` wrappers paint stderr."""
    return "".join(f"\x1b[31m{line}\x1b[0m\n" for line in text.splitlines()).encode()


def coloured_parts(text: str) -> bytes:
    """Painted the way Python 3.13 and later do: file, line, function, class and message."""
    magenta, bold, off = "\x1b[35m", "\x1b[1;35m", "\x1b[0m"
    text = re.sub(r'File ("[^"]+"), line (\d+)', rf"File {magenta}\1{off}, line {magenta}\2{off}", text)
    text = re.sub(r"(line .+, in )(.+)", rf"\1{magenta}\2{off}", text)
    return re.sub(
        r"(?m)^(\w[\w.]*Error|KeyboardInterrupt)(: )?(.*)$", rf"{bold}\1{off}\2{magenta}\3{off}", text
    ).encode()


def behind_a_bar(text: str) -> bytes:
    """A progress bar was on the screen and its line never ended."""
    return b"loading data\n\r" + BAR.encode() + text.encode()


def after_a_bar(text: str) -> bytes:
    """The bar is redrawn a last time after the text, on a line of its own."""
    return b"\r" + BAR.encode() + b"\n" + text.encode() + b"\r" + BAR.encode() + b"\n"


WRAPPINGS: Final = (
    Wrapping("as-it-is", lambda text: text.encode()),
    _each("torchrun", "[rank3]: ", rank=3),
    _each("torchrun-role", "[default1]:", local_rank=1),
    _each("torchrun-twice", "[default3]:[rank3]: ", rank=3, local_rank=3),
    _each("srun-label", "3: ", rank=3),
    _each("srun-label-torchrun", "0: [rank5]: ", rank=5),
    _each("mpirun", "[1,2]<stderr>:", rank=2, stream="stderr"),
    _each("mpirun-blank", "[1,12]<stdout>: ", rank=12, stream="stdout"),
    _each("ray", "(Worker pid=12) ", pid=12, source="Worker"),
    _each("ray-ip", "(train_fn pid=4411, ip=192.0.2.7) ", pid=4411, host="192.0.2.7"),
    _each("vllm", "(VllmWorker rank=1 pid=77) ", pid=77, rank=1),
    _each("compose", "svc-1  | ", source="svc-1"),
    _each("kubectl-timestamps", "2024-05-01T12:00:{n:02d}.123Z "),
    _each("kubectl-prefix", "[pod/train-0/main] ", source="train-0/main"),
    _each("kubectl-both", "[pod/train-0/main] 2024-05-01T12:00:{n:02d}.123456789Z ", source="train-0/main"),
    _each("cri", "2024-05-01T12:00:{n:02d}.123456789Z stderr F "),
    _each("journald", "May  1 12:00:{n:02d} node-3 train[4411]: ", host="node-3", pid=4411, source="train"),
    _each("pdsh", "node-17: ", host="node-17"),
    _each("torch-glog", "E0501 12:00:09.123000 44 torch/distributed/c10d_logger.py:24] ", pid=44, level="E"),
    _each("torch-glog-frame", "[rank2]:E0501 12:00:09.123000 44 torch/nn/init.py:24] [0/1] ", rank=2, pid=44),
    Wrapping("utf-16-le", lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le")),
    Wrapping("utf-16-be", lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be")),
    Wrapping("powershell", lambda text: codecs.BOM_UTF16_LE + text.replace("\n", "\r\n").encode("utf-16-le")),
    Wrapping("utf-8-bom", lambda text: codecs.BOM_UTF8 + text.encode()),
    Wrapping("crlf", lambda text: text.replace("\n", "\r\n").encode()),
    Wrapping("coloured", coloured_lines),
    Wrapping("python-3.13-colours", coloured_parts),
    Wrapping("behind-a-bar", behind_a_bar),
    Wrapping("after-a-bar", after_a_bar),
    Wrapping("without-last-newline", lambda text: text.rstrip("\n").encode()),
    Wrapping("torchrun-crlf", lambda text: prefixed("[rank3]: ")(text).replace(b"\n", b"\r\n"), {"rank": 3}),
    Wrapping("torchrun-coloured", lambda text: coloured_lines(prefixed("[rank3]: ")(text).decode()), {"rank": 3}),
)
