"""What is said at the end of lines that nobody reads, and shortcuts that must not change what is read."""

from __future__ import annotations

import pytest
from tests.support.reading import read
from tests.support.vocabulary import PREFIXES, SAMPLES, WORDS

from necropsy_parsers.text.attempt import AttemptCounter
from necropsy_parsers.text.plain import TextRun
from necropsy_parsers.text.prefix import Peeler

LOGGERS = (
    *("[ 12.000001] ", "V1129 12:21:04.426000 502 torch/_dynamo/guards.py:47] [4/1] ", "[W501 12:00:00.1 a.cpp:15] "),
    *("WARNING:torch._dynamo.x:", "node-3:4411:4502 [0] NCCL WARN ", "May  1 12:00:00 node-3 train.sh[4411]: "),
)


@pytest.mark.parametrize("prefix", [*PREFIXES[2:], *LOGGERS])
def test_the_writer_alone_is_that_of_the_whole_line(prefix: str) -> None:
    peeler = Peeler()
    for word in WORDS:
        for line in (prefix + word, f"[rank3]: {prefix}{word}", f"{prefix}[rank3]: {word}"):
            assert peeler.key(line) == peeler.peel(line).key


@pytest.mark.parametrize("clock", ["", "2026-05-01 12:00:0{n} "])
def test_the_last_words_of_each_rank_are_kept(clock: str) -> None:
    lines = [f"[rank{n % 3}]: {clock.format(n=n % 10)}shard {n} is ready" for n in range(40)]
    runs = read("\n".join([*lines, "[rank9]: done", ""])).of(TextRun)
    words = {r.origin.rank: (r.last, r.origin.time and r.origin.time.text) for r in runs}
    assert words == {
        **{n % 3: (f"shard {n} is ready", clock.format(n=n % 10).strip() or None) for n in (37, 38, 39)},
        9: ("done", None),
    }


@pytest.mark.parametrize(
    ("line", "begun"),
    [
        ("2 attempts left; will restart worker group", 1),
        ("Stopping worker group", 1),
        ("Job 88 was requeued", 1),
        ("DUE TO JOB REQUEUE", 1),
        ("Restarting attempt 2", 1),
        ("Restart count 1", 1),
        ("--- re-run", 1),
        ("Training attempt 2 of 5", 1),
        *(
            (f"$ {word} train.py", 1)
            for word in ("python3.11", "torchrun", "accelerate", "deepspeed", "srun", "mpirun")
        ),
        ("step 12 loss 0.4", 0),
    ],
)
def test_each_announcement_begins_an_attempt(line: str, begun: int) -> None:
    counter = AttemptCounter()
    for text in ("one", "two", "three", "an exit", line, "next"):
        counter.see(text)
    assert counter.current == begun


def test_samples_are_read_alike_with_and_without_colours() -> None:
    for text in SAMPLES:
        first = text.split("\n", 1)[0]
        bold = read(f"\x1b[1m{first}\x1b[0m\n").records
        assert [type(r) for r in bold] == [type(r) for r in read(f"{first}\n").records]
