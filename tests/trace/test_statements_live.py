"""Every event of real runs on the CPU against the line that truly ran: exact, listed or untold, and never wrong.

The scripts of `fixtures/traces/src/live` run under torch's profiler while `sys.settrace` notes
each line (`tests/support/lines.py`). The table of docs/statements.md is what
`python -m tests.trace.test_statements_live` prints.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from necropsy.api import load
from necropsy.evidence.traces import Traces
from necropsy.provenance.statements.functions import Module, Seen
from necropsy.provenance.statements.sequence import Laid
from necropsy.trace.profile import Profile
from necropsy.trace.statements import call_of, functions_of, insides

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "fixtures" / "traces" / "src" / "live"
CASES = ("tabular whole", "tabular inside", "recurrent whole", "vision inside")
SKEW = 2500  # ns: a line is noted a moment after the profiler's clock saw it begin

Answers = dict[tuple[int, int], list[int]]


class Run:
    """One recorded run: its profile, the script's calls, and the lines that ran."""

    def __init__(self, case: str, folder: Path) -> None:
        name, mode = case.split()
        self.script = SCRIPTS / f"{name}.py"
        trace, lines = folder / f"{name}.{mode}.json", folder / f"{name}.{mode}.lines"
        command = [sys.executable, str(ROOT / "tests" / "support" / "lines.py"), str(self.script)]
        subprocess.run([*command, str(trace), str(lines), mode], check=True, capture_output=True, timeout=300)
        self.profile: Profile = load(str(trace)).get(Traces).profiles[0]
        r = self.profile.rank
        own = {n for n, f in r.frame_names.items() if f.file.endswith(self.script.name)}
        self.calls = [i for i, n in enumerate(r.frames["name"].tolist()) if n in own]
        raw = json.loads(trace.read_text(encoding="utf-8"))
        first = min(float(e["ts"]) for e in raw["traceEvents"] if e.get("cat") == "python_function")
        shift = int(r.frames["start"].min()) - round(first * 1000) - int(raw["baseTimeNanoseconds"])
        self.noted: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for time, function, begin, line in json.loads(lines.read_text(encoding="utf-8")):
            self.noted.setdefault((function, begin), []).append((time + shift, line))

    @property
    def seen(self) -> set[Seen]:
        """The script's functions as the trace has them."""
        return next(s for f, s in functions_of(self.profile).items() if f.endswith(self.script.name))

    def answers(self, module: Module) -> Answers:
        """(call, number of the event in it) -> the lines that it can be of."""
        out: Answers = {}
        for call in self.calls:
            seen, ended = call_of(self.profile, call)
            graph, events = module.graph(seen), insides(self.profile).of(call)[0]
            if graph is None or not events:
                continue
            begin = None if seen.entered else seen.line
            nodes = Laid(graph, events).sites_of(events, begin, whole=ended and seen.entered)
            for i in range(len(events)):
                sites = [graph.sites[n] for n in nodes[i]] if nodes else []
                out[call, i] = sorted({s.line for s in sites if s is not None})
        return out

    def truth(self, call: int, number: int) -> set[int]:
        """The line that ran when an event began; two where the clocks cannot tell."""
        seen = call_of(self.profile, call)[0]
        # A frame that was entered earlier, or a resumed generator's, has the number of another line.
        other = [notes for (function, _), notes in self.noted.items() if function == seen.function]
        notes = self.noted.get((seen.function, seen.line), other[0] if other else [])
        start = int(insides(self.profile).of(call)[1][number])
        at = bisect_right(notes, (start, sys.maxsize)) - 1
        near = {line for time, line in notes[max(at, 0) : at + 3] if time < start + SKEW}
        before = next((line for _, line in reversed(notes[: at + 1]) if line), 0)  # a resumed generator notes none
        return (near | {before}) - {0}


def table(run: Run) -> Counter[str]:
    """How the events of a run were told."""
    found: Counter[str] = Counter()
    for (call, number), lines in run.answers(Module(run.script.read_text(encoding="utf-8"))).items():
        right = bool(run.truth(call, number) & set(lines))
        found["function" if not lines else "wrong" if not right else "exact" if len(lines) == 1 else "listed"] += 1
    return found


@pytest.fixture(scope="module", params=CASES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One recorded run."""
    pytest.importorskip("torch")
    yield Run(request.param, tmp_path_factory.mktemp("live"))


def test_no_event_is_given_a_line_that_did_not_run(run: Run) -> None:
    assert Module(run.script.read_text(encoding="utf-8")).explains(run.seen)
    found = table(run)
    assert found["wrong"] == 0
    assert found["exact"] > 2 * (found["listed"] + found["function"])


def test_an_edited_script_is_refused_or_told_rightly(run: Run) -> None:
    """A line taken out, doubled, swapped or put in: what is still told is the same statement as before."""
    text = run.script.read_text(encoding="utf-8").split("\n")
    before = run.answers(Module("\n".join(text)))
    chance = random.Random(0)
    for _ in range(40):
        lines, moved = _edited(text, chance)
        try:
            module = Module("\n".join(lines))
        except SyntaxError:
            continue
        if not module.explains(run.seen):
            continue
        for key, told in run.answers(module).items():
            expected = [moved[n] for n in before.get(key, [])]
            assert len(told) != 1 or len(expected) != 1 or set(told) <= set(expected[0])


def _edited(text: list[str], chance: random.Random) -> tuple[list[str], dict[int, tuple[int, ...]]]:
    """Another text, and the lines at which a statement of the first may stand in it."""
    lines, i = list(text), chance.randrange(20, len(text) - 8)
    kind = chance.choice(("gone", "doubled", "swapped", "blank"))
    moved: dict[int, tuple[int, ...]] = {n: (n,) if n <= i else (n + 1,) for n in range(1, len(text) + 1)}
    if kind == "gone":
        del lines[i]
        moved = {n: (n,) if n <= i else (n - 1,) for n in moved}
    elif kind == "doubled":
        lines.insert(i, lines[i])
        moved[i + 1] = (i + 1, i + 2)
    elif kind == "blank":
        lines.insert(i, "")
    else:
        lines[i], lines[i + 1] = lines[i + 1], lines[i]
        moved = {**{n: (n,) for n in moved}, i + 1: (i + 2,), i + 2: (i + 1,)}
    return lines, moved


if __name__ == "__main__":
    names = [f"{s.stem} {mode}" for s in sorted(SCRIPTS.glob("*.py")) for mode in ("whole", "inside")]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            row = table(Run(name, Path(folder)))
            print(name, *(f"{k} {row[k]}" for k in ("exact", "listed", "function", "wrong")))
