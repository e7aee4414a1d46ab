"""Damage that happens to logs: cuts, flipped bytes, holes, lines of two writers run together."""

from __future__ import annotations

import random
from collections.abc import Iterator


def cuts_at_lines(data: bytes) -> Iterator[bytes]:
    """The text up to each line end, with and without the line feed."""
    end = data.find(b"\n")
    while end >= 0:
        yield data[:end]
        yield data[: end + 1]
        end = data.find(b"\n", end + 1)


def cuts_anywhere(data: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    """The text up to random bytes, and from random bytes on."""
    for _ in range(count):
        at = chance.randrange(len(data) + 1)
        yield data[:at]
        yield data[at:]


def flipped(data: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    """A few bits turned over, each time from 1 to 64 of them."""
    for _ in range(count):
        out = bytearray(data)
        for _ in range(chance.randint(1, 64)):
            if out:
                out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
        yield bytes(out)


def holes(data: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    """NUL bytes put in, and stretches that became NULs."""
    for _ in range(count):
        at = chance.randrange(len(data) + 1)
        size = chance.choice((1, 2, 3, 100, 5000))
        yield data[:at] + bytes(size) + data[at:]
        yield data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]


def lines_lost(data: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    """Lines missing, doubled and out of order, as collectors deliver them."""
    lines = data.splitlines(keepends=True)
    for _ in range(count):
        kept = [line for line in lines for _ in range(chance.choice((0, 1, 1, 1, 1, 2)))]
        for _ in range(len(kept) // 10):
            a, b = chance.randrange(len(kept)), chance.randrange(len(kept))
            kept[a], kept[b] = kept[b], kept[a]
        yield b"".join(kept)


def woven(first: bytes, second: bytes, chance: random.Random) -> bytes:
    """Two writers' lines, each whole, in random turns."""
    left, right = first.splitlines(keepends=True), second.splitlines(keepends=True)
    out: list[bytes] = []
    while left or right:
        side = left if left and (not right or chance.random() < 0.5) else right
        out.append(side.pop(0))
    return b"".join(out)


def torn(first: bytes, second: bytes, chance: random.Random) -> bytes:
    """Two writers' bytes in random turns of 1 to 200, cut inside lines."""
    out: list[bytes] = []
    a = b = 0
    while a < len(first) or b < len(second):
        size = chance.randint(1, 200)
        if b >= len(second) or (a < len(first) and chance.random() < 0.5):
            out.append(first[a : a + size])
            a += size
        else:
            out.append(second[b : b + size])
            b += size
    return b"".join(out)
