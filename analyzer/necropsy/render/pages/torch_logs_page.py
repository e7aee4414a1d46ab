"""What modules declare to read of `TORCH_LOGS` -> one page: artifact by release by what is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from necropsy_parsers.torch_artifacts import ARTIFACTS, PASSED_OVER, RELEASES, Reads

from necropsy.render.pages import MARK, cell

INTRO = """
What is read of the log of torch's compiler (`TORCH_LOGS`, `TORCH_LOGS_OUT`), release by release: ● read, ○ printed by
that release and passed over (its lines are counted; the last column but one says why), blank: not printed. Message
texts were taken from the releases' own sources. Heads of all releases are understood:
`[date] [0/0] logger.__artifact: [LEVEL]` of 2.1 and 2.2, `V0304 12:34:56 … [0/0] [__artifact]` since, and those of
`TORCH_LOGS_FORMAT=short`.
""".strip()


def torch_logs_page(readers: Iterable[tuple[str, Sequence[Reads]]]) -> str:
    """A row an artifact and reader, artifacts that nobody reads, and a row a reader of untagged lines."""
    by_artifact: dict[str, list[tuple[str, Reads]]] = {name: [] for name in sorted(ARTIFACTS)}
    untagged: list[tuple[str, Reads]] = []
    for reader, reads in readers:
        for r in reads:
            (by_artifact[r.artifact] if r.artifact else untagged).append((reader, r))
    head = f"| artifact | {' | '.join(RELEASES)} | what is read | by |"
    rule = "| --- " * (len(RELEASES) + 3) + "|"
    rows = [_row(f"`{name}`", name, found) for name, found in by_artifact.items()]
    plain = [_row("none", "", [one]) for one in untagged]
    parts = [MARK, "# The log of torch's compiler", INTRO]
    parts += ["## Artifacts", "\n".join([head, rule, *rows])]
    parts += ["## Lines without an artifact", "\n".join([head, rule, *plain])]
    return "\n\n".join(parts) + "\n"


def _row(title: str, artifact: str, found: Sequence[tuple[str, Reads]]) -> str:
    marks = []
    for release in RELEASES:
        printed = not artifact or RELEASES.index(release) >= RELEASES.index(ARTIFACTS[artifact])
        read = any(r.covers(release) for _, r in found)
        marks.append("●" if read else "○" if printed and artifact else " ")
    what = "; ".join(cell(r.what) for _, r in found) or f"passed over: {cell(PASSED_OVER[artifact])}"
    readers = ", ".join(dict.fromkeys(f"[`{name}`](messages.md)" for name, _ in found))
    return f"| {title} | {' | '.join(marks)} | {what} | {readers} |"
