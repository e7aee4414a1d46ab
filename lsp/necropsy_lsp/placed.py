"""Where a finding stands now, in a document that may have been edited since the run."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from necropsy_lsp.stored import Place, StoredFinding


class Shown(Struct, frozen=True):
    """A finding in one document, as of its last edit.

    `line` and `end_line` are 0-based lines of the document as it is now. `stale` means
    that the text there is no longer what the run saw. `place_index` says which of the
    finding's places stands here: 0 is the claim, the others are further places. `project`
    is the folder from which the finding's inputs are named, `source` where it came from.
    """

    finding: StoredFinding
    project: Path
    source: str
    line: int
    end_line: int
    stale: bool = False
    place_index: int = 0

    @property
    def place(self) -> Place:
        """The place of the finding that stands here."""
        return self.finding.code[self.place_index]
