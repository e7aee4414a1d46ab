"""Pickle bytes to plain data and nothing else: dicts, lists, tuples, strings, numbers, None.

PyTorch writes flight-recorder dumps as pickles, and a pickle is a program. `load` runs
only its instructions that build plain data; a pickle that names a class, calls something
or asks for a persistent object is refused. There is no `find_class` to get around: the
interpreter has no instruction that could use one.

Two ways lead to the same data. Bytes in the narrow form that torch's C++ pickler writes
(strings, memo references, numbers, lists, dicts with simple keys, pairs of strings) are
checked by a regular expression and then given to Python's C unpickler, ten times faster;
see `_written_by_torch` for why that is safe. Everything else, and everything cut or
damaged, goes through `picklemachine`, which stops at its limits and keeps what it has.

Limits: 32 MiB of bytes (a dump of 2,000 entries takes one), a million containers, sixteen
million instructions, integers of 16 bytes; no tuple in a tuple, and no dict key but
strings and integers (hashing nested tuples overflows the C stack, or takes for ever).
"""

from __future__ import annotations

import gc
import io
import re
from typing import Any, Final, NoReturn

from necropsy_parsers.picklemachine import CUT, DAMAGED, MAX_CONTAINERS, Machine, Plain, RefusedPickle

__all__ = ["CUT", "DAMAGED", "MAX_BYTES", "Plain", "RefusedPickle", "load"]

MAX_BYTES: Final = 32 << 20


def load(data: bytes) -> Plain:
    """The plain data in a pickle of protocol 2 to 5.

    Raises `RefusedPickle` if it asks for anything else; nothing has happened then.
    """
    if len(data) > MAX_BYTES:
        raise RefusedPickle(f"larger than {MAX_BYTES >> 20} MiB")
    if _written_by_torch(data):
        try:
            return Plain(_c_unpickler(data))
        except Exception:
            pass  # the other way says what is wrong
    return Machine(data).run()


# -- the fast way -----------------------------------------------------------------

_ATOM: Final = rb"(?:h.|j.{4})"  # a reference to something memoised
# With one more it makes a tuple, which nothing may memoise; the group is set where a string follows.
_PAIR: Final = rb"(?:" + _ATOM + rb"\x86(?=[hjXue])|(?=X)())?"
# A list of references (a stack's frames) is one token, which saves a quarter of the time.
# No pattern of more than a few thousand repetitions: each takes memory while it is being matched.
_TOKENS: Final = re.compile(
    rb"(?:h." + _PAIR + rb"|\]\(" + _ATOM + rb"{0,256}e|K.|M..|\(|\]|e|u|\x8a\x08.{8}|j.{4}" + _PAIR
    + rb"|N|\x88|\x89|G.{8}|J.{4}|\}|q.|r..[\x00-\x1f]\x00|a|s){0,4096}",
    re.DOTALL,
)  # fmt: skip
_MEMOISED: Final = re.compile(rb"(?:q.|r.{4})" + _ATOM + rb"?", re.DOTALL)  # what may follow a string in a pair


def _written_by_torch(data: bytes) -> bool:
    r"""Whether `data` uses only the instructions of torch's pickler, in ways that cannot harm.

    Safe for the C unpickler, since in this form no instruction names a class (GLOBAL,
    INST, EXT, ...) or calls one (REDUCE, OBJ, NEWOBJ, BUILD); strings lie within the
    data, and no length makes it allocate ahead; memo indexes stay below two million
    (LONG_BINPUT allocates up to its index); and a tuple holds two memo references or
    strings and cannot be memoised, since what follows it is a key, a value or the end
    of its container: so no tuple holds a tuple, and hashing one is cheap.
    """
    if data[:2] != b"\x80\x02" or data.count(b"]") + data.count(b"}") > MAX_CONTAINERS:
        return False
    at, end = 2, len(data)
    atoms = 0  # references and strings in a row, with nothing but a string's memo instruction between them
    while at < end:
        run = _TOKENS.match(data, at)
        after = run.end() if run else at
        if atoms and _MEMOISED.fullmatch(data, at, after):
            atoms += after - at > 5 or (data[at] == 0x71 and after - at > 2)
        else:
            atoms = 1 if run and run.lastindex else 0
        if after >= end:
            return False
        code = data[after]
        if code == 0x58:  # X: a string with its length
            at = after + 5 + int.from_bytes(data[after + 1 : after + 5], "little")
            atoms += 1
        elif code == 0x86 and atoms >= 2 and after + 1 < end and data[after + 1] in b"hjXue":
            at, atoms = after + 1, 0
        elif code == 0x2E:  # .: the end
            return after + 1 == end
        elif after > at:
            at = after  # the pattern's own limit, or something that the next round refuses
        else:
            return False
    return False


def _c_unpickler(data: bytes) -> Any:
    import pickle

    class Refusing(pickle.Unpickler):
        """Never asked, since the form was checked; a second lock on the door."""

        def find_class(self, module_name: str, global_name: str) -> NoReturn:
            raise RefusedPickle(f"it asks for {module_name}.{global_name}")

        def persistent_load(self, pid: object) -> NoReturn:
            raise RefusedPickle("it asks for a persistent object")

    # Without a buffer of that size it reads a few bytes at a time, which takes five times as long;
    # and the collector would walk all that is being built, again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return Refusing(io.BufferedReader(io.BytesIO(data), len(data) + 1)).load()
    finally:
        if collecting:
            gc.enable()
