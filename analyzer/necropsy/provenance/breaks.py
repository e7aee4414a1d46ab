"""Which graph breaks have one cause: what they are about, and the user's line that they come from.

`incidents` gathers every entry, notice and exception about one line and one cause, over all ranks, recompilations and
attempts, so that a rule says it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from necropsy_parsers.messages.graph_break import GraphBreak
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame

from necropsy.finding import Place
from necropsy.provenance.dynamo import claimed_frame, plain_function
from necropsy.provenance.frames import is_library, place_of

BRANCH: Final = "branch"
SCALAR: Final = "scalar"
OUTPUT: Final = "output"
CALL: Final = "call"
SHAPE: Final = "shape"
WANTED: Final = "wanted"
LIMIT: Final = "limit"
WRAPPER: Final = "wrapper"
OTHER: Final = "other"

# Wordings of all releases, read from torch/_dynamo of 2.1 to 2.13; the first that fits decides.
_CAUSES: Final[tuple[tuple[str, str], ...]] = (
    (LIMIT, r"(?:cache_size|recompile)_limit reached|(?:cache|recompile) limit exceeded"),
    (WANTED,
     r"Call to `torch\._dynamo\.(?:graph_break|skip_frame|step_unsupported)\(\)`|cannot resume from torch\._dynamo"
     r"|ComptimeContext graph break|\bgraph_break in (?:skip_files|file) |skip function graph_break in file"
     r"|Encountered intentional debugging"),
    (BRANCH,
     r"[Dd]ata-dependent (?:branching|jump|assertion|expression)|generic_jump|[Dd]ynamic control flow is not supported"
     r"|GuardOnDataDependentSymNode"),
    (SHAPE,
     r"[Dd]ynamic shape operator|data-dependent output shape|DynamicOutputShapeException"
     r"|boolean masking setitem"),
    (SCALAR,
     r"Tensor\.item\b|Tensor\.tolist\(\)|tensor for tolist|[Dd]ata dependent operator|_local_scalar_dense"
     r"|DataDependentOutputException|unsupported index\(Tensor\)|Dynamic slicing"),
    (OUTPUT,
     r"BuiltinVariable\(print\)|builtin print \[|builtin operator `print`|Reordering debugging function"
     r"|Logger (?:not supported|method)|logging\.Logger method|\(Logger\)|logging[/\\]__init__\.py"
        r"|module: (?:_?warnings|logging)\b"
     r"|(?:lib|python[\d.]+)[/\\]warnings\.py|builtin `_?warnings\."
        r"|(?:skip function|call_function) warn(?:_explicit)? in "),
    (CALL,
     r"function marked as skipped|inline in skipfiles|in skip_?files|in skip files|skip function \S+ in file"
     r"|inlining disallowed|(?:Skip calling|Skip inlining) `torch\.compiler\.disable|_dynamo\.disable\(\) wrapped"
     r"|copy\.deepcopy|trace builtin operator|call_function BuiltinVariable|unimplemented builtin op|builtin op handler"
     r"|functions not implemented in python|SkipFilesVariable|SkipFunctionVariable|unsupported builtin"
     r"|Unsupported function call|Unsupported method call|untraceable|C/C\+\+"),
)  # fmt: skip
_EXPRESSIONS: Final = tuple((cause, lazily(regex)) for cause, regex in _CAUSES)
# Modules that wrap another one for training on many devices: their own forward is not meant to be traced.
_WRAPPERS: Final = lazily(
    r"[/\\]torch[/\\](?:nn[/\\]parallel[/\\]distributed\.py|distributed[/\\](?:fsdp|_composable)[/\\])"
)
_BETWEEN: Final = lazily(r"[/\\]contextlib\.py$|[/\\]torch[/\\]_dynamo[/\\]")
_RANK: Final = {"exception": 0, "break": 1, "notice": 2, "warning": 3, "copy": 4}


@lru_cache(maxsize=4096)
def cause_of(kind: str, context: str, explanation: str) -> str:
    """What a break is about, by its own words; whom a call reaches stands in the context only."""
    everything = f"{kind}\n{context}\n{explanation}"
    for cause, expression in _EXPRESSIONS:
        if expression.search(everything if cause == OUTPUT else kind) is not None:
            return cause
    return OTHER


Key = tuple[str, str, int]


def key_of(record: GraphBreak) -> Key:
    """What alike breaks have in common."""
    return record.kind, record.file, record.line


class Tally(Struct):
    """What is known of all breaks of a kind at a place, kept as rows or not."""

    count: int = 0
    ranks: set[int] = field(default_factory=set)
    compile_ids: dict[str, None] = field(default_factory=dict)


class Incident(Struct):
    """All breaks of one cause at one line.

    `place` is the user's line (None where no frame is known), `inner` the frame in a library in which it happened, if
    that is another one.
    """

    cause: str
    place: Place | None
    inner: Frame | None
    rows: list[GraphBreak] = field(default_factory=list)
    count: int = 0
    ranks: set[int] = field(default_factory=set)
    compile_ids: dict[str, None] = field(default_factory=dict)

    @property
    def best(self) -> GraphBreak:
        """The row that says most: an exception, then a whole entry."""
        return min(self.rows, key=lambda r: (_RANK[r.form], not r.kind, not r.frames, r.seq))

    @property
    def told(self) -> GraphBreak:
        """The row with the fullest explanation."""
        return min(self.rows, key=lambda r: (not r.gb_id, not r.explanation, not r.kind, _RANK[r.form], r.seq))

    @property
    def skips(self) -> str:
        """What stays uncompiled for it."""
        found = {r.skips for r in self.rows}
        return "frame" if "frame" in found else "rest" if "rest" in found else ""


def incidents(rows: Iterable[GraphBreak], tallies: Mapping[Key, Tally]) -> list[Incident]:
    """The breaks of a run, one entry a cause and line, in order of first appearance."""
    rows = sorted(rows, key=lambda r: r.seq)
    known = _known(rows)
    groups: dict[Key, Incident] = {}
    counted: dict[Key, dict[Key, None]] = {}  # in order of reading
    for row in rows:
        frame, inner = _claim(row, known)
        cause = WRAPPER if _in_wrapper(row, known) else cause_of(row.kind, row.context, row.explanation)
        key = (cause, frame.file, frame.line or 0) if frame else (cause, row.file, row.line)
        found = groups.get(key)
        if found is None:
            place = place_of(frame, how="user code traceback") if frame else None
            if place is not None:
                place = replace(place, function=plain_function(place.function))
            found = groups[key] = Incident(cause, place, inner)
        elif found.place is not None and frame is not None and not found.place.text and frame.text:
            found.place = replace(found.place, text=frame.text, function=plain_function(frame.function))
        found.rows.append(row)
        counted.setdefault(key, {})[key_of(row)] = None
    for key, incident in groups.items():
        for tally in (tallies[k] for k in counted[key]):
            incident.count += tally.count
            incident.ranks |= tally.ranks
            incident.compile_ids |= tally.compile_ids
        # A notice tells a break that the artifact tells, too.
        notices = sum(r.form == "notice" for r in incident.rows)
        incident.count = max(1, incident.count - (notices if notices < len(incident.rows) else 0))
    return _folded(list(groups.values()))


def _known(rows: Iterable[GraphBreak]) -> dict[tuple[str, int], tuple[Frame, ...]]:
    """The stack of each headline's place, for the copies that come without one."""
    known: dict[tuple[str, int], tuple[Frame, ...]] = {}
    for row in rows:
        if row.frames and row.file:
            known.setdefault((row.file, row.line), row.frames)
    return known


def _claim(row: GraphBreak, known: dict[tuple[str, int], tuple[Frame, ...]]) -> tuple[Frame | None, Frame | None]:
    """The user's frame of a break, and the library's frame inside it."""
    frames = row.frames or known.get((row.file, row.line), ())
    if not frames and row.file:
        frames = (Frame(row.file, row.line),)
    found = claimed_frame(frames)
    inner = frames[-1] if frames and found is not frames[-1] and is_library(frames[-1].file) else None
    return found, inner


def _in_wrapper(row: GraphBreak, known: dict[tuple[str, int], tuple[Frame, ...]]) -> bool:
    """Whether it happened in the own code of DistributedDataParallel or its like, not in the module inside."""
    frames = row.frames or known.get((row.file, row.line), ())
    own = next((f for f in reversed(frames) if not _BETWEEN.search(f.file)), None)
    return own is not None and _WRAPPERS.search(own.file) is not None


def _folded(found: list[Incident]) -> list[Incident]:
    """Breaks of no special kind belong to a special one at the same line, a notice without place to a scalar read."""
    special: dict[tuple[str, int | None], Incident] = {}
    placed: dict[str, Incident] = {}
    for one in found:
        if one.place is not None:
            placed.setdefault(one.cause, one)
            if one.cause not in (OTHER, LIMIT, WANTED):
                special.setdefault((one.place.file, one.place.line), one)
    out: list[Incident] = []
    for one in found:
        host = None
        if one.place is None:
            host = placed.get(one.cause) if all(r.form == "notice" for r in one.rows) else None
        elif one.cause == OTHER:
            host = special.get((one.place.file, one.place.line))
        if host is None:
            out.append(one)
        else:
            host.rows += one.rows
            host.count += one.count
            host.ranks |= one.ranks
            host.compile_ids |= one.compile_ids
    return out
