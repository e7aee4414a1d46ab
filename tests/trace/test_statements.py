"""Findings of real traces with the sources beside them: the planted line, a choice with it, or the function.

    python -m tests.trace.test_statements [TRACE... SOURCES]

counts the first places of these traces, or of given ones with the folder of their sources: the second table of
docs/statements.md.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from necropsy.api import analyze
from necropsy.config import Config
from necropsy.finding import Confidence, Finding

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "traces"

# Trace -> its findings that are about a statement: rule, first place's line, further lines. An exact line is the
# planted one (`# plant:` in fixtures/traces/src), or one that was checked by reading the trace.
LINES: dict[str, dict[str, list[int]]] = {
    "sync.json.gz": {
        "SYN002 dispatch": [20], "SYN002 train": [85, 78, 84], "SYN002 masked_loss": [56], "SYN002 forward": [42],
        "SYN001 train": [87],
    },
    "copies.json.gz": {
        "MEM005 keep_features": [57], "MEM003 stage_batch": [49], "SYN002 keep_features": [57],
        "MEM002 make_bias": [22], "MEM005 stage_small": [53],
    },
    "convnet_nchw.json.gz": {"MEM013 forward": [23, 21]},
    "unfused.json.gz": {
        "FUS002 hand_attention": [27], "FUS002 forward": [18], "FUS002 hand_gelu": [23], "FUS002 rotary": [34],
    },
    "memory_churn.json.gz": {"OOM010 step": [67]},
    "optim_forloop.json.gz": {"FUS006 train": [67], "LCH005 update_ema": [56]},
    "pauses_checkpoint.json.gz": {"LCH008 save_checkpoint": [46]},
    "pauses_gc.json.gz": {"DAT006 collect_garbage": [51]},
}  # fmt: skip


# Exact lines that are not planted, as read in the trace and in the script: a model's part of the peak, operators that
# are not fused, the step of an optimizer.
READ: set[tuple[str, str, int]] = {
    ("memory_nearcap.json.gz", "OOM001", 57),
    ("optim_forloop.json.gz", "FUS003", 16),
    ("convnet_nchw.json.gz", "FUS003", 23),
}
BESIDE = ("image_classifier.json.xz", "language_model.json.gz", "rnn_compile.json.gz", "compile_breaks.json.gz")


def traces() -> list[str]:
    """Those whose scripts are in `src`."""
    return sorted(p.name for p in FOLDER.glob("*.json.gz") if p.name not in BESIDE)


def first_places(paths: Iterable[Path], source: Path) -> Iterator[tuple[str, str, int | None, str]]:
    """Trace, rule and line of the first place of each finding of functions, and how exact it is."""
    for path in paths:
        for f in analyze([str(path)], config=Config(source=(str(source),))).findings:
            if not f.code or not f.code[0].how.startswith(("profiler", "source read")):
                continue  # a line that names in the trace tell by themselves
            behind = any(p.exactness == "line" or "one of these" in p.how for p in f.code[1:])
            kind = "exact" if f.code[0].exactness == "line" else "listed" if behind else "function"
            yield path.name, f.rule, f.code[0].line, kind


def test_no_exact_line_is_wrong() -> None:
    found = list(first_places([FOLDER / t for t in traces()], FOLDER / "src"))
    known = {(trace, name.split()[0], lines[0]) for trace, names in LINES.items() for name, lines in names.items()}
    exact = {(trace, rule, line) for trace, rule, line, kind in found if kind == "exact"}
    assert len(exact) >= 20
    assert exact <= known | READ


@cache
def told(trace: str, source: Path | None = None) -> dict[str, Finding]:
    """Findings by rule and function."""
    report = analyze([str(FOLDER / trace)], config=Config(source=(str(source),) if source else ()))
    return {f"{f.rule} {f.code[0].function}": f for f in report.findings if f.code}


@pytest.mark.parametrize("trace", LINES)
def test_the_planted_lines_are_named(trace: str) -> None:
    found = told(trace, FOLDER / "src")
    for name, lines in LINES[trace].items():
        places = [p for p in found[name].code if p.function == name.split()[1]]
        assert [p.line for p in places] == lines
        assert {(p.exactness, p.how) for p in places} == {("line", "source read against the trace")}
        assert found[name].confidence is not Confidence.CERTAIN


def test_what_two_branches_show_alike_is_listed() -> None:
    """`--fixed` and the default copy with two `.to` each: the trace cannot tell which branch ran."""
    places = told("input_bound.json.gz", FOLDER / "src")["MEM003 train_epoch"].code
    assert (places[0].exactness, places[0].line) == ("function", 57)
    assert [(p.line, p.exactness) for p in places[1:]] == [(60, "function"), (63, "function")]
    assert all("one of these" in p.how for p in places[1:])


@pytest.mark.parametrize(
    ("trace", "finding", "lines"),
    [
        ("precision_misaligned.json.gz", "MEM012 features", [34, 36]),
        ("input_bound.json.gz", "DAT002 train_epoch", [57, 58]),
    ],
)
def test_a_statement_that_is_not_to_be_changed_stands_behind_its_function(
    trace: str, finding: str, lines: list[int]
) -> None:
    """The size of a layer is chosen where it is made, not where it is called; so are a loader's options."""
    places = told(trace, FOLDER / "src")[finding].code
    assert [(p.line, p.exactness) for p in places[:2]] == list(zip(lines, ("function", "line"), strict=True))


def edited(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """A folder with one script in another revision."""
    text = (FOLDER / "src" / name).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def stage_batch", "# a comment\ndef stage_batch"),  # every function behind it begins elsewhere
        ("    return host.to(dev)", "    host = host * 2\n    return host.to(dev)"),
        ("def stage_batch(host, dev):", "def stage_batch(host, dev)"),  # no Python any more
        ("def stage_batch", "def stage"),
    ],
)
def test_a_changed_source_tells_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    trace = tmp_path / "run" / "copies.json.gz"
    trace.parent.mkdir()
    trace.write_bytes((FOLDER / "copies.json.gz").read_bytes())
    monkeypatch.chdir(trace.parent)
    source = edited(tmp_path, "copies.py", old, new)
    report = analyze([str(trace)], config=Config(source=(str(source),)))
    assert report.findings
    assert {p.exactness for f in report.findings for p in f.code} == {"function"}


def test_a_statement_that_went_makes_its_function_alone_untold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last function changed, so that all begin where they did: what it did no longer fits its text."""
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "copies.json.gz"
    trace.write_bytes((FOLDER / "copies.json.gz").read_bytes())
    source = edited(tmp_path, "copies.py", "feats.detach().float().cpu()", "feats.float().detach().cpu()")
    report = analyze([str(trace)], config=Config(source=(str(source),)))
    found = {f"{f.rule} {f.code[0].function}": f for f in report.findings}
    assert found["MEM005 keep_features"].code[0].exactness == "function"
    assert found["MEM003 stage_batch"].code[0].line == 49


def test_without_sources_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "a" / "b" / "c" / "d"  # sources of other tests' folders are out of reach
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    trace = place / "copies.json.gz"
    trace.write_bytes((FOLDER / "copies.json.gz").read_bytes())
    report = analyze([str(trace)])
    assert {(p.exactness, p.how) for f in report.findings for p in f.code} == {("function", "profiler")}


def test_two_files_that_fit_are_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two revisions in which every function begins where it did: nobody knows which one ran."""
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "copies.json.gz"
    trace.write_bytes((FOLDER / "copies.json.gz").read_bytes())
    for name, text in (("old", "host.to(dev)"), ("new", "host.to(dev, non_blocking=True)")):
        (tmp_path / name).mkdir()
        edited(tmp_path / name, "copies.py", "host.to(dev)", text)
    report = analyze([str(trace)])
    assert {p.exactness for f in report.findings for p in f.code} == {"function"}


if __name__ == "__main__":
    given = [Path(a) for a in sys.argv[1:]]
    chosen, sources = (given[:-1], given[-1]) if given else ([FOLDER / t for t in traces()], FOLDER / "src")
    print(len(chosen), "traces", dict(Counter(kind for *_, kind in first_places(chosen, sources))))
