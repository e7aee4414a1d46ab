"""The text front end piece by piece: prefixes, votes, stamps, progress bars, attempts, and what ends a traceback."""

from __future__ import annotations

import pytest
from tests.support.reading import read

from necropsy_parsers.text.attempt import AttemptCounter
from necropsy_parsers.text.clean import pieces, split_glued, strip_ansi
from necropsy_parsers.text.exception_line import parse_exception_line
from necropsy_parsers.text.plain import TextRun
from necropsy_parsers.text.stamp import parse_stamp
from necropsy_parsers.text.traceback import PythonTraceback
from necropsy_parsers.text.vote import vote

HEAD = "Traceback (most recent call last):\n"
FRAME = '  File "/home/trainer/projects/vit/train.py", line 12, in main\n    step(batch)\n'


# -- votes ---------------------------------------------------------------------------


def lines(prefix: str, count: int = 9) -> list[str]:
    return [f"{prefix}message {n} of the job" for n in range(count)]


@pytest.mark.parametrize("prefix", ["3: ", " 3: ", "node-17: ", "node-17:2: ", "svc-1  | ", "trainer-1 | "])
def test_a_prefix_on_every_line_is_elected(prefix: str) -> None:
    assert len(vote(lines(prefix))) == 1


def test_foreign_lines_do_not_spoil_a_vote() -> None:
    assert len(vote([*lines("3: ", 7), *lines("", 3)])) == 1


@pytest.mark.parametrize(
    "head",
    [
        [],
        ["3: x"],
        lines(""),
        [*lines("3: ", 3), *lines("", 7)],
        [f"{n}: item of a numbered list" for n in range(30)],
        [f"layer{n}: 12 parameters" for n in range(30)],
        ["loss: 1", "lr: 2", "step: 3", "norm: 4"],
        ["RuntimeError: x", "ValueError: y", "KeyError: z", "OSError: a"],
    ],
)
def test_no_prefix_is_elected(head: list[str]) -> None:
    assert vote(head) == []


# -- stamps --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds", "clock"),
    [
        ("2024-05-01T12:00:00.5Z x", 1714564800.5, "date"),
        ("2024-05-01 12:00:00,500", 1714564800.5, "date"),
        ("[2024/05/01 12:00:00]", 1714564800.0, "date"),
        ("05/01/2024 12:00:00 - INFO", 1714564800.0, "date"),
        ("0501 12:00:00.250000", 957182400.25, "no-year"),
        ("May  1 12:00:00", 957182400.0, "no-year"),
        ("[12:00:01]", 43201.0, "day"),
    ],
)
def test_stamps(text: str, seconds: float, clock: str) -> None:
    stamp = parse_stamp(text)
    assert stamp is not None
    assert (stamp.seconds, stamp.clock) == (seconds, clock)


@pytest.mark.parametrize("text", ["2024-13-45 12:00:00", "12:00", "3.14", "0.0.0.0:29500", "", "99:99"])
def test_no_stamp(text: str) -> None:
    assert parse_stamp(text) is None


# -- cleaning ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("\x1b[31mRuntimeError\x1b[0m: x", "RuntimeError: x"),
        ("\x1b[1;38;5;208mx\x1b[m", "x"),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07x", "x"),
        ("[31mx[0m", "x"),
        ("x[3m]", "x[3m]"),
        ("a\x00b\x07c", "abc"),
        ("\ttab", "\ttab"),
    ],
)
def test_colours_go(raw: str, clean: str) -> None:
    assert strip_ansi(raw) == clean


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (b"plain", ["plain"]),
        (b"", [""]),
        (b"\r", [""]),
        (b" 10%|#   | 1/10 [00:01<00:09]\r 20%|##  | 2/10 [00:02<00:08]",
         [" 10%|#   | 1/10 [00:01<00:09]", " 20%|##  | 2/10 [00:02<00:08]"]),
        (b"2/10 [00:02<00:08,  1.00it/s]Traceback (most recent call last):",
         ["2/10 [00:02<00:08,  1.00it/s]", "Traceback (most recent call last):"]),
        (b"step 3[rank1]: RuntimeError: x", ["step 3", "[rank1]: RuntimeError: x"]),
        (b"see [rank1]: above", ["see [rank1]: above"]),
        ("Größe".encode("latin-1"), ["Gr\ufffd\ufffde"]),
    ],
)  # fmt: skip
def test_pieces_of_a_line(raw: bytes, parts: list[str]) -> None:
    assert pieces(raw) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("50%|#  | 5/10 Traceback (most recent call last):", 2),
        ("50%|Traceback (most recent call last):", 2),
        ("12Traceback (most recent call last):", 2),
        ("30%|/home/trainer/a.py:3: UserWarning: x", 2),
        ("no Traceback (most recent call last): in here", 1),
        ("nothing", 1),
    ],
)
def test_glued_messages_come_apart(text: str, parts: int) -> None:
    assert len(split_glued(text)) == parts


# -- exception lines ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected", "wanted"),
    [
        ("ValueError: x", False, ("ValueError", "x")),
        ("ValueError", False, ("ValueError", "")),
        ("torch.cuda.OutOfMemoryError: CUDA", False, ("torch.cuda.OutOfMemoryError", "CUDA")),
        ("KeyboardInterrupt", False, ("KeyboardInterrupt", "")),
        ("mypkg.Boom: x", True, ("mypkg.Boom", "x")),
        ("mypkg.Boom: x", False, None),
        ("StopTraining", True, ("StopTraining", "")),
        ("StopTraining", False, None),
        ("RayTaskError(ValueError): x", True, ("RayTaskError(ValueError)", "x")),
        ("ERROR: x", True, None),
        ("Warning: x", True, None),
        ("INFO: x", True, None),
        ("the ValueError: x", True, None),
        ("some words", True, None),
        ("", True, None),
        ("loss: 3.2", True, None),
        ("ValueError:x", False, None),
    ],
)
def test_exception_lines(text: str, expected: bool, wanted: tuple[str, str] | None) -> None:
    assert parse_exception_line(text, expected=expected) == wanted


# -- attempts -----------------------------------------------------------------------------


WORK = ["step 1 loss 2.0", "step 2 loss 1.9", "step 3 loss 1.8", "step 4 loss 1.7"]


@pytest.mark.parametrize(
    "announcement",
    [
        *(
            "Restarting worker group",
            "[default] Restart attempt 2",
            "$ python train.py --resume",
            "+ torchrun train.py",
        ),
        *("trainer@node-3:~/vit$ CUDA_LAUNCH_BLOCKING=1 python train.py", "requeued by the scheduler"),
    ],
)
def test_a_new_attempt_is_announced(announcement: str) -> None:
    counter = AttemptCounter()
    for line in [*WORK, announcement, *WORK]:
        counter.see(line)
    assert counter.current == 1


@pytest.mark.parametrize("line", ["$ python train.py", "Rendezvous'ing worker group", "+ torchrun train.py"])
def test_the_first_announcement_starts_nothing(line: str) -> None:
    counter = AttemptCounter()
    for text in [line, *WORK]:
        counter.see(text)
    assert counter.current == 0


@pytest.mark.parametrize("line", ["connecting, attempt 2 of 5", "import python modules", "the python train script"])
def test_other_text_starts_no_attempt(line: str) -> None:
    counter = AttemptCounter()
    for text in [*WORK, line, *WORK]:
        counter.see(text)
    assert counter.current == 0


def test_exceptions_know_their_attempt() -> None:
    trace = HEAD + FRAME + "ValueError: x\n"
    reading = read("\n".join(WORK) + "\n" + trace + "\n".join(["", "+ python train.py", *WORK, ""]) + trace)
    assert [t.attempt for t in reading.of(PythonTraceback)] == [0, 1]


# -- where a traceback ends, and what does not end it ----------------------------------------


@pytest.mark.parametrize(
    "after",
    [
        *("exit 1", "wandb: Synced 5 files", "Killed", "Epoch 3 begins", "[rank1]: other", "$ ls", HEAD.strip()),
        *("2024-05-01 12:00:00,123 INFO going on", " 10%|#   | 1/10 [00:01<00:09]", "terminate called after throwing"),
        *("srun: error: node-3: task 0: Exited with exit code 1", "slurmstepd: error: x", "real\t0m3.2s"),
        "make: *** [train] Error 1",
    ],
)
def test_what_follows_is_no_part_of_the_message(after: str) -> None:
    (trace, *_) = read(f"{HEAD}{FRAME}ValueError: x\n{after}\n").of(PythonTraceback)
    assert trace.chain[0].text == "x"
    assert len(trace.chain) == 1


@pytest.mark.parametrize(
    "more",
    [
        *(
            "CUDA kernel errors might be asynchronously reported at some other API call.",
            "\tsize mismatch for head.weight",
        ),
        *("ncclInvalidUsage: This usually reflects invalid usage.", "Last error:", "Compile with `TORCH_USE_CUDA_DSA`"),
        *("frame #0: c10::Error::Error + 0x57 (0x7f3a in libc10.so)", "  indented further", "{'a': 1}"),
        "Parameter indices which did not receive grad for rank 0: 3",
    ],
)
def test_what_torch_adds_belongs_to_the_message(more: str) -> None:
    (trace,) = read(f"{HEAD}{FRAME}RuntimeError: x\n{more}\nexit 1\n").of(PythonTraceback)
    assert trace.chain[0].detail == [more]


@pytest.mark.parametrize("foreign", ["step 12 loss 0.4", "INFO: writing", "NCCL version 2.21.5", "done 3/10"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_foreign_lines_inside_are_passed_over(foreign: str, at: int) -> None:
    rows = (HEAD + FRAME + FRAME + "ValueError: x\n").splitlines()
    rows.insert(at, foreign)
    (trace,) = read("\n".join(rows) + "\n").of(PythonTraceback)
    assert (trace.chain[0].type, len(trace.chain[0].frames)) == ("ValueError", 2)


def test_a_wrapped_frame_is_joined() -> None:
    """Terminals and cluster logs cut lines at 80 or 120 columns."""
    long = f'  File "/home/trainer/projects/{"a-very-long-folder-name/" * 3}train.py", line 12, in main'
    (trace,) = read(f"{HEAD}{long[:80]}\n{long[80:]}\n    step(batch)\nValueError: x\n").of(PythonTraceback)
    (frame,) = trace.chain[0].frames
    assert (frame.file, frame.line, frame.function) == (long.split('"')[1], 12, "main")


@pytest.mark.parametrize(
    ("text", "kind", "issue"),
    [
        (HEAD + FRAME, "plain", "text/cut-traceback"),
        (FRAME + FRAME + "ValueError: x\n", "headless", "text/headless-traceback"),
        ("Exception in thread Thread-3 (loader):\n" + HEAD + FRAME + "ValueError: x\n", "thread", None),
        ("Exception ignored in: <function A.__del__ at 0x7f>\n" + HEAD + FRAME + "ValueError: x\n", "ignored", None),
    ],
)
def test_incomplete_tracebacks_are_kept_and_named(text: str, kind: str, issue: str | None) -> None:
    reading = read(text)
    assert [t.kind for t in reading.of(PythonTraceback)] == [kind]
    assert [i.kind for i in reading.issues] == ([issue] if issue else [])


def test_a_rich_box_is_read() -> None:
    box = (
        "╭───────────────── Traceback (most recent call last) ─────────────────╮\n"
        "│ /home/trainer/projects/vit/train.py:12 in main                      │\n"
        "│                                                                     │\n"
        "│   11 def main():                                                    │\n"
        "│ ❱ 12 │   step(batch)                                                │\n"
        "│   13                                                                │\n"
        "╰─────────────────────────────────────────────────────────────────────╯\n"
        "ValueError: bad batch\n"
    )
    (trace,) = read(box).of(PythonTraceback)
    (exc,) = trace.chain
    assert (exc.type, exc.message) == ("ValueError", "bad batch")
    assert [(f.file, f.line, f.function) for f in exc.frames] == [("/home/trainer/projects/vit/train.py", 12, "main")]
    assert exc.frames[0].text == "step(batch)"


# -- plain text -------------------------------------------------------------------------------


def test_plain_text_is_counted_not_kept() -> None:
    reading = read("".join(f"prefetching shard {n}\n" for n in range(1000)))
    assert sum(r.lines for r in reading.of(TextRun)) == 1000
    assert len(reading.records) == len(reading.of(TextRun))
