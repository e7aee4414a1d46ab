"""The shape of the code: who imports whom, sizes, docstrings, and no trace of a build machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).resolve().parents[1]
CODE = ("analyzer", "parsers", "lsp", "tests")
TEXT = (*CODE, "docs", "fixtures", "vscode-extension", ".ci")
CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}
MADE = CACHES | {"node_modules", "libs", "dist", "out"}  # not part of the checkout, see .gitignore
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

# In pieces, so that this file does not hold what it looks for.
FORBIDDEN = re.compile(
    r"(?<![\w.-])/(?:work|farm|root)/|/opt/(?:pypi|wheels)"
    r"|\b(?:files\.pythonhosted|pypi|registry\.npmjs|deb\.debian)\.org\b"
)
MAIL = re.compile(
    r"\b[\w.+-]+@(?!(?:[\w-]+\.)*example\.(?:com|org|net)\b)[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|edu|io)\b"
)

# What a rule may build on: evidence in, findings out, and nothing that shows or joins them.
RULE_IMPORTS = ("necropsy.evidence", "necropsy.finding", "necropsy.rule", "necropsy.rules", "necropsy_parsers")
RULE_HELPERS = (
    "necropsy.claim",
    "necropsy.conditions",
    "necropsy.hardware",
    "necropsy.ncu",
    "necropsy.provenance",
    "necropsy.recovery",
    "necropsy.releases",
    "necropsy.suspects",
    "necropsy.timeouts",
    "necropsy.trace",
    "necropsy.units",
)


def files_below(*folders: str, suffix: str = "") -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob(f"*{suffix}")):
            if path.is_file() and not MADE & set(path.relative_to(ROOT).parts):
                yield path


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def modules() -> Iterator[tuple[Path, str, ast.Module]]:
    for path in files_below(*CODE, suffix=".py"):
        text = path.read_text(encoding="utf-8")
        yield path, text, ast.parse(text, name(path))


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `from necropsy import api` names a module too
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_there_is_something_to_check() -> None:
    found = {name(path).split("/")[1] for path, _, _ in modules()}
    assert {"necropsy", "necropsy_parsers", "necropsy_lsp"} <= found


def test_import_contracts(capsys: pytest.CaptureFixture[str]) -> None:
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == 0, capsys.readouterr().out


def test_files_are_short() -> None:
    lengths = {name(path): text.count("\n") for path, text, _ in modules()}
    assert {path: count for path, count in lengths.items() if count > MAX_FILE_LINES} == {}


def test_functions_are_short() -> None:
    too_long = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= MAX_FUNCTION_LINES
    ]
    assert too_long == []


def test_every_module_says_what_it_does() -> None:
    assert [name(path) for path, _, tree in modules() if not (ast.get_docstring(tree) or "").strip()] == []


def test_rules_import_evidence_and_findings_only() -> None:
    allowed = (*RULE_IMPORTS, *RULE_HELPERS)
    wrong = [
        f"{name(path)} imports {module}"
        for path, _, tree in modules()
        if name(path).startswith("analyzer/necropsy/rules/")
        for module in imports(tree)
        if module.startswith("necropsy") and not module.startswith(allowed)
    ]
    assert wrong == []


def test_no_path_or_address_of_a_real_machine_or_person() -> None:
    found = []
    for path in [*files_below(*TEXT), *ROOT.glob("*.*")]:
        data = path.read_bytes() if path.is_file() else b""
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if match := FORBIDDEN.search(line) or MAIL.search(line):
                found.append(f"{name(path)}:{number}: {match[0]}")
    assert found == []


@pytest.mark.parametrize(
    "text", ["see /" + "work/x", "'/" + "root/y'", "https://pypi" + ".org/simple", "a.b@corp" + ".com"]
)
def test_the_check_for_machines_finds_them(text: str) -> None:
    assert FORBIDDEN.search(text) or MAIL.search(text)


@pytest.mark.parametrize("text", ["/workspace/x", "src/work/x", "a@example.com", "trainer@node-3", "@dataclass"])
def test_the_check_for_machines_leaves_the_rest(text: str) -> None:
    assert not FORBIDDEN.search(text)
    assert not MAIL.search(text)
