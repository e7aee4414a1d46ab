"""Guards and the entries that list them: wordings of torch 2.1 to 2.13, and what is in no known form."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from necropsy_parsers.grammars import guard
from necropsy_parsers.grammars.guard import parse
from necropsy_parsers.messages import Message
from necropsy_parsers.messages.recompile import Recompile
from necropsy_parsers.messages.recompile import read as read_recompile
from necropsy_parsers.messages.recompile_limit import RecompileLimit
from necropsy_parsers.messages.recompile_limit import read as read_limit
from necropsy_parsers.records import UNKNOWN, Anchor, Frame
from necropsy_parsers.text.guard_failure import GuardFailure, failure, failures

from necropsy.provenance.guards import deciding, guard_place

# text -> kind, source, dim, operator, expected, actual
GUARDS: dict[str, tuple[str, str, int | None, str, str, str]] = {
    "self.steps == 3": ("int", "self.steps", None, "==", "3", ""),
    "L['self']._modules['layers']._modules['0'].k == -1": ("int", "self.layers[0].k", None, "==", "-1", ""),
    "L['scale'] == 1e-05": ("float", "scale", None, "==", "1e-05", ""),
    "scale == inf": ("float", "scale", None, "==", "inf", ""),
    "mode == 'a  # b'": ("str", "mode", None, "==", "'a  # b'", ""),
    "G['LIMIT'] == 3": ("int", "LIMIT", None, "==", "3", ""),
    "fn._modules['1'].training == True": ("bool", "fn[1].training", None, "==", "True", ""),
    "shape == (1, 2)": ("value", "shape", None, "==", "(1, 2)", ""),
    "kind == <Mode.TRAIN: 1>": ("value", "kind", None, "==", "<Mode.TRAIN: 1>", ""),
    "L['mask'] is None": ("none", "mask", None, "is", "None", ""),
    "mask is not None": ("none", "mask", None, "is not", "None", ""),
    "L['x'] is L['y']": ("alias", "x", None, "is", "y", ""),
    "tensor 'L['x']' size mismatch at index 0. expected 48, actual 41": ("size", "x", 0, "==", "48", "41"),
    "tensor 'x' stride mismatch at index 1. expected 4, actual 8": ("stride", "x", 1, "==", "4", "8"),
    "tensor 'x' rank mismatch. expected 2, actual 1": ("rank", "x", None, "==", "2", "1"),
    "tensor 'x' dtype mismatch. expected Float, actual Half": ("dtype", "x", None, "==", "Float", "Half"),
    "tensor 'x' requires_grad mismatch. expected requires_grad=0": (
        "requires_grad", "x", None, "==", "False", "True",
    ),
    "tensor 'x' Tensor device index mismatch. Expected device index to be 0, actual 1": (
        "device", "x", None, "==", "0", "1",
    ),
    "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CUDA, ADInplaceOrView), "
    "actual DispatchKeySet(CPU)": (
        "keyset", "x", None, "==", "DispatchKeySet(CUDA, ADInplaceOrView)", "DispatchKeySet(CPU)",
    ),
    "expected type of 'L['m']' to be a tensor type, ' but found <class 'NoneType'>": (
        "type", "m", None, "", "a tensor type", "<class 'NoneType'>",
    ),
    "len(L['xs']) == 2": ("length", "xs", None, "==", "2", ""),
    "len(d) != 1": ("length", "d", None, "==", "1", ""),  # C++ guards print what is
    "not L['ys']": ("length", "ys", None, "==", "0", ""),
    "L['x'].size()[0] == 4": ("size", "x", 0, "==", "4", ""),
    "2 <= x.size()[0]": ("size", "x", 0, ">=", "2", ""),
    "2 <= L['x'].size()[1] <= 1024": ("size", "x", 1, "in range", "2 <= _ <= 1024", ""),
    "x.size()[0] == y.size()[1]": ("size", "x", 0, "==", "y.size()[1]", ""),
    "Eq(s0, 8)": ("size", "s0", None, "==", "8", ""),
    "Ne(Mod(s0, 8), 0)": ("size", "Mod(s0, 8)", None, "!=", "0", ""),
    "8*x.size()[0] < 4096": ("size", "x", 0, "<", "4096", ""),
    "str(L['x'].dtype) == 'torch.float32'": ("dtype", "x", None, "==", "torch.float32", ""),
    "___check_type_id(L['y'], 1234)": ("type", "y", None, "", "", ""),
    "___check_type_id(s, 94), type=<class 'list'>": ("type", "s", None, "", "list", ""),
    "___check_obj_id(fn, 77)": ("identity", "fn", None, "", "", ""),
    "not ___dict_contains('a', L['d'])": ("membership", "d", None, "not", "'a'", ""),
    "set.__contains__(s, 'a')": ("membership", "s", None, "in", "'a'", ""),
    "not hasattr(c, 'bias')": ("attribute", "c", None, "not", "bias", ""),
    "hasattr(L['x'], '_dynamo_dynamic_indices') == False": (
        "attribute", "x", None, "not", "_dynamo_dynamic_indices", "",
    ),
    "list(dict.keys(d))[0] == 'a'": ("keys", "d", None, "==", "'a'", ""),
    "set(L['d'].keys()) == {'a'}": ("keys", "d", None, "==", "{'a'}", ""),
    "KeyError on L['d']['k']": ("missing", "d['k']", None, "KeyError", "", ""),
    "___check_global_state()": ("state", "", None, "", "", ""),
    "GLOBAL_STATE changed: grad_mode ": ("state", "grad_mode", None, "", "", ""),
    "Cache line invalidated because L['fn'] got deallocated": ("deallocated", "fn", None, "", "", ""),
    "(___skip_backend_check() or ___current_backend() == ___lookup_backend(1))": (
        "backend", "", None, "", "", "",
    ),
    "@@ nonsense": ("unknown", "", None, "", "", ""),
    "": ("unknown", "", None, "", "", ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), GUARDS.items(), ids=lambda v: v[:40] if isinstance(v, str) else "")
def test_a_guard(text: str, wanted: tuple[str, str, int | None, str, str, str]) -> None:
    g = parse(text)
    assert (g.kind, g.source, g.dim, g.operator, g.expected, g.actual) == wanted
    assert g.raw == text.strip()


@given(st.text(alphabet="LGxy_[]'\"(){}<>=!., \n#0123456789inotsel*+-/:", max_size=80))
def test_any_text_is_a_guard_or_stays_raw(text: str) -> None:
    assert parse(text).raw == text.strip()


@pytest.mark.parametrize("text", ["(" * 3000, "[" * 1900, "x == " * 300, "- " * 900 + "1", "a  # " * 20_000])
def test_hostile_guards_cost_little(text: str) -> None:
    parse("x == -1")  # builds the grammar
    began = time.process_time()
    found = failure(text)
    assert found is None or found.guard.raw
    assert time.process_time() - began < 1.0


def message(text: str) -> Message:
    return Message(text, Anchor("run.log", 0, len(text), 1), UNKNOWN, 0, 0)


def recompile(text: str) -> Recompile:
    (record,) = read_recompile(message(text))
    return record


def limit(text: str) -> RecompileLimit:
    (record,) = read_limit(message(text))
    return record


HEAD = "Recompiling function forward in /srv/net.py:63\n    triggered by the following guard failure(s):\n"


class TestEntry:
    def test_versions_stand_with_the_last_used_first(self) -> None:
        record = recompile(HEAD + "    - 4/1: self.k == 1\n    - 4/0: self.k == 0")
        assert [[(f.entry, f.guard.raw) for f in e] for e in record.entries] == [
            [("4/1", "self.k == 1")],
            [("4/0", "self.k == 0")],
        ]
        assert (record.function, record.file, record.line, record.versions) == ("forward", "/srv/net.py", 63, 2)

    def test_indentation_may_be_lost(self) -> None:
        lines = [line.strip() for line in (HEAD + "    - 4/1: self.k == 1").split("\n")]
        assert recompile("\n".join(lines)).entries[0][0].guard.raw == "self.k == 1"

    def test_a_comment_names_the_line(self) -> None:
        note = "(HINT: torch.compile considers integer attributes of the nn.Module to be static.)"
        (found,) = recompile(
            f"{HEAD}    - 4/0: k == 0    # a = b; c += 1  # d  # v/net.py:70 in <lambda> {note}"
        ).entries
        assert found[0].comment == Frame("v/net.py", 70, "<lambda>", "a = b; c += 1  # d")
        assert found[0].note.startswith("torch.compile considers integer attributes")

    def test_a_stack_belongs_to_the_reason_above(self) -> None:
        stack = '    - User stack trace:\n    -   File "/srv/net.py", line 70, in forward\n    -     self.k += 1\n'
        record = recompile(f"{HEAD}    - 4/1: self.k == 1\n{stack}    - 4/0: self.k == 0\n{stack}")
        assert [e[0].stack for e in record.entries] == [(Frame("/srv/net.py", 70, "forward", "self.k += 1"),)] * 2

    def test_verbose_entries_list_all_that_failed(self) -> None:
        body = (
            "    guard 0 failures:\n    - L['n'] == 3\n    - L['x'].size()[0] == 4\n"
            "    \n    guard 1 failures:\n    - L['n'] == 2"
        )
        assert [[f.guard.raw for f in e] for e in recompile(HEAD + body).entries] == [
            ["L['n'] == 3", "L['x'].size()[0] == 4"],
            ["L['n'] == 2"],
        ]

    def test_joined_reasons_come_apart_and_quoted_semicolons_do_not(self) -> None:
        (entry,), _ = failures(["- 0/0: a == 1  # x = 1; y = 2  # n.py:3 in f; b == 2"])
        assert [f.guard.raw for f in entry] == ["a == 1", "b == 2"]
        assert entry[0].comment == Frame("n.py", 3, "f", "x = 1; y = 2")

    def test_entries_with_one_head_are_two(self) -> None:
        text = f"{HEAD}    - 4/0: k == 0\n{HEAD.replace('forward', 'back')}    - 5/0: k == 1"
        assert [r.function for r in read_recompile(message(text))] == ["forward", "back"]

    def test_a_piece_without_its_first_lines_is_kept(self) -> None:
        record = recompile("    triggered by the following guard failure(s):\n    - 4/0: k == 0")
        assert (record.function, record.entries[0][0].guard.raw) == ("", "k == 0")

    def test_the_tuple_of_torch_21(self) -> None:
        text = "('Recompiling function f in /srv/a b.py:3', \"triggered by the following guard failure: L['n'] == 3\")"
        record = recompile(text)
        assert (record.file, record.line, record.wording) == ("/srv/a b.py", 3, "2.1")
        assert record.entries[0][0].guard.raw == "L['n'] == 3"


class TestLimit:
    def test_a_reason_with_its_stack(self) -> None:
        text = (
            "torch._dynamo hit config.recompile_limit (8)\n   function: 'f' (/srv/net.py:4)\n"
            "   last reason: 0/7: y == 7    # return x + y  # rv/net.py:5 in f\nUser stack trace:\n"
            '  File "/srv/net.py", line 5, in f\n    return x + y\n'
            'To log all recompilation reasons, use TORCH_LOGS="recompiles".\nTo diagnose recompilation issues, see https://x'
        )
        record = limit(text)
        assert record.reason is not None
        assert (record.option, record.limit, record.line, record.reason.guard.raw) == (
            "recompile_limit",
            8,
            4,
            "y == 7",
        )
        assert record.reason.stack == (Frame("/srv/net.py", 5, "f", "return x + y"),)

    def test_the_doubled_label_of_torch_21(self) -> None:
        text = (
            "torch._dynamo hit config.cache_size_limit (64)\n   function: 'f' (/srv/net.py:4)\n"
            "   reasons:    reasons: L['n'] == 3\n\nto diagnose recompilation issues, see https://x."
        )
        record = limit(text)
        assert record.reason is not None
        assert (record.reason.guard.raw, record.wording) == ("L['n'] == 3", "2.1")

    def test_no_reason_is_no_guard(self) -> None:
        text = "torch._dynamo hit config.recompile_limit (8)\n   last reason: Unable to find recompilation reasons"
        assert limit(text).reason is None


def chosen(*texts: str) -> str:
    found = deciding([[GuardFailure(t)] for t in texts])
    return found.guard.raw if found is not None else ""


class TestDeciding:
    def test_the_version_used_last_decides(self) -> None:
        assert chosen("self.k == 2", "self.k == 1") == "self.k == 2"
        assert chosen("tensor 'x' size mismatch at index 0. expected 48, actual 41", "self.k == 1").startswith("tensor")

    def test_a_version_that_came_further_decides(self) -> None:
        size = "tensor 'x' size mismatch at index 1. expected 8, actual 16"
        assert chosen("tensor 'x' requires_grad mismatch. expected requires_grad=1", size) == size
        assert chosen("GLOBAL_STATE changed: grad_mode ", size) == size
        assert chosen("self.training == True", size) == size

    def test_of_another_tensor_nothing_is_known(self) -> None:
        dtype = "tensor 'y' dtype mismatch. expected Float, actual Half"
        assert chosen(dtype, "tensor 'x' size mismatch at index 1. expected 8, actual 16") == dtype


class TestPlace:
    def test_a_cut_path_is_made_whole(self) -> None:
        found = GuardFailure("y == 7", comment=Frame("pt/app/a.py", 5, "f", "return x + y"))
        place = guard_place(found, {"/opt/app/a.py", "/opt/app/b.py"})
        assert place is not None
        assert (place.file, place.line, place.exactness) == ("/opt/app/a.py", 5, "line")

    @pytest.mark.parametrize("file", ["nn/modules/dropout.py", "_dynamo/utils.py", "transformers/models/x.py"])
    def test_a_library_is_not_accused(self, file: str) -> None:
        assert guard_place(GuardFailure("y == 7", comment=Frame(file, 5, "forward")), {"/opt/app/a.py"}) is None


PLAIN = (
    *(
        "self.steps == 3",
        "L['self']._modules['layers']._modules['0'].k == 12",
        "G['LIMIT'] == 0",
        "x[3].mode == 'train'",
    ),
    *("L['self'].name == ''", "d['a']['b'] == 7", "k == 0x1f", "a.dtype == 3", "x.is == 3", "not == 3", "inf == 2"),
    "___check_type_id(k, 140582922321120), type=<class 'int'>",
    "___check_type_id(L['self'].mask, 9441), type=<class 'a.b.List'>",
)


@pytest.mark.parametrize("text", PLAIN)
def test_plain_guards_are_told_without_the_grammar_as_with_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = parse.__wrapped__(text)
    monkeypatch.setattr(guard, "_PLAIN", re.compile("(?!)"))
    assert plain == parse.__wrapped__(text)


def test_a_log_without_recompilations_imports_no_grammar(root: Path, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("Traceback (most recent call last):\nValueError: x\n")
    code = (
        "import sys; from necropsy.commands import run; run(['analyze', 'run.log']);"
        "print('lark' in sys.modules, file=sys.stderr)"
    )
    folders = [str(root / name) for name in ("analyzer", "parsers", "lsp")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {folders}; {code}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == "False\n"
