"""What rules about several ranks share: who says the same, ranks in words, the place of a compilation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final

from necropsy.evidence.compiles import CompileRow
from necropsy.finding import Fix, Place
from necropsy.provenance.dynamo import plain_function
from necropsy.provenance.frames import is_library

Groups = list[tuple[tuple[int, ...], Hashable]]
SAME: Final = Fix("Give all ranks the same shapes (drop_last=True, padding), and do not branch on the rank", "code")
AGREE: Final = Fix("Set torch._dynamo.config.enable_compiler_collectives = True", "config")


def groups_of(by_rank: Mapping[int, Hashable]) -> Groups:
    """The ranks that say the same, the largest group first."""
    found: dict[Hashable, list[int]] = {}
    for rank in sorted(by_rank):
        found.setdefault(by_rank[rank], []).append(rank)
    return sorted(((tuple(ranks), said) for said, ranks in found.items()), key=lambda g: (-len(g[0]), g[0]))


def named(ranks: Iterable[int]) -> str:
    """Ranks in words: `rank 3`, `ranks 0-2 and 5`."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [f"{a}" if a == b else f"{a}-{b}" for a, b in runs]
    one = len(parts) == 1 and "-" not in parts[0]
    return f"{'rank' if one else 'ranks'} {' and '.join(filter(None, (', '.join(parts[:-1]), parts[-1])))}"


def subject(ranks: Iterable[int]) -> str:
    return named(ranks).capitalize()


def compilation(rows: Iterable[CompileRow], compile_id: str, rank: int | None) -> CompileRow | None:
    """A rank's compilation of that id, if its log tells of it."""
    return next((r for r in rows if (r.compile_id, r.origin.rank) == (compile_id, rank)), None)


def function_of(row: CompileRow | None) -> tuple[Place, ...]:
    """The function that was compiled, if it is the user's."""
    if row is None or not row.file or is_library(row.file):
        return ()
    return (Place(row.file, row.line, None, plain_function(row.function), "", "function", "compilation"),)
