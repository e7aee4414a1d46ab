"""A program whose lines are watched: each `note(n)` must run inside the mark of its own line, and of its callers'."""

import asyncio
import threading

from watch import note


def inner(n):
    note("inner")
    if n == 2:
        raise ValueError("unwound")
    return n


def outer(n):
    note("before")
    try:
        inner(n)
    except ValueError:
        note("handled")
    note("after")


def numbers(n):
    for i in range(n):
        note("yielding")
        yield i
    note("exhausted")


def closing():
    try:
        yield 1
        note("never")
    finally:
        note("closed")


def recursive(n):
    note("down")
    if n:
        recursive(n - 1)
    note("up")


async def waiting(n):
    note("started")
    await asyncio.sleep(0)
    note("resumed")
    return n


async def together():
    await asyncio.gather(waiting(1), waiting(2))
    note("gathered")


def main():
    outer(1)
    outer(2)
    for _ in numbers(2):
        note("consumed")
    left = closing()
    next(left)
    left.close()
    note("left")
    recursive(2)
    asyncio.run(together())
    thread = threading.Thread(target=outer, args=(2,))
    thread.start()
    thread.join()
    note(
        "several lines",
        *[str(k) for k in range(2)],
    )
    note("end")
