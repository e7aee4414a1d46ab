"""Large files of a run folder are kept compressed, in forms that are read as they are.

Traces: isal compresses 300 MB a second, and is there for reading anyway. Reports of Nsight Compute: each launch holds
its whole module, so that 88 MB became 3.4 MB with xz, and 14 MB with gzip.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def pack_trace(path: Path) -> None:
    """`trace.json` -> `trace.json.gz`; on a full disk it stays as it is."""
    from isal import igzip

    _pack(path, ".gz", lambda part: igzip.open(part, "wb", compresslevel=2))  # type: ignore[no-untyped-call]


def pack_report(path: Path) -> None:
    """`kernels.ncu-rep` -> `kernels.ncu-rep.xz`; on a full disk it stays as it is."""
    import lzma

    _pack(path, ".xz", lambda part: lzma.open(part, "wb", preset=1))  # noqa: SIM115 - `_pack` closes it


def _pack(path: Path, suffix: str, opened: Callable[[Path], Any]) -> None:
    packed = path.with_name(path.name + suffix)
    part = packed.with_name(packed.name + ".part")
    try:
        target: IO[bytes]
        with path.open("rb") as source, opened(part) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        os.replace(part, packed)
        path.unlink()
    except OSError:
        part.unlink(missing_ok=True)
