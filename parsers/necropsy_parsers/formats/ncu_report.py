"""Reports of Nsight Compute (`.ncu-rep`): what each profiled kernel did, metric by metric.

Binary, with the magic `NVR` and a zero byte; written by `ncu -o NAME` and by the user interface. For instance::

    4e 56 52 00 02 00 00 00  08 07 83 00 00 00 08 00  10 00 1a 54 ...    NVR, version 7
    ncu --set full -o report python train.py
    ncu --section SpeedOfLight --section LaunchStats -o report python train.py

Metrics are decoded by NVIDIA's `ncu-report` (extra `ncu`), in processes of ten launches; reports since 2022 are. The
Python stack of each launch (`--call-stack-type python`) is read from the file itself. Without the package nothing of
a report is read: `ncu --import FILE --page raw --csv` writes the same as text.
"""

from __future__ import annotations

import mmap
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from necropsy_parsers.issues import Issues
from necropsy_parsers.ncu import container
from necropsy_parsers.records import Anchor, Record

if TYPE_CHECKING:
    from necropsy_parsers.ncu.container import Contents
    from necropsy_parsers.ncu.worker import Decoded
    from necropsy_parsers.source import Source

NAME: Final = "ncu_report"
TITLE: Final = "Reports of Nsight Compute"
PRIORITY: Final = 120
SAMPLES: Final = ("NVR\x00\x02\x00\x00\x00\x08\x07\x83\x00\x00\x00",)


def sniff(head: bytes, name: str) -> str | None:
    """Claims what begins with the magic of Nsight Compute's reports."""
    return "the magic of an Nsight Compute report" if head.startswith(container.MAGIC) else None


def parse(source: Source, issues: Issues, seq: int) -> Iterator[Record]:
    """One `Launch` a profiled kernel, graph or range."""
    from necropsy_parsers.ncu.decode import available, decode

    with ExitStack() as stack:
        path = _on_disk(source, stack)
        contents = _contents(path, source.name, issues)
        if not available():
            issues.add("ncu/no-reader", source.name, count=len(contents.launches) or 1, unit="launches")
            return
        if contents.cut and not contents.launches:
            issues.add("ncu/damaged", source.name, detail="it ends before its first launch")
        elif contents.cut:
            issues.add("ncu/cut", source.name, detail=f"{len(contents.launches)} launches stand before the end")
            path = _start_of(path, contents.whole, stack)
        outcome = decode(path, len(contents.launches))
    if outcome.fault and not outcome.launches:
        issues.add("ncu/undecodable", source.name, detail=outcome.fault)
    elif outcome.lost:
        first = f"the first {len(outcome.launches):,} were"
        detail = outcome.fault or (first if outcome.launches else "NVIDIA's reader finds none in it")
        issues.add("ncu/lost", source.name, count=outcome.lost, unit="launches", detail=detail)
    elif not outcome.launches and not contents.cut:
        issues.add("ncu/empty", source.name)
    for launch in sorted(outcome.launches, key=lambda d: d.index):
        yield _record(launch, contents, source.name, seq)


def _on_disk(source: Source, stack: ExitStack) -> str:
    """The path of the report's bytes: its own, or of a copy that lasts as long as `stack`."""
    with suppress(OSError, ValueError):
        if source.path is not None and os.path.samefile(source.name, source.path):
            with open(source.path, "rb") as file:
                if file.read(4) == container.MAGIC:
                    source.read = os.path.getsize(source.path)
                    return str(source.path)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="necropsy-", ignore_cleanup_errors=True))
    path = os.path.join(folder, "report.ncu-rep")
    with open(path, "wb") as file:
        for chunk in source.chunks(1 << 20):
            file.write(chunk)
    return path


def _start_of(path: str, size: int, stack: ExitStack) -> str:
    """A copy of the whole blocks: of a file that ends in a large one, the library (2026.3) finds no launch at all."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="necropsy-", ignore_cleanup_errors=True))
    start = os.path.join(folder, "start.ncu-rep")
    with open(path, "rb") as file, open(start, "wb") as copy:
        while size > 0 and (chunk := file.read(min(size, 1 << 20))):
            copy.write(chunk)
            size -= len(chunk)
    return start


def _contents(path: str, name: str, issues: Issues) -> Contents:
    """The report's frames; what is no report has none."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(data)
    except BufferError:  # a view is held somewhere: the map is closed later
        issues.add("ncu/damaged", name, detail="its frames cannot be walked")
    except (container.Damage, ValueError, OSError) as error:
        issues.add("ncu/damaged", name, detail=str(error))
    return container.Contents([], False)


def _read(data: mmap.mmap) -> Contents:
    """The frames of a map, which cannot be closed while an error's traceback holds views of it."""
    fault = ""
    view = memoryview(data)
    try:
        return container.read(view)
    except container.Damage as error:
        fault = str(error)
        error.__traceback__ = None
    finally:
        view.release()
    raise container.Damage(fault)


def _record(found: Decoded, contents: Contents, name: str, seq: int) -> Record:
    from necropsy_parsers.ncu.metrics import canonical
    from necropsy_parsers.ncu.records import Launch

    stub = contents.launches[found.index] if found.index < len(contents.launches) else None
    if stub is not None and stub.function != found.function:
        stub = None  # the library orders launches otherwise: its frame cannot be told
    m = found.metrics
    grid = tuple(int(m.get(f"launch__grid_dim_{axis}", 0)) for axis in "xyz")
    block = tuple(int(m.get(f"launch__block_dim_{axis}", 0)) for axis in "xyz")
    major, minor = (m.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor"))
    return Launch(
        Anchor(name, 0, 0, 1, re.sub(r"\s+", " ", found.kernel)[:200]),
        found.index,
        found.kernel,
        found.function,
        process=stub.process if stub else None,
        program=stub.program if stub else "",
        host=stub.host if stub else "",
        context=_whole(m.get("launch__context_id")),
        stream=_whole(m.get("launch__stream_id")),
        device=_whole(m.get("launch__device_id", m.get("device__attribute_device_index"))),
        capability="" if major is None or minor is None else f"{int(major)}.{int(minor)}",
        grid=(grid[0], grid[1], grid[2]) if all(grid) else stub.grid if stub else None,
        block=(block[0], block[1], block[2]) if all(block) else stub.block if stub else None,
        metrics=canonical(m),
        attributes=found.attributes,
        sections=found.sections,
        rules=found.rules,
        ranges=found.ranges,
        stack=stub.stack if stub else (),
        source=found.source,
        workload=found.workload,
        read="report",
        seq=seq + found.index,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
