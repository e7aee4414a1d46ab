"""Logs opened in the editor: diagnostics, outline and links, while they are edited and rewritten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.workspace import PositionCodec

from necropsy_lsp.analysis import ReportedFinding, Run, WholeReport
from necropsy_lsp.links import LONGEST, LocalFiles, references
from necropsy_lsp.logview import LogText, Marks, flat, outline
from necropsy_lsp.stored import Anchor

UTF16 = PositionCodec(types.PositionEncodingKind.Utf16)
TEXT = """\
epoch 1 🔥 done
Traceback (most recent call last):
  File "/home/trainer/projects/vision/train.py", line 5, in train
    loss = step(batch); log("🔥", loss.item())
RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0
"""

Connect = Callable[..., Any]


def starts(client: Any, uri: str) -> list[int]:
    return [d.range.start.line for d in client.diagnostics.get(uri, [])]


# Pure parts


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('  File "/p/vision/train.py", line 5, in train', [("/p/vision/train.py", 5)]),
        ('  File "/my projects/train.py", line 12', [("/my projects/train.py", 12)]),
        ("I1129 947 torch/_inductor/config.py:1114] compile", [("torch/_inductor/config.py", 1114)]),
        ("C:\\jobs\\vision\\train.py:7: UserWarning: x", [("C:\\jobs\\vision\\train.py", 7)]),
        ("at train.py(31): forward, then model.py:8.", [("train.py", 31), ("model.py", 8)]),
        ("/pytorch/aten/Loss.cu:245: nll", [("/pytorch/aten/Loss.cu", 245)]),
        ("[rank3]:train.py:9", [("train.py", 9)]),
        ("(train.py:9)", [("train.py", 9)]),
        (".py:9 and x.python:3 and a.py:99999999 and .py(3", []),
        ('x.py", line 5', []),
        ("no.pyc:3", []),
        ("x" * LONGEST + " train.py:9", []),
    ],
)
def test_references(line: str, found: list[tuple[str, int]]) -> None:
    assert [(r.file, r.line) for r in references(line)] == found
    for reference in references(line):
        assert reference.file in line[reference.start : reference.end]


def test_local_files(tmp_path: Path) -> None:
    for name in ("src/vision/train.py", "tools/train.py", "venv/lib/only.py", "mapped/model.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files = LocalFiles([tmp_path], {"/job/code": "mapped"})
    found = {
        name: files.find(name)
        for name in (
            "/home/trainer/vision/train.py",
            "D:\\x\\tools\\train.py",
            "/job/code/model.py",
            "/else/only.py",
            "/etc/passwd",
            "../../etc/passwd",
            "gone.py",
            "",
            "a" * 5000,
            "nul\0.py",
        )
    }
    here = {str(p.relative_to(tmp_path).as_posix()) if p else None: n for n, p in found.items() if p}
    assert here == {
        "src/vision/train.py": "/home/trainer/vision/train.py",
        "tools/train.py": "D:\\x\\tools\\train.py",
        "mapped/model.py": "/job/code/model.py",
    }


@pytest.mark.parametrize(
    ("text", "line", "quote", "at"),
    [
        ("a\nb\nc", 2, "b", 1),
        ("a\r\nb\r\nc", 2, "b", 1),
        ("10%\r20%\r30%\nb\nc", 2, "b", 3),  # three lines for the client, one for the engine
        ("10%\rRuntimeError: b\r\nc", 1, "RuntimeError", 1),
        ("a", 2, "", None),
        ("a\r", 5, "", None),
        ("a", 0, "", None),
    ],
)
def test_lines_of_the_engine_and_of_the_client(text: str, line: int, quote: str, at: int | None) -> None:
    assert LogText(text).line_of(Anchor("-", line, quote)) == at


def test_ranges_count_the_clients_units() -> None:
    found = LogText("  🔥 boom  ").range_of(0, "boom", UTF16)
    assert (found.start.character, found.end.character) == (5, 9)
    whole = LogText("  🔥 boom  ").range_of(0, "not there", UTF16)
    assert (whole.start.character, whole.end.character) == (2, 9)


def test_an_outline_has_incidents_with_their_consequences_and_evidence() -> None:
    def finding(rule: str, line: int, **more: Any) -> ReportedFinding:
        anchor = Anchor("run.log", line, f"line {line}")
        return ReportedFinding(rule, "error", rule.lower(), [], anchor, rule, name="n", ranks=[], **more)

    findings = [
        finding("ROOT1", 4, related=[Anchor("run.log", 2, "line 2", "before it"), Anchor("other.log", 1, "x")]),
        finding("CASC1", 6, role="cascade", explained_by="ROOT1"),
        finding("LONE1", 8, role="symptom", explained_by="elsewhere"),
        finding("GONE1", 99),
    ]
    findings[0].related.append(Anchor("run.log", 6, "line 6", "led to CASC1"))  # told by the consequence itself
    findings[0].ranks.append(3)
    runs = [Run("rank 3", [3], "failed", "ROOT1"), Run("rank 5", [5], "died with it"), Run("rank 7", [7])]
    log = LogText("\n".join(f"line {n}" for n in range(1, 10)))
    tree = outline(
        WholeReport("necropsy/1", findings, runs=runs), "run.log", log, Marks({"0/0": (6, 7)}, {5: 4}), UTF16
    )
    assert [(s.name, [c.name for c in s.children or ()]) for s in tree] == [
        ("ROOT1 n", ["before it", "CASC1 n (cascade)"]),
        ("LONE1 n (symptom)", []),
        ("Ranks", ["rank 3", "rank 5"]),  # nothing tells where rank 7 is
        ("Compilations", ["compile 0/0"]),
    ]
    assert [s.name for s in flat(tree[:1], "file:///run.log")] == ["ROOT1 n", "before it", "CASC1 n (cascade)"]
    assert [c.detail for c in tree[2].children or ()] == ["failed, ROOT1", "died with it"]
    assert (tree[0].range.start.line, tree[0].selection_range.start.line, tree[0].range.end.line) == (1, 3, 5)


def test_marks_of_compilations_and_ranks() -> None:
    head = "V1129 12:21:29.380000 947 torch/_dynamo/output_graph.py:58]"
    lines = [f"{head} [0/0] a", f"{head} [0/1_1] b", "[rank3]: x", "2: y", f"{head} [0/0] c", "] [9/9]"]
    marks = Marks()
    marks.scan(lines, 0, 3)
    marks.scan(lines, 3, 99)
    assert marks.compiles == {"0/0": (0, 4), "0/1_1": (1, 1)}
    assert marks.ranks == {3: 2, 2: 3}


# Through the server


@pytest.mark.parametrize("uri", ["", "untitled:Untitled-1"])
def test_an_open_log_has_diagnostics_and_so_has_the_script(project: Path, connect: Connect, uri: str) -> None:
    train = project / "vision" / "train.py"

    async def talk() -> Any:
        async with connect(project) as client:
            script = client.open(train, "python")
            log = client.open(uri or project / "run.log", "log", TEXT)
            await client.until(lambda: starts(client, log))
            await client.until(lambda: starts(client, script) == [4])
            (diagnostic,) = client.diagnostics[log]
            client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(log)))
            await client.until(lambda: starts(client, log) == starts(client, script) == [])
            return diagnostic

    diagnostic = asyncio.run(talk())
    assert diagnostic.range == types.Range(types.Position(4, 0), types.Position(4, len(TEXT.splitlines()[4])))
    assert (diagnostic.source, diagnostic.severity) == ("necropsy", types.DiagnosticSeverity.Error)
    (place,) = diagnostic.related_information
    assert (place.location.uri, place.location.range.start.line) == (train.as_uri(), 4)


def test_clearing_takes_the_logs_own_diagnostics_too(project: Path, connect: Connect) -> None:
    async def talk() -> Any:
        async with connect(project) as client:
            log = client.open(project / "run.log", "log", TEXT)
            await client.until(lambda: starts(client, log) == [4])
            answer = await client.command("necropsy.clear", {"uri": log})
            await client.until(lambda: starts(client, log) == [])
            return answer

    assert asyncio.run(talk()) == {"ok": True, "cleared": 1}


def test_a_log_that_changes_is_read_again(project: Path, connect: Connect) -> None:
    async def talk() -> list[list[int]]:
        async with connect(project) as client:
            log = client.open(project / "run.log", "log", TEXT)
            await client.until(lambda: starts(client, log) == [4])
            client.replace(log, 2, "one more line\n" + TEXT)
            await client.until(lambda: starts(client, log) == [])  # no warning on a wrong line meanwhile
            seen = [await client.until(lambda: starts(client, log))]
            client.replace(log, 3, "all is well\n")
            await client.until(lambda: starts(client, log) == [])
            for version in range(4, 30):  # typing: the newest text wins
                client.replace(log, version, "x\n" * version + TEXT)
            seen.append(await client.until(lambda: starts(client, log)))
            return seen

    assert asyncio.run(talk()) == [[5], [29 + 4]]


@pytest.mark.parametrize("tree", [True, False])
def test_outline_and_links(project: Path, connect: Connect, tree: bool) -> None:
    async def talk() -> Any:
        async with connect(project, name="visual_studio_code" if tree else "emacs") as client:
            log = client.open(project / "run.log", "log", TEXT)
            document = types.TextDocumentIdentifier(log)
            # Asked for at once: the answer waits for the analysis.
            symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
            links = await client.text_document_document_link_async(types.DocumentLinkParams(document))
            return symbols, links

    symbols, links = asyncio.run(talk())
    assert [s.name[:3] for s in symbols] == ["CRS"]
    (link,) = links
    assert link.target == (project / "vision" / "train.py").as_uri() + "#L5"
    assert (link.range.start, link.range.end) == (types.Position(2, 8), types.Position(2, 55))


def test_what_is_no_log_is_left_alone(project: Path, connect: Connect) -> None:
    async def talk() -> Any:
        async with connect(project) as client:
            document = client.open(project / "data.txt", "plaintext", '{"traceEvents": [{"a": 1}]}')
            symbols = await client.text_document_document_symbol_async(
                types.DocumentSymbolParams(types.TextDocumentIdentifier(document))
            )
            page = client.open(project / "page.md", "markdown", TEXT)
            links = await client.text_document_document_link_async(
                types.DocumentLinkParams(types.TextDocumentIdentifier(page))
            )
            return symbols, links, dict(client.progress_reports)

    assert asyncio.run(talk()) == (None, None, {})


def test_a_big_log_does_not_keep_typing_waiting(project: Path, connect: Connect) -> None:
    big = "".join(f"step {n} loss 0.{n}\n" for n in range(400_000)) + TEXT  # 8 MB
    train = project / "vision" / "train.py"

    async def talk() -> Any:
        async with connect(project) as client:
            log = client.open(project / "run.log", "log", big)
            script = client.open(train, "python")
            await client.until(lambda: script in client.diagnostics)
            early = log not in client.diagnostics
            await client.until(lambda: starts(client, log))
            return early, starts(client, log)

    early, found = asyncio.run(talk())
    assert early  # the script was answered while the log was under way
    assert found == [400_004]
