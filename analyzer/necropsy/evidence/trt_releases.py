"""Which release of TensorRT an input is from: all advice depends on its major number."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, ClassVar

from msgspec import Struct

from necropsy_parsers.records import Anchor
from necropsy_parsers.tensorrt.calibration import CalibrationCache
from necropsy_parsers.tensorrt.records import Engine
from necropsy_parsers.tensorrt_log.records import TrtBuild

from necropsy.evidence import Table


class ReleaseRow(Struct, frozen=True):
    """A release that an input tells; see `TrtReleases.columns`."""

    input: str
    major: int
    release: str
    anchor: Anchor


class TrtReleases(Table[ReleaseRow]):
    """One row an input that tells its release; always there, since most inputs tell none."""

    name = "trt_releases"
    row = ReleaseRow
    accepts = (Engine, CalibrationCache, TrtBuild)
    formats = ("log", "trt_layers", "calibration_cache")
    supply = "a build's log, whose first lines tell TensorRT's release"
    columns: ClassVar[dict[str, str]] = {
        "input": "the file",
        "major": "TensorRT's major number",
        "release": "as far as told: 8.6.1; 11 where only the form of the JSON tells",
        "anchor": "where it is told",
    }

    def __init__(self) -> None:
        super().__init__()
        self._majors: dict[str, set[int]] = {}  # by input
        self._counted = 0  # rows when these were gathered

    def add(self, record: Any) -> None:
        """Keep the release of a record that has one."""
        if isinstance(record, TrtBuild) and record.rtx:
            # Its own numbers begin at 1; networks are strongly typed and there are no calibrators, as in TensorRT 11.
            self.rows.append(ReleaseRow(record.anchor.input, 11, "for RTX", record.anchor))
            return
        release = record.release or ((11,) if getattr(record, "schema", "") == "11" else ())
        if release:
            shown = ".".join(str(n) for n in release)
            self.rows.append(ReleaseRow(record.anchor.input, release[0], shown, record.anchor))

    def major_of(self, input: str) -> int | None:
        """The major number for an input: its own, else the one that all inputs agree on; None where they do not."""
        if self._counted != len(self.rows):
            self._counted, self._majors = len(self.rows), defaultdict(set)
            for r in self.rows:
                self._majors[r.input].add(r.major)
        known = self._majors.get(input.partition("#")[0]) or set().union(*self._majors.values())
        return next(iter(known)) if len(known) == 1 else None

    def covered(self, formats: frozenset[str]) -> bool:
        """Always: without a release advice says what depends on it."""
        return True
