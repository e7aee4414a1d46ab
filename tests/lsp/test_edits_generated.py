"""Generated calls in generated surroundings: an edit changes the wanted keyword and nothing else, or nothing."""

from __future__ import annotations

import ast

from hypothesis import given, settings
from hypothesis import strategies as st

from necropsy_lsp.edit import all_edits
from necropsy_lsp.edits._text import apply, parsed

NAMES = st.sampled_from(
    ["a", "self.x", "b[0]", "f(1, '(')", "'🔥)'", "(1, 2)", "[a for a in b]", "lambda q: (q, 1)", "é"]
)
GAPS = st.sampled_from(["", "", " ", "  ", "\t", "\n    ", "  # why, (\n    ", "\n\n", "\\\n ", "\n# ]\n  "])
CALLEES = {
    "pin_memory": ("DataLoader", "torch.utils.data.DataLoader", "(DataLoader)"),
    "drop_last": ("DataLoader", "torch.utils.data.DataLoader"),
    "set_to_none": ("opt.zero_grad", "self.opts[0].zero_grad", "f('(').zero_grad"),
    "fused": ("optim.AdamW", "torch.optim.SGD", "optim.Adam"),
    "non_blocking": ("x.to", "f(x, ')').to", "x[0].to"),
}
KEYWORDS = ("pin_memory", "drop_last", "fused", "non_blocking", "set_to_none", "foreach", "lr", "batch_size", "device")
BEFORE = st.sampled_from(["", "s = '🔥('; ", "y = ", "y = [0, ", "if a: ", "y = 1 + (", "@"])
HEAD = "import torch\nfrom torch import optim\nfrom torch.utils.data import DataLoader\n"
AROUND = st.sampled_from(
    [
        "{}",
        "def h():\n    {}",
        "x = 1; {}",
        "@d(\n1)\nclass A:\n    @d\n    async def m(self):\n        "
        '"""(\n"""\n        {}\n\n\ny = 2; """#\n"""; z = [\n]',
    ]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def arguments(draw: st.DrawFn) -> str:
    """The text between the parentheses of a call; may not be valid Python."""
    parts = [draw(st.sampled_from(["", "", "*"])) + draw(NAMES) for _ in range(draw(st.integers(0, 3)))]
    for name in draw(st.lists(st.sampled_from(KEYWORDS), unique=True, max_size=4)):
        value = draw(st.sampled_from(["True", "False", "None", "a", "(False)", "f(x)"]))
        parts.append(name + draw(st.sampled_from(["=", " = "])) + value)
    if draw(st.integers(0, 9)) == 0:
        parts.append("**more")
    text = ",".join(draw(GAPS) + part + draw(GAPS) for part in parts)
    if draw(st.booleans()) and parts:
        text += ","
    return text + draw(GAPS)


@st.composite
def sources(draw: st.DrawFn) -> tuple[str, str, int]:
    """A kind of edit, a source text with a call for it, and a line."""
    name = draw(st.sampled_from(sorted(CALLEES)))
    before = draw(BEFORE)
    text = f"{before}{draw(st.sampled_from(CALLEES[name]))}({draw(arguments())})"
    after = {"y = [0, ": "]", "y = 1 + (": ")", "@": "\ndef g(): pass"}.get(
        before, draw(st.sampled_from(["", "; z = 1", " # ("]))
    )
    around = draw(AROUND)
    body = HEAD + around.replace("{}", text + after) + draw(st.sampled_from(["", "\n"]))
    above = HEAD.count("\n") + around.partition("{}")[0].count("\n")
    line = above + draw(st.integers(0, text.count("\n")))
    return name, body.replace("\n", draw(ENDS)), line


def shape(tree: ast.AST, *keywords: str) -> str:
    """The tree without the named keywords, in whatever place they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [k for k in node.keywords if k.arg not in keywords]
    return ast.dump(tree)


@settings(max_examples=150, deadline=None)
@given(sources())
def test_only_the_keyword_changes(made: tuple[str, str, int]) -> None:
    name, source, line = made
    changes = all_edits()[name].on(source, line)
    text = parsed(source)
    if changes is None or text is None:
        assert changes is None
        return
    changed = parsed(apply(source, changes))
    assert changed is not None
    assert changed.comments() == text.comments()
    wanted = [n for n in ast.walk(changed.tree) if isinstance(n, ast.keyword) and n.arg == name]
    positional = [a for n in ast.walk(changed.tree) if isinstance(n, ast.Call) for a in n.args]
    assert any(isinstance(v, ast.Constant) and v.value is True for v in [*(k.value for k in wanted), *positional])
    dropped = (name, "foreach") if name == "fused" else (name,)
    if len(changes) == 1 and changes[0].text == "True" and changes[0].end > changes[0].start and not wanted:
        return  # a positional argument became True
    assert shape(changed.tree, *dropped) == shape(text.tree, *dropped)
    assert all_edits()[name].on(changed.source, line) is None  # done: nothing is left to do


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="aD(),=*'\"#\\\n\t :;[]🔥\r\x0c", max_size=40), st.integers(-3, 9))
def test_any_text_is_survived(text: str, line: int) -> None:
    for edit in all_edits().values():
        assert edit.on(text, line) is None
