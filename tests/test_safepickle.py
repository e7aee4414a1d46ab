"""The restricted pickle reader: what it reads is what pickle reads, and nothing else is ever done."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import random
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.flight import T0, Shared, dump, entry, frame, torch_pickle

from necropsy_parsers import picklemachine, safepickle
from necropsy_parsers.picklemachine import Machine
from necropsy_parsers.safepickle import CUT, DAMAGED, RefusedPickle, load

SCALARS: Final = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
PLAIN: Final = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.text(max_size=8) | st.integers(-5, 300), inner, max_size=6)
        | st.tuples(st.text(), st.text())
    ),
    max_leaves=30,
)


def sample() -> bytes:
    """A dump as torch writes it, with stacks that entries share."""
    stack = [frame("sync", "/home/trainer/projects/lm/train.py", 40 + i) for i in range(5)]
    entries = [entry(i, "all_reduce", i + 1, frames=stack[: i % 5 + 1], duration_ms=1.5) for i in range(12)]
    return torch_pickle(dump(entries, {"0": ("default_pg", [0, 1])}))


class Calls:
    """Pickles into a call."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def hostile(sentinel: Path) -> Iterator[tuple[str, bytes]]:
    """Pickles that do something when they are loaded; what most of them do is to make `sentinel`."""
    command = f"touch {sentinel}"
    for protocol in range(2, 6):
        yield f"os.system, protocol {protocol}", pickle.dumps(Calls(os.system, command), protocol)
        yield f"eval, protocol {protocol}", pickle.dumps(Calls(eval, f"open({str(sentinel)!r}, 'w')"), protocol)
        nested = {"version": "2.10", "pg_config": {}, "entries": [{"frames": [Calls(os.system, command)]}]}
        yield f"inside a dump, protocol {protocol}", pickle.dumps(nested, protocol)
        yield f"a call's call, protocol {protocol}", pickle.dumps(Calls(Calls, Calls(os.system, command)), protocol)
        yield f"an object, protocol {protocol}", pickle.dumps(Path(sentinel), protocol)
    quoted = command.encode()
    yield "inst", b"\x80\x02(S'" + quoted + b"'\nios\nsystem\n."
    yield "inst after a string", b"\x80\x02(X" + struct.pack("<I", len(quoted)) + quoted + b"ios\nsystem\n."
    yield "obj", b"\x80\x02(cos\nsystem\nX" + struct.pack("<I", len(quoted)) + quoted + b"o."
    yield "newobj", b"\x80\x02cbuiltins\nlist\n)\x81."
    yield "build", b"\x80\x02cbuiltins\nobject\n}b."
    yield "extension", b"\x80\x02\x82\x01."
    yield "persistent", b"\x80\x02Ppickle\n."
    yield "persistent of a value", b"\x80\x02NQ."
    yield "stack global", b"\x80\x04\x8c\x02os\x8c\x06system\x93."
    yield "global under a memo", b"\x80\x02cos\nsystem\nq\x000h\x00" + b"X\x04\x00\x00\x00true\x85R."


class TestRefusals:
    def test_nothing_happens(self, tmp_path: Path) -> None:
        sentinel = tmp_path / "made"
        for name, data in hostile(sentinel):
            if name == "inst":  # its string is of protocol 0, which is as far as reading goes
                assert load(data) == safepickle.Plain(None, DAMAGED)
                continue
            with pytest.raises(RefusedPickle) as refusal:
                load(data)
            assert str(refusal.value), name
        assert list(tmp_path.iterdir()) == []

    def test_the_samples_are_hostile(self, tmp_path: Path) -> None:
        """The same bytes do it when pickle loads them."""
        for name, data in hostile(tmp_path / "made"):
            if name.startswith(("os.system", "eval", "inside", "obj")):
                pickle.loads(data)
                assert (tmp_path / "made").exists(), name
                (tmp_path / "made").unlink()

    def test_a_refusal_names_what_was_asked_for(self) -> None:
        with pytest.raises(RefusedPickle, match=r"a class or function, posix\.system"):
            load(pickle.dumps(Calls(os.system, "true"), 2))
        with pytest.raises(RefusedPickle, match=r"builtins\.eval"):
            load(pickle.dumps(Calls(eval, "1"), 4))

    def test_a_refusal_is_printable(self) -> None:
        with pytest.raises(RefusedPickle) as refusal:
            load(b"\x80\x02c\x1b[31m\x00evil\n" + b"x" * 500 + b"\n.")
        assert str(refusal.value).isprintable()
        assert len(str(refusal.value)) < 200

    @pytest.mark.parametrize(
        "data",
        [
            b"\x80\x02]q\x00(h\x00h\x00e.",  # a list in itself
            b"\x80\x02}q\x00(X\x01\x00\x00\x00kh\x00u.",
        ],
    )
    def test_what_holds_itself_is_plain(self, data: bytes) -> None:
        assert load(data).fault == ""

    @pytest.mark.parametrize("key", [b"N", b"\x88", b"G" + bytes(8), b"K\x01K\x02\x86"])
    def test_odd_keys(self, key: bytes) -> None:
        """`True` is an integer; what the fast way lets pass is harmless, too."""
        data = b"\x80\x03}" + key + b"K\x01s."
        if key == b"\x88":
            assert load(data).value == {True: 1}
        else:
            with pytest.raises(RefusedPickle, match="key"):
                load(data)

    def test_protocols_below_two(self) -> None:
        for protocol in (0, 1):
            with pytest.raises(RefusedPickle):
                load(pickle.dumps({"entries": []}, protocol))


def doubled(levels: int, last: bytes) -> bytes:
    """A container of two of a container of two ... by the memo."""
    out = b"\x80\x02]q\x00"
    for i in range(levels):
        out += b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1])
    return out + last


class TestBombs:
    """Small pickles that ask for much: refused, or small."""

    def peak(self, data: bytes) -> int:
        """Bytes allocated at most while loading."""
        tracemalloc.start()
        try:
            load(data)
        except RefusedPickle:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return peak

    @pytest.mark.parametrize(
        "data",
        [
            b"\x80\x02X\xff\xff\xff\xff",
            b"\x80\x04\x8d" + b"\xff" * 8,
            b"\x80\x04\x8e" + b"\xff" * 7 + b"\x3f",
            b"\x80\x05\x96" + b"\xff" * 7 + b"\x3f",
            b"\x80\x02\x8b\xff\xff\xff\x7f",
            b"\x80\x02B\xff\xff\xff\xff",
            b"\x80\x04\x95" + b"\xff" * 8 + b"N.",
            b"\x80\x02Nr\xff\xff\xff\xff.",
            b"\x80\x02Nr\xff\xff\x20\x00.",
            b"\x80\x02j\xff\xff\xff\xff.",
        ],
        ids=["X", "X8", "B8", "bytearray", "long", "B", "frame", "memo", "memo at the limit", "get"],
    )
    def test_declared_lengths(self, data: bytes) -> None:
        assert self.peak(data) < 100_000
        assert self.peak(data + b"\x00" * 1000) < 100_000

    def test_billion_laughs(self) -> None:
        assert self.peak(doubled(200, b".")) < 400_000
        assert load(doubled(60, b".")).fault == ""

    def test_a_tuple_of_tuples_is_not_hashed(self) -> None:
        tuples = b"\x80\x02)q\x00" + b"".join(b"h%ch%c\x86q%c" % (i, i, i + 1) for i in range(60))
        with pytest.raises(RefusedPickle, match="nests tuples"):
            load(tuples + b"}h\x3cNs.")
        assert not safepickle._written_by_torch(tuples + b"}h\x3cNs.")

    def test_deep_nesting(self) -> None:
        deep = b"\x80\x02" + b"](" * 200_000
        assert load(deep).fault == CUT
        assert load(deep + b"e" * 200_000 + b".").fault == ""
        with pytest.raises(RefusedPickle):
            load(b"\x80\x02" + b"(" * (picklemachine.MAX_CONTAINERS + 1))

    def test_very_many_containers(self) -> None:
        with pytest.raises(RefusedPickle, match="containers"):
            load(b"\x80\x02](" + b"]" * (picklemachine.MAX_CONTAINERS + 1) + b"e.")

    def test_large_integers(self) -> None:
        with pytest.raises(RefusedPickle, match="integer of 255 bytes"):
            load(b"\x80\x02\x8a\xff" + b"\x7f" * 255 + b".")

    def test_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(safepickle, "MAX_BYTES", 1000)
        with pytest.raises(RefusedPickle, match="larger than"):
            load(b"\x80\x02(" + b"N" * 2000 + b"l.")

    def test_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(picklemachine, "MAX_STEPS", 1000)
        with pytest.raises(RefusedPickle, match="instructions"):
            load(b"\x80\x02(" + b"N" * 2000 + b"l.")


class TestPlainData:
    @given(PLAIN, st.integers(2, 5))
    def test_as_pickle_reads_it(self, value: Any, protocol: int) -> None:
        assert load(pickle.dumps(value, protocol)) == safepickle.Plain(value)

    @given(PLAIN)
    def test_as_torch_writes_it(self, value: Any) -> None:
        data = torch_pickle(value)
        assert pickle.loads(data) == value
        assert load(data).value == value
        assert Machine(data).run().value == value

    def test_torch_dumps_take_the_fast_way(self) -> None:
        assert safepickle._written_by_torch(sample())
        many = [entry(i, f"send {i % 7}->1", i, process_group=(str(i % 3), "undefined")) for i in range(600)]
        assert safepickle._written_by_torch(torch_pickle(dump(many, {})))

    def test_shared_frames_are_one_object(self) -> None:
        entries = load(sample()).value["entries"]
        assert entries[0]["frames"][0] is entries[4]["frames"][0]

    def test_without_numbers_beyond_64_bits(self) -> None:
        assert load(torch_pickle([T0, -T0, 255, 256, 65535, 65536, -1])).value == [T0, -T0, 255, 256, 65535, 65536, -1]

    def test_invalid_utf8(self) -> None:
        assert load(b"\x80\x02X\x02\x00\x00\x00\xff\xfe.").value == "\ufffd\ufffd"


class TestCutAndDamaged:
    def test_cut_everywhere(self) -> None:
        data = sample()
        whole = load(data).value
        seen = 0
        for end in range(2, len(data)):
            part = load(data[:end])
            assert part.fault in (CUT, DAMAGED)
            if isinstance(part.value, dict) and "entries" in part.value:
                entries = part.value["entries"]
                seen = max(seen, len(entries))
                assert entries[:-1] == whole["entries"][: max(0, len(entries) - 1)]
                last = whole["entries"][len(entries) - 1] if entries else {}
                assert all(last[k] == v for k, v in (entries or [{}])[-1].items() if isinstance(v, int))
        assert seen == len(whole["entries"])

    @pytest.mark.parametrize("seed", range(8))
    def test_flipped_bytes(self, seed: int) -> None:
        """No exception but the refusal, whatever stands there; and what takes the fast way is harmless."""
        chance, data = random.Random(seed), sample()
        fast = 0
        for _ in range(400):
            changed = bytearray(data)
            for _ in range(chance.randint(1, 3)):
                changed[chance.randrange(2, len(changed))] = chance.randrange(256)
            with suppress(RefusedPickle):
                load(bytes(changed))
            if safepickle._written_by_torch(bytes(changed)):
                fast += 1
                assert harmless(bytes(changed))
        assert fast

    @given(st.binary(max_size=300))
    def test_anything(self, tail: bytes) -> None:
        with suppress(RefusedPickle):
            load(b"\x80\x02" + tail)
        assert not safepickle._written_by_torch(b"\x80\x02" + tail) or harmless(b"\x80\x02" + tail)

    @given(
        st.lists(
            st.sampled_from(
                [
                    b"h\x00",
                    b"h\x01",
                    b"q\x00",
                    b"q\x01",
                    b"(",
                    b"]",
                    b"}",
                    b"e",
                    b"u",
                    b"a",
                    b"s",
                    b"N",
                    b"K\x05",
                    b"X\x01\x00\x00\x00a",
                    b"\x86",
                    b"t",
                    b"\x85",
                    b")",
                ]
            ),
            max_size=40,
        )
    )
    def test_any_order_of_instructions(self, pieces: list[bytes]) -> None:  # fmt: skip
        """Tuples that the fast way lets pass hold no tuples, in whatever order things are put on the stack."""
        data = b"\x80\x02" + b"".join(pieces) + b"."
        try:
            slow: safepickle.Plain | None = load(data)
        except RefusedPickle:
            slow = None
        if safepickle._written_by_torch(data):
            assert harmless(data)
            assert slow is not None  # no tuple in a tuple, which is refused


def harmless(data: bytes) -> bool:
    """Whether pickle's own disassembler finds only instructions that build plain data."""
    allowed = {
        "PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINGET",
        "LONG_BINGET", "BINPUT", "LONG_BINPUT", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "NONE",
        "NEWTRUE", "NEWFALSE", "BINUNICODE", "TUPLE2", "STOP",
    }  # fmt: skip
    try:
        return {op.name for op, _, _ in pickletools.genops(io.BytesIO(data))} <= allowed
    except (ValueError, UnicodeDecodeError):
        return True  # the C unpickler stops there, too


def test_the_collector_is_left_as_it_was() -> None:
    import gc

    assert gc.isenabled()
    load(sample())
    assert gc.isenabled()
    gc.disable()
    try:
        load(sample())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_writer_of_these_tests_shares_dicts() -> None:
    shared = Shared(a=1)
    assert torch_pickle([shared, shared]) == b"\x80\x02](}(X\x01\x00\x00\x00aq\x00K\x01uq\x01h\x01e."
