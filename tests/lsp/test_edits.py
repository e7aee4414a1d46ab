"""Edits over many shapes of call: what they change, and where they change nothing because it is not sure."""

from __future__ import annotations

import ast

import pytest

from necropsy_lsp.edit import all_edits
from necropsy_lsp.edits._text import apply
from necropsy_lsp.edits.table import ROWS, edits_for

IMPORTS = """\
import torch
from torch import optim
from torch.utils.data import DataLoader
from torch.cuda import empty_cache
"""
HEAD = IMPORTS.count("\n")


def edited(name: str, source: str, line: int = 0) -> str | None:
    """The source after the edit at a line of it; the imports stand above, and line ends are those of the source."""
    end = next((e for e in ("\r\n", "\r") if e in source), "\n")
    head = IMPORTS.replace("\n", end)
    changes = all_edits()[name].on(head + source, HEAD + line)
    if changes is None:
        return None
    result = apply(head + source, changes)
    ast.parse(result.removeprefix("\ufeff"))
    assert result.startswith(head)
    return result.removeprefix(head)


KEYWORDS = [
    ("pin_memory", "dl = DataLoader(ds)", "dl = DataLoader(ds, pin_memory=True)"),
    ("pin_memory", "dl = DataLoader(ds,)", "dl = DataLoader(ds, pin_memory=True,)"),
    ("pin_memory", "dl = DataLoader(ds, )", "dl = DataLoader(ds, pin_memory=True, )"),
    ("pin_memory", "dl = DataLoader( ds )", "dl = DataLoader( ds, pin_memory=True )"),
    ("pin_memory", "dl = DataLoader(ds, pin_memory=False)", "dl = DataLoader(ds, pin_memory=True)"),
    (
        "pin_memory",
        "dl = DataLoader(ds, pin_memory = (cuda or (x)) , **kw)",
        "dl = DataLoader(ds, pin_memory = (True) , **kw)",
    ),
    (
        "pin_memory",
        "dl = DataLoader(d, 4, True, s, None, 2, f, False)",
        "dl = DataLoader(d, 4, True, s, None, 2, f, True)",
    ),
    ("pin_memory", "dl = DataLoader((ds))", "dl = DataLoader((ds), pin_memory=True)"),
    ("pin_memory", "dl = torch.utils.data.DataLoader(ds)", "dl = torch.utils.data.DataLoader(ds, pin_memory=True)"),
    ("pin_memory", "dl = (DataLoader)(ds)", "dl = (DataLoader)(ds, pin_memory=True)"),
    ("pin_memory", "for x, y in DataLoader(ds): pass", "for x, y in DataLoader(ds, pin_memory=True): pass"),
    ("pin_memory", "dl = prepare(DataLoader(make(ds)), 1)", "dl = prepare(DataLoader(make(ds), pin_memory=True), 1)"),
    ("pin_memory", "a = 1; dl = DataLoader(ds); b = ')'", "a = 1; dl = DataLoader(ds, pin_memory=True); b = ')'"),
    (
        "pin_memory",
        "dl = DataLoader(read('a)b(', \"(\"))  # (x",
        "dl = DataLoader(read('a)b(', \"(\"), pin_memory=True)  # (x",
    ),
    ("pin_memory", "s = '🔥'; dl = DataLoader(read('🔥'))", "s = '🔥'; dl = DataLoader(read('🔥'), pin_memory=True)"),
    ("pin_memory", "dl = DataLoader(read(f'{a}(,🔥'))", "dl = DataLoader(read(f'{a}(,🔥'), pin_memory=True)"),
    (
        "pin_memory",
        "dl = DataLoader(ds, collate_fn=lambda b: (b,))",
        "dl = DataLoader(ds, collate_fn=lambda b: (b,), pin_memory=True)",
    ),
    (
        "pin_memory",
        "@wrap(DataLoader(ds))\ndef f():\n    pass",
        "@wrap(DataLoader(ds, pin_memory=True))\ndef f():\n    pass",
    ),
    ("pin_memory", "if a:\n\tdl = DataLoader(\n\t\tds,\n\t)", None),  # the claimed line is the `if`
    ("drop_last", "dl = DataLoader(ds, batch_size=4)", "dl = DataLoader(ds, batch_size=4, drop_last=True)"),
    ("drop_last", "dl = DataLoader(ds, batch_sampler=None)", "dl = DataLoader(ds, batch_sampler=None, drop_last=True)"),
    ("set_to_none", "opt.zero_grad()", "opt.zero_grad(set_to_none=True)"),
    ("set_to_none", "self.opts[0].zero_grad(  )", "self.opts[0].zero_grad(set_to_none=True  )"),
    ("set_to_none", "opt.zero_grad(set_to_none=False)", "opt.zero_grad(set_to_none=True)"),
    ("set_to_none", "opt.zero_grad(False)", "opt.zero_grad(True)"),
    ("set_to_none", "run(lambda: opt.zero_grad())", "run(lambda: opt.zero_grad(set_to_none=True))"),
    ("set_to_none", "opt.zero_grad(  # now\n)", "opt.zero_grad(set_to_none=True  # now\n)"),
    ("set_to_none", "(opt\n .zero_grad())", "(opt\n .zero_grad(set_to_none=True))"),
    ("fused", "o = optim.AdamW(ps)", "o = optim.AdamW(ps, fused=True)"),
    ("fused", "o = torch.optim.SGD(*ps, lr=1)", "o = torch.optim.SGD(*ps, lr=1, fused=True)"),
    ("fused", "o = optim.Adam(ps, foreach=False)", "o = optim.Adam(ps, fused=True)"),
    ("fused", "o = optim.Adam(ps, foreach=True, lr=1)", "o = optim.Adam(ps, fused=True, lr=1)"),
    ("fused", "o = optim.Adam(ps, fused=False, foreach=False)", "o = optim.Adam(ps, fused=True)"),
    ("fused", "o = optim.Adam(foreach=False, fused=False, params=ps)", "o = optim.Adam(fused=True, params=ps)"),
    ("fused", "o = optim.Adam(ps, fused=True, foreach=False,)", "o = optim.Adam(ps, fused=True,)"),
    (
        "fused",
        "o = optim.Adam(\n    ps,\n    foreach=False,\n    fused=None,\n)",
        "o = optim.Adam(\n    ps,\n    fused=True,\n)",
    ),
    (
        "fused",
        "o = optim.Adam(\n    ps,  # a\n    foreach=False,  # b\n    fused=None,\n)",
        "o = optim.Adam(\n    ps,  # a\n    # b\n    fused=True,\n)",
    ),
    ("non_blocking", "x = x.to(device)", "x = x.to(device, non_blocking=True)"),
    ("non_blocking", "x = x.to('cuda', torch.half)", "x = x.to('cuda', torch.half, non_blocking=True)"),
    ("non_blocking", "x = x.to(device=d, dtype=t)", "x = x.to(device=d, dtype=t, non_blocking=True)"),
    ("non_blocking", "x = x.to(device, torch.half, False)", "x = x.to(device, torch.half, True)"),
    ("non_blocking", "x = x.to(torch.half).to(device)", "x = x.to(torch.half).to(device, non_blocking=True)"),
    ("non_blocking", "x = torch.zeros(3).cuda()", "x = torch.zeros(3).cuda(non_blocking=True)"),
    ("non_blocking", "x = torch.zeros(3).cuda(0, False)", "x = torch.zeros(3).cuda(0, True)"),
    (
        "non_blocking",
        "x = x.cuda()\nfor x, y in loader: pass",
        "x = x.cuda(non_blocking=True)\nfor x, y in loader: pass",
    ),
    (
        "non_blocking",
        "x = b['x'].cuda()\nfor b in tqdm(loader): pass",
        "x = b['x'].cuda(non_blocking=True)\nfor b in tqdm(loader): pass",
    ),
]


@pytest.mark.parametrize(("name", "source", "wanted"), KEYWORDS, ids=range(len(KEYWORDS)))
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_keywords(name: str, source: str, wanted: str | None, end: str) -> None:
    source, wanted = source.replace("\n", end) + end, wanted and wanted.replace("\n", end) + end
    assert edited(name, source) == wanted


LAYOUT = """\
dl = DataLoader(  # (
    read(")"),
    batch_size=4,  # four, (
{more}    # the end )
)
"""


@pytest.mark.parametrize("line", [0, 2, 4])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_one_argument_a_line_stays_one_a_line(line: int, end: str) -> None:
    source, wanted = LAYOUT.format(more=""), LAYOUT.format(more="    pin_memory=True,\n")
    assert edited("pin_memory", source.replace("\n", end), line) == wanted.replace("\n", end)


def test_tabs_and_a_file_that_begins_with_a_mark() -> None:
    source = "\ufefffrom torch.utils.data import DataLoader\nif 1:\n\tdl = DataLoader(\n\t\tds,\n\t)\n"
    changes = all_edits()["pin_memory"].on(source, 2)
    assert changes is not None
    assert apply(source, changes) == source.replace("ds,\n", "ds,\n\t\tpin_memory=True,\n")


NOTHING = [
    ("pin_memory", "dl = DataLoader(a), DataLoader(b)"),  # which one?
    ("pin_memory", "dl = DataLoader(DataLoader(a))"),
    ("pin_memory", "dl = DataLoader(ds, pin_memory=True)"),  # nothing to do
    ("pin_memory", "dl = DataLoader(ds, **options)"),  # may hold it
    ("pin_memory", "dl = DataLoader(*everything)"),
    ("pin_memory", "dl = DataLoader(x for x in y)"),  # a bare generator takes no neighbour
    ("pin_memory", "dl = DataLoaders(ds)"),
    ("pin_memory", "dl = other.DataLoader(ds)"),
    ("pin_memory", "dl = f'{DataLoader(ds)}'"),
    ("pin_memory", "dl = DataLoader"),
    ("pin_memory", "# DataLoader(ds)"),
    ("pin_memory", "s = 'DataLoader(ds)'"),
    ("pin_memory", "dl = DataLoader(ds)\nclass DataLoader: pass"),  # not torch's
    ("pin_memory", "dl = DataLoader(ds)\nfrom mine import DataLoader"),
    ("pin_memory", "dl = DataLoader(ds"),  # does not parse
    ("pin_memory", "dl = DataLoader(ds)\0"),
    ("pin_memory", "dl = DataLoader(ds, '\udc80')"),
    ("pin_memory", "dl = DataLoader(ds, pin_memory=[  # why\n    0])"),  # the comment would go
    ("drop_last", "dl = DataLoader(ds, batch_sampler=s)"),  # torch refuses both together
    ("drop_last", "dl = DataLoader(ds, batch_size=None)"),
    ("drop_last", "dl = DataLoader(ds, None)"),
    ("set_to_none", "opt.zero_grad(*a)"),
    ("set_to_none", "zero_grad()"),
    ("set_to_none", "a.zero_grad(); b.zero_grad()"),
    ("fused", "o = optim.RMSprop(ps)"),
    ("fused", "o = AdamW(ps)"),  # whose?
    ("fused", "o = optim.Adam(ps, foreach=flag)"),
    ("fused", "o = optim.Adam(ps, differentiable=True)"),
    ("fused", "o = optim.Adam(ps, foreach=False, **more)"),
    ("non_blocking", "x = x.to(torch.float16)"),  # copies to no device
    ("non_blocking", "x = x.to(dtype=torch.float16)"),
    ("non_blocking", "x = x.to(y.dtype)"),
    ("non_blocking", "x = x.to()"),
    ("non_blocking", "x = x.to(other, True)"),  # to(tensor, non_blocking)
    ("non_blocking", "x = x.to(*where)"),
    ("non_blocking", "x, y = x.to(d), y.to(d)"),
    ("non_blocking", "model.cuda()"),  # Module.cuda takes no such keyword
    ("non_blocking", "m = torch.nn.Linear(1, 1).cuda()"),
    ("non_blocking", "m = torch.load(f).cuda()"),
    ("non_blocking", "x = x.cuda()\nx = torch.zeros(1)\nx()"),
    ("non_blocking", "x = x.cuda()\nfor m in models: x, m.train()"),
    ("non_blocking", "m = m.cuda()\nfor name, m in model.named_children(): pass"),
    ("non_blocking", "def f(x): x.cuda()"),
    ("empty_cache", "x = torch.cuda.empty_cache()"),
    ("empty_cache", "torch.cuda.empty_cache(1)"),
    ("empty_cache", "torch.cuda.empty_cache(); torch.cuda.empty_cache()"),
    ("empty_cache", "mine.empty_cache()"),
]


@pytest.mark.parametrize(("name", "source"), NOTHING, ids=range(len(NOTHING)))
def test_what_is_not_sure_is_left_alone(name: str, source: str) -> None:
    assert edited(name, source) is None


def test_statements_that_share_lines() -> None:
    source = "a = 1; dl = DataLoader(\n    ds,\n); b = [\n    2\n]; c = 3\n"
    for line in (0, 1):
        assert edited("pin_memory", source, line) == source.replace("ds,\n", "ds,\n    pin_memory=True,\n")
    assert edited("pin_memory", source, 3) is None


def test_what_is_far_away_is_not_in_the_way() -> None:
    source = (
        'x = """\n"""  # torch\n\n@wrap(\n    1\n)\nclass A:\n    dl = DataLoader(ds)\n\n\ny = """ DataLoader( """\n'
    )
    assert edited("pin_memory", source, 7) == source.replace("DataLoader(ds)", "DataLoader(ds, pin_memory=True)")


def test_an_argument_that_calls_is_not_the_loader() -> None:
    source = "dl = DataLoader(\n    make(1),\n    batch_size=2,\n)\n"
    assert edited("pin_memory", source, 1) is None
    assert edited("pin_memory", source, 2) is not None


REMOVED = [
    ("torch.cuda.empty_cache()\nx = 1\n", "x = 1\n"),
    ("torch.cuda.empty_cache()", ""),
    ("empty_cache()  # frees\nx = 1\n", "  # frees\nx = 1\n"),
    ("if a: torch.cuda.empty_cache()\n", "if a: pass\n"),
    ("if a: torch.cuda.empty_cache()  # why\n", "if a: pass  # why\n"),
    ("x = 1; torch.cuda.empty_cache(); y = 2\n", "x = 1; y = 2\n"),
    ("x = 1; torch.cuda.empty_cache()\n", "x = 1\n"),
    ("x = 1; torch.cuda.empty_cache();\n", "x = 1;\n"),
    ("torch.cuda.empty_cache(); x = '🔥'\n", "x = '🔥'\n"),
    ("torch.cuda.empty_cache();\nx = 1\n", "x = 1\n"),
    ("torch.cuda.empty_cache(\n)\nx = 1\n", "x = 1\n"),
]


@pytest.mark.parametrize(("source", "wanted"), REMOVED, ids=range(len(REMOVED)))
def test_empty_cache_is_removed(source: str, wanted: str) -> None:
    assert edited("empty_cache", source) == wanted


def test_a_block_keeps_a_statement() -> None:
    loop = "for a in b:\n\ttorch.cuda.empty_cache()\n"
    assert edited("empty_cache", loop, 1) == "for a in b:\n\tpass\n"
    assert edited("empty_cache", f"{loop}\tf()\n", 1) == "for a in b:\n\tf()\n"
    assert (
        edited("empty_cache", "try:\n    f()\nfinally:\n    empty_cache()\n", 3)
        == "try:\n    f()\nfinally:\n    pass\n"
    )


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (("CMP020", "code", "Drop gradients", "optimizer.zero_grad(set_to_none=True)"), ["set_to_none"]),
        (
            ("CMP007", "code", "If it is the ragged last batch: `drop_last=True` in the DataLoader, or pad", ""),
            ["drop_last"],
        ),
        (
            ("MEM003", "code", "Use pin_memory=True and .to(device, non_blocking=True)", ""),
            ["pin_memory", "non_blocking"],
        ),
        (("SYN009", "code", "Remove torch.cuda.empty_cache() from the loop", ""), ["empty_cache"]),
        (("OOM007", "code", "Call torch.cuda.empty_cache() before the first call", ""), []),
        (("OOM007", "env", "Set fused=True in the environment", ""), []),
        (("CMP020", "code", "zero_grad(set_to_none=False) is to blame", ""), []),
    ],
)
def test_which_fix_asks_for_which_edit(said: tuple[str, str, str, str], wanted: list[str]) -> None:
    assert edits_for(*said) == wanted


def test_every_kind_is_asked_for_and_exists() -> None:
    assert {row.edit for row in ROWS} == set(all_edits())
    assert all(edit.name == name for name, edit in all_edits().items())
