"""Which statement keeps what a line makes, by the source alone; and what is no such statement."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from necropsy_parsers.records import Frame

from necropsy.provenance.files import SourceTree
from necropsy.provenance.kept import Kept, keepers, sources_of


def kept_by(source: str, *marks: str) -> list[Kept]:
    """Keepers of the line that ends in `# 0`, called from `# 1`, ...; the source is dedented."""
    lines = dedent(source).strip("\n").split("\n")
    numbers = [next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {m}")) for m in marks or ("0",)]
    return keepers([Frame("fit.py", n, "f") for n in numbers], lambda _: lines)


def in_a_loop(body: str, before: str = "history = []") -> list[Kept]:
    """Keepers of `loss = criterion(out, y)` in a training loop with that body behind it."""
    source = f"def fit():\n    {before}\n    for x, y in loader:\n        loss = criterion(net(x), y)  # 0\n"
    return kept_by(source + indent(dedent(body).strip("\n"), " " * 8))


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("history.append(loss)", "history = []"),
        ("history.append((n, loss))", "history = []"),
        ("history.append({'loss': loss, 'n': 3})", "history = []"),
        ("history.append(dict(loss=loss))", "history = []"),
        ("history.extend([loss, 3])", "history = []"),
        ("history.insert(0, loss)", "history = []"),
        ("history += [loss]", "history = []"),
        ("history = history + [loss]", "history = []"),
        ("history[n] = loss", "history = {}"),
        ("history[n, 0] = loss", "history = dict()"),
        ("history.setdefault(n, []).append(loss)", "history = {}"),
        ("history['train'].append(loss)", "history = defaultdict(list)"),
        ("history.update({n: loss})", "history = {}"),
        ("history.add(loss)", "history = set()"),
        ("history.append(loss.view(-1))", "history = []"),
        ("history += loss", "history = 0"),
        ("history = history + loss", "history = 0.0"),
        ("history = loss + history", "history = torch.zeros(1, device=dev)"),
        ("history.append(loss)", "history = deque()"),
        ("if n % 10 == 0:\n    history.append(loss)", "history = []"),
        ("with torch.no_grad():\n    try:\n        history.append(loss)\n    finally:\n        pass", "history = []"),
        ("also = loss\nhistory.append(also)", "history = []"),
        ("out = {}\nout['loss'] = loss\nhistory.append(out)", "history = []"),
        ("loss.backward()\nopt.step()\nhistory.append(\n    loss,\n)", "history = []"),
        ("self.history.append(loss)", "pass"),
    ],
)
def test_statements_that_keep(body: str, before: str) -> None:
    (kept,) = in_a_loop(body, before)
    assert kept.holder.removeprefix("self.") == "history"
    assert "history" in kept.says
    assert not kept.bounded
    assert not kept.detached


@pytest.mark.parametrize(
    "body",
    [
        "history.append(loss.item())",
        "history.append(float(loss))",
        "history.append(loss.detach().cpu().numpy())",
        "history.append(loss.tolist())",
        'history.append(loss.to("cpu"))',
        "history.append(loss.shape)",
        "history.append(f'{loss}')",
        "history.append(len(loss))",
        "history.append(loss * 2)",
        "history.append(smooth(loss))",
        "history.append(other)",
        "loss = loss.item()\nhistory.append(loss)",
        "loss = loss.detach().cpu()\nhistory.append(loss)",
        "loss = other(x)\nhistory.append(loss)",
        "del loss\nhistory.append(loss)",
        "for loss in parts:\n    history.append(loss)",
        "self.last = loss",
        "state['loss'] = loss",
        "meter.update(loss)",
        "writer.add_scalar('loss', loss)",
        "batch = []\nbatch.append(loss)",
        "total = 0\ntotal += loss",
        "x += loss",
        "loss.backward()",
        "history.append",
    ],
)
def test_statements_that_keep_nothing(body: str) -> None:
    assert in_a_loop(body) == []


def test_a_detached_value_is_kept_without_its_graph() -> None:
    (kept,) = in_a_loop("history.append(loss.detach())")
    assert kept.detached
    assert in_a_loop("total += loss.detach()", "total = 0") == []
    (kept,) = in_a_loop("value = loss.detach()\nhistory.append(value)")
    assert (kept.detached, kept.stored) == (True, "value")


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("history.append(loss)\nif len(history) > 50:\n    history.pop(0)", "history = []"),
        ("history.append(loss)\nhistory = history[-50:]", "history = []"),
        ("history.append(loss)\ndel history[:-50]", "history = []"),
        ("if n % 100 == 0:\n    history.clear()\nhistory.append(loss)", "history = []"),
    ],
)
def test_what_is_cut_is_bounded(body: str, before: str) -> None:
    assert all(k.bounded for k in in_a_loop(body, before))


def test_a_deque_with_a_length_keeps_no_more() -> None:
    assert in_a_loop("history.append(loss)", "history = deque(maxlen=100)") == []
    assert in_a_loop("history.append(loss)", "history = collections.deque([], 100)") == []


def test_all_statements_are_told() -> None:
    both = in_a_loop("history.append(loss)\nlosses[n] = loss", "history, losses = [], {}")
    assert [k.holder for k in both] == ["history"]  # of a tuple's parts it is not known which is a dict
    both = in_a_loop("history.append(loss)\nself.losses.append(loss)")
    assert [k.holder for k in both] == ["history", "self.losses"]


def test_a_list_made_anew_in_an_outer_loop_is_bounded() -> None:
    (kept,) = kept_by(
        """
        def fit():
            for epoch in range(9):
                seen = []
                for x in loader:
                    out = net(x)  # 0
                    seen.append(out)
        """
    )
    assert kept.bounded


def test_the_value_is_followed_through_returns() -> None:
    source = """
        class Net:
            def forward(self, x):
                y = self.head(x)  # 0
                return y, None

        def step(x):
            return net(x)[0]  # 1

        def fit():
            seen = []
            for x in loader:
                out = step(x)  # 2
                seen.append(out)
        """
    (kept,) = kept_by(source, "0", "1", "2")
    assert (kept.says, kept.line) == ("seen.append(out)", 13)
    assert kept_by(source, "0") == []
    assert kept_by(source.replace("return net(x)[0]", "return net(x)[0].item()"), "0", "1", "2") == []


def test_a_list_of_one_call_is_not_what_grows_from_call_to_call() -> None:
    """Outputs of layers are listed in each forward pass; the list of all passes is what keeps them."""
    source = """
        def forward(x):
            outs = []
            for layer in layers:
                x = layer(x)  # 0
                outs.append(x)
            return outs

        def collect():
            every = []
            for x in loader:
                outs = forward(x)  # 1
                {}
        """
    (kept,) = kept_by(source.format("every.append(outs)"), "0", "1")
    assert (kept.says, kept.bounded) == ("every.append(outs)", False)
    (kept,) = kept_by(source.format("pass"), "0", "1")
    assert (kept.says, kept.bounded) == ("outs.append(x)", True)


def test_an_attribute_that_another_method_makes_anew_is_bounded() -> None:
    source = """
        class Module:
            def __init__(self):
                self.outs = []

            def training_step(self, batch):
                loss = self.loss(batch)  # 0
                self.outs.append(loss)
                return loss

            def on_epoch_end(self):
                {}
        """
    assert [k.bounded for k in kept_by(source.format("pass"))] == [False]
    assert [k.bounded for k in kept_by(source.format("self.outs = []"))] == [True]
    assert [k.bounded for k in kept_by(source.format("self.outs.clear()"))] == [True]


def test_what_a_statement_says_is_its_own_text() -> None:
    (kept,) = in_a_loop('if n: history.append(("é", loss))  # in short')
    assert kept.says == 'history.append(("é", loss))'
    assert kept.text == 'if n: history.append(("é", loss))  # in short'
    (kept,) = in_a_loop("history.append(\n    loss,\n)")
    assert kept.says == "history.append(loss)"
    assert in_a_loop(f"history.append({'(' * 150}f{'()' * 5000}(loss){')' * 150})") == []


def test_a_script_without_functions() -> None:
    (kept,) = kept_by("seen = []\nfor x in xs:\n    out = net(x)  # 0\n    seen.append(out)")
    assert (kept.says, kept.bounded) == ("seen.append(out)", False)
    assert kept_by("for x in xs:\n    seen = []\n    out = net(x)  # 0\n    seen.append(out)") == []
    (kept,) = kept_by(
        "for e in es:\n    seen = []\n    for x in xs:\n        out = net(x)  # 0\n        seen.append(out)"
    )
    assert kept.bounded


def test_stored_where_it_is_made() -> None:
    (kept,) = kept_by("def f():\n    outs = []\n    for x in xs:\n        outs.append(net(x))  # 0")
    assert kept.says == "outs.append(net(x))"
    assert kept_by("def f():\n    outs = []\n    for x in xs:\n        outs.append(net(x).cpu())  # 0") == []


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    for x in xs:\n        out = net(x)  # 0\n        yield out",
        "out = net(x)  # 0\nouts.append(out)",
        "def f(:\n    out = net(x)  # 0",
        "def f():\n    with net(x) as out:  # 0\n        outs.append(out)",
        "def f():\n    outs = []\n    for x in xs:\n        out = net(x)  # 0\n    outs.append(out)",
        "\x00 # 0",
        "def f():\n    'in a text'\n    # 0",
    ],
)
def test_nothing_to_follow(source: str) -> None:
    assert kept_by(source) == []


def test_the_source_is_the_one_in_which_frames_stand_in_their_functions(tmp_path: Path) -> None:
    text = "def one():\n    return [net(x) for x in xs]\n\n\ndef two():\n    return 2\n"
    for folder, what in (("src", text), ("old", "\n\n" + text)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "fit.py").write_text(what, encoding="utf-8")
    tree = SourceTree(named=[str(tmp_path)])
    file = "/home/trainer/projects/x/fit.py"
    assert sources_of(tree, [[Frame(file, 2, "one"), Frame(file, 2, "<listcomp>")]])(file) == text.splitlines()
    assert sources_of(tree, [[Frame(file, 4, "one")]])(file)[0] == ""
    assert sources_of(tree, [[Frame(file, 6, "one")]])(file) == ()
    assert sources_of(tree, [[Frame(file, 900, "one")]])(file) == ()
    (tmp_path / "old" / "fit.py").write_text(text + "# 2\n", encoding="utf-8")
    tree = SourceTree(named=[str(tmp_path)])
    assert sources_of(tree, [[Frame(file, 2, "one")]])(file) == ()  # which of two ran is not known
